"""``airflow snowpack interim``: which tables there are, why each stays, and dropping what nobody needs, in a real catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from answering_airflow import RunTold, answering_airflow
from interim_world import DAG, RUN, MadeInterim, handed_on, holder, make_interim

from airflow_snowpack import hooks
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store import AuditTrail

Run = Callable[..., Any]
Runs = dict[tuple[str, str], RunTold]

LATER = timedelta(minutes=2)


@pytest.fixture
def made(jobs: Jobs) -> MadeInterim:
    return make_interim(jobs.store)


@pytest.fixture
def runs() -> Runs:
    """What Airflow tells."""
    return {(DAG, RUN): RunTold("running"), (DAG, "r2"): RunTold("running")}


@pytest.fixture
def airflow(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A connection to it."""
    with answering_airflow(runs) as address:
        connection = {"conn_type": "http", "host": address, "extra": {"token": "t"}}
        monkeypatch.setenv("AIRFLOW_CONN_TEST_AIRFLOW", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__SNOWPACK__AIRFLOW_CONN_ID", "test_airflow")
        yield


def changes(jobs: Jobs) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.change, entry.subject) for entry in AuditTrail(jobs.store).latest()]


def on_disk(table: str, folder: Path, rows: int = 3) -> Path:
    """Make the table for real; gives its folder."""
    import pyarrow as pa

    catalog = hooks.IcebergCatalogHook().catalog
    with hooks.SnowpackHook() as hook:
        claim(catalog, "lake", "snowpack_interim", hook.store().identity)
    name = table.removeprefix("lake.")
    made = catalog.create_table(name, schema=pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": pa.array(range(rows), pa.int64())}))
    (found,) = folder.glob(f"**/{name.rpartition('.')[2]}")
    return found


def test_tables_are_a_list_for_people_and_bodies_for_programs_each_with_why_it_stays(
    snowpack: Run, made: MadeInterim, jobs: Jobs
) -> None:
    listed = snowpack("interim", "list").out
    for said in ("1,250,000", "clean, report", "stays", "goes", "writing"):
        assert said in listed
    body = snowpack("interim", "list", "--dag", DAG, "--run-id", "r2", "-o", "json").json
    assert {each["table_id"] for each in body["tables"]} == {made.named.table_id, made.writing}
    first = snowpack("interim", "list", "--limit", "4", "-o", "json").json
    rest = snowpack("interim", "list", "--cursor", first["next"], "-o", "json").json
    assert (len(first["tables"]), len(rest["tables"]), rest["next"]) == (4, 1, None)
    assert "--cursor" in snowpack("interim", "list", "--limit", "4").err
    assert snowpack("interim", "list", "--cursor", "bent").code == 2
    assert [each["state"] for each in snowpack("interim", "list", "--state", "writing", "-o", "json").json["tables"]] == [
        "writing"
    ]

    shown = snowpack("interim", "show", made.needed.table_id).out
    assert f"{DAG}/{RUN}/clean" in shown
    assert "not finished for good according to Airflow" in shown
    assert "A task is reading it." in shown
    assert "drops it at its next pass" in snowpack("interim", "show", made.free.table).out
    assert snowpack("interim", "show", made.kept.table_id, "-o", "json").json["preservation"] == "FULL"

    nothing = snowpack("interim", "show", "lake.snowpack_interim.flights_clean_0123456789ab4cde8f01")
    assert (nothing.code, "There is no interim table" in nothing.err) == (4, True)

    for arguments in ((), ("--dry-run",)):
        said = snowpack("interim", "collect", *arguments)
        assert said.code == 2
        assert "only Airflow knows which tasks have finished. Nothing was done." in said.err
        assert "--airflow-conn-id" in said.err
    assert (len(made.registry.tables()), changes(jobs)) == (5, [])


def test_letting_go_asks_first_and_is_noted_and_what_is_needed_stays(snowpack: Run, made: MadeInterim, jobs: Jobs) -> None:
    unasked = snowpack("interim", "drop", made.kept.table_id)
    assert (unasked.code, f"Drop {made.kept.table}?" in unasked.err, changes(jobs)) == (2, True, [])
    said = snowpack("interim", "drop", made.kept.table, made.needed.table_id, "--yes")
    assert (said.code, said.out) == (5, f"The collector drops {made.kept.table} in its next pass.\n")
    assert "is needed by" in said.err
    assert changes(jobs) == [("ann", "drop_interim", f"interim:{made.kept.table_id}")]
    assert made.registry.table(made.kept.table_id).state is TableState.DROPPING
    assert snowpack("interim", "drop", "no_such_table", "--yes").code == 4


@pytest.fixture
def ingested(jobs: Jobs, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> TableRef:
    """A table of a run that goes on, whose consumer has finished; the collector is to look at it now."""
    registry = InterimRegistry(jobs.store)
    table = handed_on(registry, holder("ingest", run_id="r1"), rows=3, consumers=["report"])
    registry.nudge(DAG, "r1")
    runs[DAG, "r1"] = RunTold("running", {"report": {-1: "success"}})
    return table


@pytest.mark.usefixtures("airflow")
def test_a_table_whose_consumers_have_finished_is_dropped_with_its_files(
    snowpack: Run, ingested: TableRef, jobs: Jobs, installation: Path
) -> None:
    folder = on_disk(ingested.table, installation)
    planned = snowpack("interim", "collect", "--dry-run", "-o", "json")
    assert [each["table"] for each in planned.json["dropped"]] == [ingested.table]
    assert (folder.exists(), changes(jobs)) == (True, [])

    said = snowpack("interim", "collect")
    assert (said.code, ingested.table in said.out, "Dropped 1 table of 1 DAG run" in said.err) == (0, True, True)
    assert not folder.exists()
    assert InterimRegistry(jobs.store).tables() == []
    assert changes(jobs) == [("ann", "collect_interim", "interim")]
    assert snowpack("interim", "collect").out == "Nothing to drop.\n"


@pytest.mark.usefixtures("airflow")
def test_what_may_still_be_read_stays_and_a_deleted_run_needs_nothing(
    snowpack: Run, ingested: TableRef, jobs: Jobs, runs: Runs, installation: Path
) -> None:
    runs[DAG, "r1"] = RunTold("running", {"report": {0: "success", 1: "up_for_retry"}})
    assert snowpack("interim", "collect", "-o", "json").json["dropped"] == []

    on_disk(ingested.table, installation)
    InterimRegistry(jobs.store).nudge(DAG, "r1")
    del runs[DAG, "r1"]
    assert [each["table"] for each in snowpack("interim", "collect", "-o", "json").json["dropped"]] == [ingested.table]


def test_an_airflow_that_does_not_answer_is_for_later(
    snowpack: Run, ingested: TableRef, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "http", "host": "http://127.0.0.1:9", "extra": {"token": "t"}}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_AIRFLOW", json.dumps(connection))
    said = snowpack("interim", "collect", "--airflow-conn-id", "test_airflow")
    assert (said.code, "does not answer" in said.err) == (6, True)
    assert len(InterimRegistry(jobs.store).tables()) == 1


@pytest.mark.usefixtures("airflow")
def test_a_drop_that_fails_is_reported_and_retried(
    snowpack: Run, ingested: TableRef, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("AIRFLOW__SNOWPACK__CATALOG_NAME", "pond")
        said = snowpack("interim", "collect")
    assert (said.code, "could not be dropped and will be retried" in said.err) == (6, True)
    assert "'lake' is not this installation's" in said.err
    shown = snowpack("interim", "show", ingested.table_id).out
    assert "has failed to drop it in 1 attempt and retries" in shown


@pytest.mark.usefixtures("airflow")
def test_a_table_whose_catalog_is_gone_for_good_can_be_forgotten_and_no_other(
    snowpack: Run, ingested: TableRef, jobs: Jobs, installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = on_disk(ingested.table, installation)
    refused = snowpack("interim", "drop", ingested.table, "--forget", "--yes")
    assert (refused.code, "no drop of it has failed yet" in refused.err) == (5, True)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("AIRFLOW__SNOWPACK__CATALOG_NAME", "pond")
        snowpack("interim", "collect")
    unasked = snowpack("interim", "drop", ingested.table, "--forget")
    assert (unasked.code, f"Remove {ingested.table} from the records" in unasked.err) == (2, True)

    said = snowpack("interim", "drop", ingested.table, "--forget", "--yes")

    assert (said.code, said.out.startswith(f"{ingested.table} was removed from the records.")) == (0, True)
    assert snowpack("interim", "show", ingested.table).code == 4
    assert left.is_dir()
    assert changes(jobs)[0] == ("ann", "forget_interim", f"interim:{ingested.table_id}")


def test_the_sweeper_drops_old_strangers_of_its_namespace_and_asks_first(
    snowpack: Run, made: MadeInterim, jobs: Jobs, installation: Path
) -> None:
    stranger = on_disk("lake.snowpack_interim.flights_clean_0123456789ab4cde8f01", installation)
    known = on_disk(made.kept.table, installation)
    on_disk("lake.snowpack_interim.somebodys_own", installation)
    assert snowpack("interim", "sweep", "--dry-run").out == "Nothing to sweep.\n", "it is not a day old"

    planned = snowpack("interim", "sweep", "--older-than", "PT0.001S", "--dry-run", "-o", "json").json
    assert [(each["kind"], each["name"]) for each in planned["swept"]] == [("table", stranger.name)]
    unasked = snowpack("interim", "sweep", "--older-than", "PT0.001S")
    assert (unasked.code, "Drop 1 table or folder?" in unasked.err, stranger.exists()) == (2, True, True)
    done = snowpack("interim", "sweep", "--older-than", "PT0.001S", "--yes")
    assert (done.code, stranger.name in done.out, "Dropped 1 table or folder" in done.err) == (0, True, True)
    assert (stranger.exists(), known.exists()) == (False, True)
    assert changes(jobs) == [("ann", "sweep_interim", "interim:orphans")]
    for age in ("often", "0s"):
        assert snowpack("interim", "sweep", "--older-than", age, "--dry-run").code == 2


@pytest.mark.usefixtures("airflow")
def test_a_table_that_was_dropped_already_is_reported_and_leaves_the_record(
    snowpack: Run, ingested: TableRef, jobs: Jobs
) -> None:
    said = snowpack("interim", "collect")
    assert (said.code, said.out) == (0, "Nothing to drop.\n")
    assert (
        f"{ingested.table} is no longer recorded, but this pass did not drop it. The catalog 'lake' no longer had it" in said.err
    )
    assert InterimRegistry(jobs.store).tables() == []


def test_the_namespace_of_another_store_is_left_alone_until_it_is_taken_over(
    snowpack: Run, jobs: Jobs, installation: Path
) -> None:
    stranger = on_disk("lake.snowpack_interim.flights_clean_0123456789ab4cde8f01", installation)
    with jobs.store.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE store_facts SET value = 'new'")  # the store was lost, and made anew
    sweep = ("interim", "sweep", "--older-than", "PT0.001S", "--yes")
    refused = snowpack(*sweep)
    assert (refused.code, stranger.exists()) == (1, True)
    assert "has the interim tables of another store" in refused.err
    assert "airflow snowpack interim adopt" in refused.err

    unasked = snowpack("interim", "adopt")
    assert (unasked.code, "Take over the namespace snowpack_interim of the catalog lake" in unasked.err) == (2, True)
    adopted = snowpack("interim", "adopt", "--yes")
    assert (adopted.code, "belongs to this store (new). It belonged to the store" in adopted.err) == (0, True)
    assert changes(jobs)[0] == ("ann", "adopt_interim", "interim:orphans")
    again = snowpack("interim", "adopt")
    assert (again.code, again.err) == (0, "The namespace snowpack_interim of the catalog lake belongs to this store (new).\n")
    assert (snowpack(*sweep).code, stranger.exists()) == (0, False)
