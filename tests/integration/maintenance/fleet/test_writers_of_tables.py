"""Passes over tables that DAGs write to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from clocks import MovedClock
from fleet_lake import SMALL, FleetLake
from made_plans import made_plan
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import JobStatus, JobWorker
from airflow_snowpack.maintenance.fleet import EntryState, PassEntry
from airflow_snowpack.maintenance.fleet.model import PlannedTable
from airflow_snowpack.maintenance.planning import Estimate
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.maintenance.writers import DagsOfTables, WritingDag
from airflow_snowpack.store import Store


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> FleetLake:
    return FleetLake(CatalogConfig.embedded(tmp_path), store)


class Airflow:
    """Knows the DAGs, and counts how often it is asked."""

    def __init__(self, dags: DagsOfTables) -> None:
        self.dags, self.asked = dags, 0

    def __call__(self) -> DagsOfTables:
        self.asked += 1
        return self.dags


@pytest.mark.one_database
def test_a_table_whose_writer_runs_waits_with_the_reason_and_the_others_are_chosen(fleet: FleetLake) -> None:
    written, other = fleet.make("written", commits=5), fleet.make("other", commits=5)
    ingest = WritingDag("ingest", running_since=fleet.store.clock() - timedelta(minutes=3))
    airflow = Airflow(DagsOfTables({written.asset_uri: (ingest,)}))

    entries = {each.table: each for each in fleet.passes.entries(fleet.plan(dags_of_tables=airflow).pass_id)}

    assert entries[other].state is EntryState.CHOSEN
    assert entries[written].state is EntryState.WAITING
    assert (entries[written].reason or "").endswith("DAG 'ingest', which writes to the table, has been running for 3 min")
    assert airflow.asked == 1


@pytest.mark.one_database
def test_a_job_whose_writer_has_started_since_the_plan_is_postponed_and_airflow_is_asked_again_after_minutes(
    fleet: FleetLake, clock: MovedClock
) -> None:
    tables = [fleet.make(name, commits=5) for name in ("written", "other", "third")]
    airflow = Airflow(DagsOfTables())
    fleet.dags_of_tables = airflow
    planned = fleet.plan()
    fleet.work.submit(planned)
    clock.move(timedelta(hours=1))
    ingest = WritingDag("ingest", running_since=clock(), usual_duration=timedelta(minutes=5))
    airflow.dags, airflow.asked = DagsOfTables({tables[0].asset_uri: (ingest,)}), 0
    drain = fleet.fleet.drain(planned, "pod-1")
    catalog_id = fleet.config.catalog_id
    worker = JobWorker(fleet.jobs, ScriptedEngine, "pod-1", catalog_id=catalog_id, claim_next=drain.claim_next)

    assert drain.run(worker) == {JobStatus.COMPLETED: 2}
    assert airflow.asked == 1
    (entry,) = fleet.passes.entries(planned.pass_id, [EntryState.SUBMITTED])
    assert entry.table == tables[0]
    assert entry.reason == ("Waits: DAG 'ingest', which writes to the table, has been running for 0 s and usually takes 5 min")

    clock.move(timedelta(minutes=5))
    assert drain.run(worker).total() == 0, "Airflow's answer of five minutes ago still counts"
    airflow.dags = DagsOfTables()
    clock.move(timedelta(minutes=15))
    assert drain.run(worker) == {JobStatus.COMPLETED: 1}
    assert airflow.asked == 2


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("due_in", "deadline", "held_for", "waits"),
    [
        (timedelta(minutes=10), None, None, False),
        (timedelta(minutes=3, seconds=30), None, None, False),  # the plan has filled the four minutes that were left then
        (timedelta(minutes=3), None, None, True),
        (timedelta(minutes=3), timedelta(0), None, False),
        (timedelta(minutes=3), None, timedelta(hours=9), True),
        (timedelta(minutes=3), None, timedelta(hours=10), False),
    ],
)
def test_a_job_starts_if_it_ends_before_its_writer_is_due_or_has_waited_long_enough(
    fleet: FleetLake,
    clock: MovedClock,
    due_in: timedelta,
    deadline: timedelta | None,
    held_for: timedelta | None,
    waits: bool,
) -> None:
    table = fleet.name("written")
    ingest = WritingDag("ingest", next_due=clock() + due_in, usual_duration=timedelta(hours=5))
    planner = fleet.planner(dags_of_tables=lambda: DagsOfTables({table.asset_uri: (ingest,)}))
    plan, at = made_plan(table, Estimate(seconds=240.0), rewrite_data_files="…"), None if deadline is None else clock() + deadline
    entry = PassEntry(table, 0, EntryState.SUBMITTED, plan=plan, deadline=at)
    loaded = fleet.catalog.load_table(fleet.make("written").identifier)
    if held_for is not None:
        fleet.passes.remember([PlannedTable(table, None, "", True, held_since=clock() - held_for)])

    hold = planner.hold(loaded, entry)

    assert (hold is not None) == waits
    assert planner.hold(loaded, replace(entry, plan=made_plan(table, expire_snapshots="…"))) is None, (
        "its commits do not conflict"
    )


@pytest.mark.one_database
def test_a_table_that_waited_for_its_writer_is_planned_in_the_next_pass_although_it_has_not_changed(fleet: FleetLake) -> None:
    table = fleet.make("written", commits=5)
    runs = DagsOfTables({table.asset_uri: (WritingDag("ingest", running_since=fleet.store.clock()),)})
    fleet.plan("night-1", dags_of_tables=Airflow(runs))

    (entry,) = fleet.passes.entries(fleet.plan("night-2", dags_of_tables=Airflow(DagsOfTables())).pass_id)

    assert entry.state is EntryState.CHOSEN


@pytest.mark.one_database
def test_airflow_is_not_asked_if_no_table_needs_work(fleet: FleetLake) -> None:
    fleet.make("healthy")
    airflow = Airflow(DagsOfTables())

    fleet.plan(dags_of_tables=airflow)

    assert airflow.asked == 0


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("usual", "every", "held"),
    [
        (timedelta(hours=5), timedelta(hours=1), 10),
        (timedelta(hours=5), timedelta(days=1), 1),
        (timedelta(minutes=5), timedelta(hours=1), 3),
        (None, timedelta(hours=6), 4),
    ],
)
def test_a_table_waits_for_its_writers_for_twice_their_usual_duration_however_many_passes_that_is(
    fleet: FleetLake, clock: MovedClock, usual: timedelta | None, every: timedelta, held: int
) -> None:
    table = fleet.make("written", commits=5)
    states = []
    for number in range(held + 1):
        writing = WritingDag("ingest", running_since=clock() - timedelta(minutes=1), usual_duration=usual)
        runs = DagsOfTables({table.asset_uri: (writing,)})
        (entry,) = fleet.passes.entries(fleet.plan(f"pass-{number}", dags_of_tables=Airflow(runs)).pass_id)
        states.append(entry.state)
        clock.move(every)

    assert states == [*[EntryState.WAITING] * held, EntryState.CHOSEN]
    assert "so the rewrite does not wait for the DAGs that write to the table" in entry.evidence["rewrite_data_files"]


@pytest.mark.one_database
def test_a_table_whose_rewrite_waits_while_other_actions_run_has_waited_in_the_pass(fleet: FleetLake, clock: MovedClock) -> None:
    table = fleet.make("written", commits=5)
    last = fleet.catalog.load_table(table.identifier).metadata.snapshots[-1]
    clock.now = datetime.fromtimestamp(last.timestamp_ms / 1000, tz=UTC) + timedelta(days=1)
    expiry = {"thresholds": {"old_snapshots": 1}, "options": {"max_age": "1h", "retain_last": 1}}
    fleet.policies = Policies([Rule("**", actions={**SMALL, "expire_snapshots": expiry})])
    runs = DagsOfTables({table.asset_uri: (WritingDag("ingest", running_since=clock()),)})
    planned = fleet.plan(dags_of_tables=Airflow(runs))
    (entry,) = fleet.passes.entries(planned.pass_id)
    assert list(entry.evidence) == ["expire_snapshots"]

    fleet.work.submit(planned)
    claim = fleet.jobs.claim("pod-1", catalog_id=planned.catalog_id)
    assert claim is not None
    fleet.jobs.finish(claim, JobStatus.COMPLETED, [])
    fleet.work.settle(planned)

    assert fleet.passes.plan_of(table)[table.lock_key].passes_waited == 1
