"""The collector as a task: what Airflow reports, what is dropped, and how the report explains the rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from interim_world import DAG, handed_on, holder

from airflow_snowpack import hooks, operators
from airflow_snowpack.iceberg.table_properties import STORE
from airflow_snowpack.interim.collection.dropping import Dropper
from airflow_snowpack.interim.errors import DropFailed
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.preservation import Preservation
from tests.unit.faces.conftest import no_answer

Collect = Callable[..., Any]

STRANGER = "flights_clean_0123456789ab4cde8f01"


@pytest.fixture
def reported() -> dict[str, Any]:
    """What Airflow reports: the state of each run, and the states of its tasks."""
    return {"r1": ("running", {"report": "success", "audit": None})}


@pytest.fixture
def collect(run_operator: Any, reported: dict[str, Any]) -> Collect:
    """Run the operator in Airflow's task runner, with a supervisor that reports that."""
    from airflow.sdk.execution_time import comms

    def run(message: Any) -> Any:
        from airflow.sdk.api.datamodels._generated import DagRunState

        return comms.DagRunStateResult.model_construct(state=DagRunState(reported[message.run_id][0]))

    def states(message: Any) -> Any:
        (task_id,) = message.task_ids
        known = {run_id: reported[run_id][1] for run_id in message.run_ids if task_id in reported[run_id][1]}
        return comms.TaskStatesResult.model_construct(task_states={each: {task_id: of[task_id]} for each, of in known.items()})

    run_operator.supervisor.answers |= {"GetDagRunState": run, "GetTaskStates": states}
    return lambda **arguments: run_operator(operators.CollectInterimTablesOperator(task_id="collect", **arguments))


@pytest.fixture
def registry(jobs: Jobs) -> InterimRegistry:
    return InterimRegistry(jobs.store)


def made(registry: InterimRegistry, task_id: str, *consumers: str, preservation: Preservation = Preservation.NONE) -> str:
    """A table that is in the catalog and due for a check."""
    import pyarrow as pa

    who = holder(task_id, run_id="r1")
    ref = handed_on(registry, who, rows=3, consumers=list(consumers), preservation=preservation)
    registry.nudge(DAG, "r1")
    catalog = hooks.IcebergCatalogHook().catalog
    claim(catalog, "lake", "snowpack_interim", registry.store.identity)
    catalog.create_table(ref.table.removeprefix("lake."), schema=pa.schema([("id", pa.int64())]))
    return ref.table


def in_catalog(table: str) -> bool:
    return bool(hooks.IcebergCatalogHook().catalog.table_exists(table.removeprefix("lake.")))


def test_what_no_task_needs_is_dropped_and_the_report_explains_the_rest(collect: Collect, registry: InterimRegistry) -> None:
    read, waiting = made(registry, "ingest", "report"), made(registry, "clean", "audit")
    kept = made(registry, "features", preservation=Preservation.FULL)
    outcome = collect()
    assert outcome.state == "success"
    report = outcome.xcom
    assert report["dropped"] == [{"table": read, "rows": 3, "made_by": f"{DAG}/r1/ingest/return_value"}]
    assert (report["runs"], report["dropped_count"], report["failed_count"], report["dry_run"]) == (1, 1, 0, False)
    assert {each["table"] for each in report["stays"]} == {waiting, kept}
    because = {each["table"]: each["reason"] for each in report["stays"]}
    assert f"Needed by {DAG}/r1/audit" in because[waiting]
    assert "Preserved without end" in because[kept]
    assert (in_catalog(read), in_catalog(waiting), in_catalog(kept)) == (False, True, True)


def test_a_dry_run_reports_the_same_and_drops_nothing(collect: Collect, registry: InterimRegistry) -> None:
    table = made(registry, "ingest", "report")
    report = collect(dry_run="{{ True }}").xcom
    assert (report["dry_run"], [each["table"] for each in report["dropped"]], in_catalog(table)) == (True, [table], True)
    assert [each["table"] for each in collect().xcom["dropped"]] == [table]


def test_one_that_cannot_be_dropped_is_in_the_report_and_keeps_no_other(
    collect: Collect, registry: InterimRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, free = made(registry, "ingest", "report"), made(registry, "clean", "report")
    drop = Dropper.drop

    def stuck_once(self: Dropper, table: Any) -> None:
        if str(table.table) == stuck:
            raise DropFailed(stuck, OSError("access denied"))
        drop(self, table)

    with monkeypatch.context() as storage:
        storage.setattr(Dropper, "drop", stuck_once)
        outcome = collect(sweep=False)
    assert outcome.state == "success"
    assert [each["table"] for each in outcome.xcom["dropped"]] == [free]
    assert "access denied" in outcome.xcom["failed"][0]["error"]
    assert (in_catalog(stuck), registry.table(stuck).error is not None) == (True, True)


def test_strangers_of_the_namespace_are_swept_when_they_are_old_enough(collect: Collect, registry: InterimRegistry) -> None:
    import pyarrow as pa

    kept = made(registry, "features", preservation=Preservation.FULL)
    hooks.IcebergCatalogHook().catalog.create_table(f"snowpack_interim.{STRANGER}", schema=pa.schema([("id", pa.int64())]))
    assert collect().xcom["swept"] == []
    assert collect(sweep=False, sweep_after=timedelta(microseconds=1)).xcom["swept"] == []
    looked = collect(sweep_after="PT0.001S", dry_run=True).xcom
    assert [(each["kind"], each["name"], each["error"]) for each in looked["swept"]] == [("table", STRANGER, None)]
    assert collect(sweep_after="PT0.001S").xcom["swept_count"] == 1
    assert (in_catalog(f"lake.snowpack_interim.{STRANGER}"), in_catalog(kept)) == (False, True)


def test_the_namespace_of_another_store_is_not_swept_and_the_reason_is_reported(
    collect: Collect, registry: InterimRegistry
) -> None:
    import pyarrow as pa

    table = made(registry, "ingest", "report")
    catalog = hooks.IcebergCatalogHook().catalog
    catalog.create_table(f"snowpack_interim.{STRANGER}", schema=pa.schema([("id", pa.int64())]))
    catalog.update_namespace_properties("snowpack_interim", updates={STORE: "another"})

    report = collect(sweep_after="PT0.001S").xcom

    assert "has the interim tables of another store (another)" in report["not_swept"]
    assert "[snowpack] interim_namespace" in report["not_swept"]
    assert (report["swept"], in_catalog(f"lake.snowpack_interim.{STRANGER}")) == ([], True)
    assert [each["table"] for each in report["dropped"]] == [table], "what this store has on record goes all the same"


def test_an_airflow_that_does_not_answer_fails_the_task_and_nothing_goes(
    collect: Collect, registry: InterimRegistry, run_operator: Any
) -> None:
    table = made(registry, "ingest", "report")
    run_operator.supervisor.answers["GetDagRunState"] = no_answer
    outcome = collect()
    assert (outcome.state, "connection refused" in str(outcome.error), in_catalog(table)) == ("up_for_retry", True, True)


def test_arguments_that_cannot_be_read_fail_the_task_for_good(collect: Collect) -> None:
    for arguments in [{"sweep_after": "often"}, {"sweep_after": "0s"}, {"dry_run": "perhaps"}, {"sweep": "some"}]:
        outcome = collect(**arguments)
        assert outcome.state == "failed"
        assert next(iter(arguments)) in str(outcome.error)
