"""``airflow snowpack tables|locks|queue|sweep|drain|audit``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Run
from counted_reads import counted_reads

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, LifecyclePolicy, explain_tables
from airflow_snowpack.runners import Exchanges
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.operations import LockShape
from airflow_snowpack.wire.table import TableShape

CLICKS = TableName("lake", "demo", "clicks")


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_catalog_that_was_never_listed_is_listed_with_the_last_job_the_lock_and_the_next_step(
    snowpack: Run, jobs: Jobs, flights: TableName
) -> None:
    said = snowpack("tables", "list", "-o", "json").json

    unread = {"score": None, "condition": "not_read", "problem": None, "read_at": None}
    assert said["tables"] == [TableShape.encode(explain_tables(jobs, [flights])[flights]) | unread]
    assert 0 <= said["age_seconds"] < 60
    assert (said["problem"], said["next"]) == (None, None)

    job = jobs.submit(flights, ["expire_snapshots"])
    said = snowpack("tables", "list")

    cells = [cell.strip() for cell in said.out.splitlines()[2].split("|")]
    assert cells[:2] == ["demo.flights", "not read"]
    assert cells[2].startswith("pending ")
    assert cells[3:] == [f"job {job.job_id[:12]}", cells[4]]
    assert cells[4].startswith("Waiting for a worker")
    assert said.err.startswith("The catalog was listed ")


def test_a_new_table_is_in_the_list_after_a_refresh(snowpack: Run, flights: TableName) -> None:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

    snowpack("tables", "list")
    catalog = IcebergCatalogHook().catalog
    catalog.create_table("demo.clicks", schema=catalog.load_table("demo.flights").schema())

    assert snowpack("tables", "refresh").out == "The catalog has 2 tables.\n"
    assert snowpack("tables", "refresh", "-o", "json").json["tables"] == 2
    first = snowpack("tables", "list", "--limit", "1", "-o", "json").json
    rest = snowpack("tables", "list", "--cursor", first["next"], "-o", "json").json
    assert [table["table_name"] for table in first["tables"] + rest["tables"]] == ["clicks", "flights"]
    assert [table["table_name"] for table in snowpack("tables", "list", "--search", "CLI", "-o", "json").json["tables"]] == [
        "clicks"
    ]
    assert snowpack("tables", "list", "--database", "other").out == "No tables match the filter.\n"
    snowpack("tables", "show", "demo.flights")
    by_need = snowpack("tables", "list", "--order", "need", "--show", "never", "-o", "json").json["tables"]
    assert [table["table_name"] for table in by_need] == ["flights", "clicks"]
    assert snowpack("tables", "list", "--show", "failed").out == "No tables match the filter.\n"


def test_a_table_is_shown_in_numbers_from_its_metadata_and_again_without_opening_a_manifest(
    snowpack: Run, flights: TableName, jobs: Jobs
) -> None:
    first = snowpack("tables", "show", "demo.flights", "-o", "json").json["health"]

    with counted_reads() as reads:
        again = snowpack("tables", "show", "demo.flights", "-o", "json").json["health"]
        shown = snowpack("tables", "show", "demo.flights").out

    assert reads.manifests == []
    assert again == first
    assert sum(part["points"] for part in again["score_parts"]) == again["score"]
    assert f"{again['score']} of 100, from metadata read " in shown
    assert again["score_parts"][0]["evidence"] in shown

    told = snowpack("tables", "show", "demo.flights", "-o", "json").json
    assert (told["health"]["data_files"], told["health"]["small_files"], told["health"]["records"]) == (6, 6, 12)
    assert (told["next_step"], told["last_job"], told["problem"]) == ("No maintenance yet. The table is healthy.", None, None)

    job = jobs.submit(flights, ["expire_snapshots"])
    said = snowpack("tables", "show", "demo.flights")
    assert "6 (100 %)" in said.out
    assert job.job_id[:12] in said.out

    assert snowpack("tables", "show", "demo.nothing").code == 4
    assert snowpack("tables", "show", "nothing").code == 2


@pytest.mark.usefixtures("flights")
def test_the_metadata_of_a_table_is_its_columns_and_its_snapshots_newest_first(snowpack: Run) -> None:
    shown = snowpack("tables", "metadata", "demo.flights", "--limit", "2")
    assert re.search(r"^columns +\w+ (long|string|int)", shown.out, re.MULTILINE)
    assert re.search(r"^branches and tags +main \(branch at \d+\)$", shown.out, re.MULTILINE)
    assert len(re.findall(r"^\d+ +\| .* \| append", shown.out, re.MULTILINE)) == 2
    cursor = re.findall(r"--cursor (\d+)", shown.err)[0]
    rest = snowpack("tables", "metadata", "demo.flights", "--cursor", cursor, "-o", "json").json
    assert (len(rest["snapshots"]), rest["next"], rest["problem"]) == (4, None, None)
    assert snowpack("tables", "metadata", "demo.flights", "--limit", "1", "-o", "plain").out.count("\n") == 2
    assert snowpack("tables", "metadata", "demo.nothing").code == 4


@pytest.fixture
def no_catalog(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's service is down: nobody listens there."""
    monkeypatch.setenv("AIRFLOW_CONN_GONE", '{"conn_type": "iceberg", "host": "http://127.0.0.1:1"}')
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "gone")


@pytest.mark.usefixtures("no_catalog")
def test_without_the_catalog_a_table_is_shown_as_the_store_knows_it_and_what_needs_the_catalog_says_so(
    snowpack: Run, jobs: Jobs, identified: Callable[[str], TableName]
) -> None:
    jobs.submit(identified("demo.clicks"), ["expire_snapshots"])
    said = snowpack("tables", "show", "demo.clicks", "-o", "json")

    assert said.code == 6
    assert (said.json["health"], said.json["last_job"]["status"]) == (None, "pending")
    assert "cannot be reached" in said.json["problem"]

    for command in [
        ("tables", "refresh"),
        ("tables", "list"),
        ("tables", "metadata", "demo.clicks"),
        ("jobs", "submit", "demo.clicks"),
    ]:
        said = snowpack(*command)

        assert said.code == 6
        assert "The Iceberg catalog 'lake' cannot be reached" in said.err


# -- locks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(jobs: Jobs) -> Jobs:
    """A table that an ETL run holds, and one that a pending job holds."""
    jobs.locks.acquire(TableName("lake", "demo", "flights"), "etl/2026-11-21", ttl=timedelta(hours=4))
    jobs.submit(CLICKS, ["expire_snapshots"])
    return jobs


def test_locks_are_listed_with_their_holders_and_nobodys_is_released_by_mistake(snowpack: Run, held: Jobs) -> None:
    locks = held.locks.list()

    assert snowpack("locks", "list", "-o", "json").json == [LockShape.encode(lock) for lock in locks]
    out = snowpack("locks", "list").out
    assert "etl/2026-11-21" in out
    assert f"job {locks[1].holder[:12]}" in out

    assert snowpack("locks", "release", "demo.flights").code == 2, "no terminal, and no --yes"
    assert snowpack("locks", "release", "demo.flights", "--holder", "somebody", "--yes").code == 1
    unnamed = snowpack("locks", "release", "demo.flights", "--yes")
    assert (unnamed.code, "--holder etl/2026-11-21" in unnamed.err) == (2, True)
    job = held.locks.list()[1].holder
    assert snowpack("locks", "release", "demo.clicks", "--holder", job, "--yes").code == 5, "its job is active"
    assert len(held.locks.list()) == 2
    assert snowpack("locks", "release", "demo.flights", "--holder", "etl/2026-11-21", "--yes", "-o", "json").json["released"]
    again = snowpack("locks", "release", "demo.flights", "--yes")
    assert (again.code, again.out) == (0, "demo.flights is not locked.\n")


def test_a_lock_is_released_after_a_question_that_names_its_holder(
    snowpack: Run, held: Jobs, terminal: Callable[[str], None]
) -> None:
    terminal("y\n")
    said = snowpack("locks", "release", "demo.flights")

    assert "demo.flights was locked by etl/2026-11-21 " in said.err
    assert (said.code, said.out) == (0, "demo.flights is unlocked.\n")
    (entry,) = AuditTrail(held.store).of("lake.demo.flights")
    assert (entry.actor, entry.change) == ("ann", "release_lock")


def test_the_lock_of_a_cancelled_job_whose_worker_may_still_write_needs_force(snowpack: Run, jobs: Jobs) -> None:
    claim = jobs.submit_and_claim(CLICKS, ["expire_snapshots"], "w1")
    jobs.cancel(claim.job.job_id)
    release = ("locks", "release", "demo.clicks", "--holder", claim.job.job_id[:12], "--yes")

    assert snowpack(*release).code == 5
    assert snowpack(*release, "--force").code == 0
    assert jobs.locks.list() == []


# -- queue, sweep, drain, audit ----------------------------------------------------------------------------------------


def test_the_queue_is_told_in_numbers(snowpack: Run, jobs: Jobs) -> None:
    assert snowpack("queue", "-o", "json").json == {
        "depth": 0,
        "held": 0,
        "oldest": None,
        "oldest_seconds": None,
        "delayed": 0,
        "running": 0,
    }

    jobs.submit(CLICKS, ["expire_snapshots"])
    assert snowpack("queue", "-o", "json").json["depth"] == 1
    assert snowpack("queue").out.startswith("waiting                 1, the oldest for ")
    jobs.set_drain(True)
    assert ", until drain mode is switched off\n" in snowpack("queue").out
    assert snowpack("queue", "-o", "json").json["held"] == 1
    hours = snowpack("queue", "--history", "3", "-o", "json").json
    assert [(hour["waiting"], hour["completed"], hour["longest_wait_seconds"]) for hour in hours] == [(0, 0, None)] * 2 + [
        (1, 0, None)
    ]
    assert snowpack("queue", "--history", "3").out.count("ago") == 2
    assert snowpack("queue", "--history", "169").code == 2


def test_a_sweep_tells_what_it_took_back_and_removes_the_folder_of_a_task_that_was_killed_a_day_ago(
    snowpack: Run, installation: Path, jobs: Jobs
) -> None:
    left = Exchanges(Settings.load().runner_folder).begin("dag/run/killed/-1", "attempt")
    left.leave()
    for path in (left.folder / "in_use", left.folder):
        os.utime(path, (0, 0))
    assert snowpack("sweep").out == "Nothing to sweep.\nRemoved 1 exchange folder of killed tasks.\n"
    assert not left.folder.exists()

    assert snowpack("sweep").out == "Nothing to sweep.\n"

    hasty = Jobs(jobs.store, LifecyclePolicy(lease=timedelta(microseconds=1)))
    job = hasty.submit(CLICKS, ["expire_snapshots"])
    hasty.claim("w1")
    swept = snowpack("sweep", "-o", "json")
    assert (swept.code, swept.json["requeued"]) == (0, [job.job_id])


def test_in_drain_mode_nothing_is_swept_and_the_code_says_later(snowpack: Run) -> None:
    on = snowpack("drain", "on", "--reason", "moving the store", "-o", "json").json
    assert (on["on"], on["by"], on["reason"]) == (True, "ann", "moving the store")

    swept = snowpack("sweep")
    assert (swept.code, swept.out) == (5, "Drain mode is on: nothing is swept.\n")
    assert "Drain mode is on" in snowpack("drain", "status").out
    assert snowpack("drain", "status", "-o", "plain").out.splitlines()[0] == "on\ttrue"
    assert snowpack("drain", "off").out.startswith("Drain mode is off")
    assert snowpack("drain", "status", "-o", "json").json["on"] is False


def test_the_audit_trail_is_told_newest_first_page_by_page_and_by_subject(snowpack: Run, jobs: Jobs) -> None:
    assert snowpack("audit").out == "No changes yet.\n"
    snowpack("drain", "on", "--reason", "x")
    snowpack("drain", "off")
    job = jobs.submit(CLICKS, ["expire_snapshots"])
    snowpack("jobs", "cancel", job.job_id, "--yes")

    first = snowpack("audit", "--limit", "2", "-o", "json").json
    assert [entry["change"] for entry in first["entries"]] == ["cancel", "drain_off"]
    rest = snowpack("audit", "--cursor", str(first["next"]), "-o", "json").json
    assert ([entry["change"] for entry in rest["entries"]], rest["next"]) == (["drain_on"], None)
    for subject in (job.job_id, job.job_id[:12]):
        assert len(snowpack("audit", "--subject", subject, "-o", "json").json["entries"]) == 1
    table = snowpack("audit")
    assert [cell.strip() for cell in table.out.splitlines()[2].split("|")][1:5] == ["ann", "cli", "cancel", job.job_id[:12]]


# -- prune -------------------------------------------------------------------------------------------------------------


def made_and_ended(jobs: Jobs, age: timedelta, times: int = 3) -> list[str]:
    """Jobs of one table that were submitted and cancelled this long ago."""
    now, store = jobs.store.clock, jobs.store
    store.clock = lambda: now() - age
    made = [jobs.cancel(jobs.submit(CLICKS, ["expire_snapshots"]).job_id).job_id for _ in range(times)]
    store.clock = now
    jobs.flush()
    return made


def test_a_prune_counts_first_and_deletes_the_same_after_yes_but_nothing_that_may_be_needed(snowpack: Run, jobs: Jobs) -> None:
    for period, problem in [("6d", "The shortest period is 7d"), ("soon", "--older-than must be a duration")]:
        said = snowpack("db", "prune", "--older-than", period, "--yes")
        assert said.code == 2
        assert problem in said.err

    made_and_ended(jobs, timedelta(days=200))
    asked = ("db", "prune", "--older-than", "180d")

    planned = {row["table"]: row["would_delete"] for row in snowpack(*asked, "--dry-run", "-o", "json").json}
    assert len(jobs.list()) == 3
    refused = snowpack(*asked)
    assert refused.code == 2
    assert "Pass --yes to skip this prompt." in refused.err
    done = snowpack(*asked, "--yes", "-o", "json").json
    assert {row["table"]: row["deleted"] for row in done} == planned
    assert (planned["jobs"], planned["job_history"], planned["audit_trail"]) == (2, 4, 0)
    assert len(jobs.list()) == 1, "the newest of the table"
    (entry,) = AuditTrail(jobs.store).of("store")
    assert (entry.change, entry.via, entry.detail) == ("prune", "cli", {"older_than_seconds": 180 * 86_400})

    made_and_ended(jobs, timedelta(days=8))
    said = snowpack("db", "prune", "--older-than", "7d", "--dry-run")
    rows = [[cell.strip() for cell in line.split("|")] for line in said.out.splitlines()]
    assert ["jobs", "3"] in rows
    assert ["job_history", "6"] in rows
    assert said.err == "Would delete 9 rows.\n"
