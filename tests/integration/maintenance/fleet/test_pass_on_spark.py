"""A whole pass over real tables: planned, maintained by Spark, reported; and the next one, which has nothing to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from clocks import MovedClock
from counted_reads import counted_reads
from fleet_lake import FleetLake
from held_jobs import held_jobs

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import Jobs, JobStatus, JobWorker, LifecyclePolicy
from airflow_snowpack.maintenance import SparkEngine
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassState
from airflow_snowpack.maintenance.fleet.progress import OUT_OF_TIME
from airflow_snowpack.maintenance.planning import Estimate
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.one_database


@pytest.fixture
def fleet(store: Store, lake: CatalogConfig, request: pytest.FixtureRequest) -> FleetLake:
    """Tables in a database of this test's own; other tests have tables in the same catalog."""
    import uuid

    return FleetLake(lake, store, f"fleet_{uuid.uuid4().hex[:8]}", only_own=True)


@pytest.fixture
def drain(fleet: FleetLake, spark: SparkSession) -> Callable[[Pass], Counter[JobStatus]]:
    def run(planned: Pass) -> Counter[JobStatus]:
        drain = fleet.fleet.drain(planned, "pod-1")
        worker = JobWorker(
            fleet.jobs,
            lambda: SparkEngine(lambda: spark, fleet.config.load, removals=Removals(fleet.jobs.store)),
            "pod-1",
            catalog_id=fleet.config.catalog_id,
            claim_next=drain.claim_next,
        )
        return drain.run(worker)

    return run


def test_a_pass_maintains_the_sick_tables_and_the_next_one_has_nothing_to_do(
    fleet: FleetLake, drain: Callable[[Pass], Counter[JobStatus]]
) -> None:
    sick = [fleet.make("sick", commits=6), fleet.make("ill", commits=4)]
    rows = {table: fleet.rows(table) for table in [*sick, fleet.make("healthy")]}
    planned = fleet.plan("night-1", Budget(tables=10, gb_hours=100, time=timedelta(hours=4)))
    assert fleet.work.submit(planned) == 2
    assert drain(planned) == {JobStatus.COMPLETED: 2}

    report = fleet.fleet.report(planned)
    entries = fleet.passes.entries(planned.pass_id)
    assert fleet.passes.get(planned.pass_id).state is PassState.ENDED
    assert [(entry.state, entry.spent and entry.spent.files_removed) for entry in entries] == [
        (EntryState.MAINTAINED, 6),
        (EntryState.MAINTAINED, 4),
    ]
    assert {table: fleet.rows(table) for table in rows} == rows
    assert report.lines()[0] == "3 tables: 0 unchanged, 1 healthy, 2 maintained, 0 failed, 0 waiting"
    spent, estimated = report.spent, report.estimated
    assert (spent.files_removed, spent.bytes_rewritten) == (estimated.files_removed, estimated.bytes_rewritten)

    with counted_reads() as reads:
        second = fleet.plan("night-2", Budget(tables=10))
    assert (second.counts["unchanged"], fleet.passes.entries(second.pass_id)) == (3, [])
    assert (reads.metadata, reads.manifests, len(reads.of_catalog)) == ([], [], 1)


def test_tables_that_were_dropped_renamed_or_changed_after_the_plan_do_not_stop_the_others(
    fleet: FleetLake, drain: Callable[[Pass], Counter[JobStatus]]
) -> None:
    for name in ("dropped", "recreated", "renamed", "rewritten", "broken", "sick"):
        fleet.make(name, commits=5)
    planned = fleet.plan("night-1", Budget(tables=10))
    fleet.work.submit(planned)
    catalog = fleet.catalog
    catalog.drop_table(fleet.name("dropped").identifier)
    catalog.drop_table(fleet.name("recreated").identifier)
    snapshot = catalog.load_table(fleet.make("recreated", commits=6).identifier).current_snapshot()
    catalog.rename_table(fleet.name("renamed").identifier, fleet.name("other").identifier)
    again = catalog.load_table(fleet.name("rewritten").identifier)
    again.overwrite(again.scan().to_arrow())
    fleet.remove_manifests(fleet.name("broken"))
    drain(planned)
    fleet.fleet.report(planned)

    entries = {entry.table.table: entry for entry in fleet.passes.entries(planned.pass_id)}
    assert {name: entry.state for name, entry in entries.items()} == {
        "dropped": EntryState.GONE,
        "recreated": EntryState.FAILED,
        "renamed": EntryState.GONE,
        "rewritten": EntryState.MAINTAINED,
        "broken": EntryState.FAILED,
        "sick": EntryState.MAINTAINED,
    }
    assert entries["dropped"].reason == "It was dropped or renamed after it was planned."
    assert "for another table of this name" in (entries["recreated"].reason or "")
    assert catalog.load_table(fleet.name("recreated").identifier).current_snapshot() == snapshot
    assert (entries["rewritten"].spent or Estimate(1)).files_removed == 0, "what another process has done already is skipped"
    assert "manifest" in (entries["broken"].reason or "").lower() or ".avro" in (entries["broken"].reason or "")


def test_a_rewrite_that_still_runs_when_the_time_of_the_pass_is_over_is_stopped_and_its_table_is_as_before(
    fleet: FleetLake, drain: Callable[[Pass], Counter[JobStatus]], spark: SparkSession, clock: MovedClock
) -> None:
    fleet.jobs = Jobs(fleet.store, LifecyclePolicy(fence_check=timedelta(milliseconds=20), lease=timedelta(days=1)))
    slow, other = fleet.make("slow", commits=6), fleet.make("other", commits=4)
    rows = {table: fleet.rows(table) for table in (slow, other)}
    planned = fleet.plan("night-1", Budget(gb_hours=100, time=timedelta(hours=4)))
    fleet.work.submit(planned)
    with held_jobs(spark, lambda: clock.move(timedelta(hours=4)), until_the_end=True):
        assert drain(planned) == {JobStatus.CANCELLED: 1}
    assert fleet.jobs.locks.get(slow) is None
    report = fleet.fleet.report(planned)
    assert {group.example for group in report.waiting} == {"Stopped after 4 h: the time of the pass is over.", OUT_OF_TIME}
    assert report.spent.gb_hours > 0
    assert {table: fleet.rows(table) for table in rows} == rows
    spent = {entry.table: entry.spent for entry in fleet.passes.entries(planned.pass_id)}
    assert spent[other] is None
