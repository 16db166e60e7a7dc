"""The workers of a pass: they share its jobs, resume what a lost one had claimed, and stop when they have to. No Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clocks import MovedClock
from counted_reads import counted_reads
from fleet_lake import SMALL, FleetLake
from scripted_engine import PATIENCE_S, ScriptedEngine, eventually

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import ActionOutcome, DrainModeOn, Jobs, JobStatus, JobWorker, LifecyclePolicy
from airflow_snowpack.jobs.explanation import explain
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass
from airflow_snowpack.maintenance.fleet.drain import Drain
from airflow_snowpack.maintenance.fleet.errors import PassNotPlanned, PassOfOtherCatalog
from airflow_snowpack.maintenance.fleet.progress import OVERSPENT, RECORDED_AHEAD
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.store import Store

TABLES = 3
WATCHFUL = LifecyclePolicy(fence_check=timedelta(milliseconds=20), lease=timedelta(days=1))
"""Of workers whose clock a test moves by hours in one step."""


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> FleetLake:
    lake = lake_of(store, tmp_path)
    submitted(lake, workers=3)
    return lake


def lake_of(store: Store, tmp_path: Path, policy: LifecyclePolicy | None = None) -> FleetLake:
    lake = FleetLake(CatalogConfig.embedded(tmp_path), store)
    lake.jobs = Jobs(store, policy)
    for number in range(TABLES):
        lake.make(f"t{number}", commits=4)
    return lake


def estimated(store: Store, tmp_path: Path) -> tuple[FleetLake, list[float]]:
    """Make a lake, and estimate the GB·h of its tables."""
    lake = lake_of(store, tmp_path, WATCHFUL)
    return lake, [entry.estimate.gb_hours for entry in lake.passes.entries(lake.plan("estimate").pass_id)]


def submitted(lake: FleetLake, budget: Budget | None = None, workers: int = 1) -> Pass:
    """Plan a pass and submit its jobs."""
    planned = lake.plan(budget=budget, workers=workers)
    lake.work.submit(planned)
    return planned


def drain_of(fleet: FleetLake, worker_id: str) -> Drain:
    (planned,) = fleet.passes.list().items
    return fleet.fleet.drain(planned, worker_id)


def worker_of(fleet: FleetLake, drain: Drain, worker_id: str, engine: ScriptedEngine | None = None, **more: Any) -> JobWorker:
    engines = (lambda: engine) if engine else ScriptedEngine
    catalog_id = fleet.config.catalog_id
    return JobWorker(fleet.jobs, engines, worker_id, catalog_id=catalog_id, claim_next=drain.claim_next, **more)


def states(fleet: FleetLake) -> list[EntryState]:
    (planned,) = fleet.passes.list().items
    return [entry.state for entry in fleet.passes.entries(planned.pass_id)]


def slow(clock: MovedClock, span: timedelta) -> ScriptedEngine:
    """An engine whose first action takes so long, and does not end before it is interrupted."""
    return ScriptedEngine({"rewrite_data_files": "block"}, between=lambda _action: clock.move(span))


def test_a_job_that_still_runs_when_the_time_of_the_pass_is_over_is_stopped_and_no_other_starts(
    store: Store, tmp_path: Path, clock: MovedClock
) -> None:
    lake = lake_of(store, tmp_path, WATCHFUL)
    planned = submitted(lake, Budget(time=timedelta(hours=4)))
    drain, engine = drain_of(lake, "pod-1"), slow(clock, timedelta(hours=4))
    assert drain.run(worker_of(lake, drain, "pod-1", engine)) == {JobStatus.CANCELLED: 1}
    stopped, *rest = lake.passes.entries(planned.pass_id)
    reason = "Stopped after 4 h: the time of the pass is over."
    assert (stopped.state, stopped.reason) == (EntryState.WAITING, reason)
    assert {entry.state for entry in rest} == {EntryState.SUBMITTED}
    assert lake.jobs.locks.get(stopped.table) is None
    job = lake.jobs.get(stopped.job_id or "")
    assert (job.status, job.error, job.results[0].outcome) == (JobStatus.CANCELLED, reason, ActionOutcome.INTERRUPTED)
    assert reason in str(explain(lake.jobs, job))
    assert lake.passes.plan_of(stopped.table)[stopped.table.lock_key].passes_waited == 1, "it comes first in the next pass"
    assert lake.jobs.action_histories([stopped.table])[stopped.table].of("rewrite_data_files").failures == 1
    assert f"Waiting: 1 table: {stopped.table.dotted}: {reason}" in lake.fleet.report(planned).lines()


@pytest.mark.one_database
def test_the_retry_of_a_worker_ends_the_job_of_the_try_before_when_the_time_of_the_pass_is_over(
    store: Store, tmp_path: Path, clock: MovedClock
) -> None:
    lake = lake_of(store, tmp_path, WATCHFUL)
    planned = submitted(lake, Budget(time=timedelta(hours=4)))
    first = lake.work.claimable(planned)[0]
    assert lake.jobs.claim("dag/run/maintain#1", job_id=first.job_id, catalog_id=lake.config.catalog_id)
    clock.move(timedelta(hours=4))
    drain, engine = drain_of(lake, "dag/run/maintain#2"), ScriptedEngine()
    ended = drain.run(worker_of(lake, drain, "dag/run/maintain#2", engine, resumes="dag/run/maintain#"))
    assert (ended, engine.ran) == ({JobStatus.CANCELLED: 1}, [])
    assert lake.jobs.locks.get(first.table) is None


@pytest.mark.one_database
def test_a_job_that_needs_more_than_its_estimate_takes_it_from_the_last_tables_and_is_stopped_when_nothing_is_left(
    store: Store, tmp_path: Path, clock: MovedClock
) -> None:
    lake, estimates = estimated(store, tmp_path)
    planned = submitted(lake, Budget(gb_hours=sum(estimates) * 1.01))
    drain, engine = lake.fleet.drain(planned, "pod-1"), slow(clock, timedelta(seconds=0))
    engine.gb_hours = estimates[0] + estimates[2]
    worker = worker_of(lake, drain, "pod-1", engine)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(drain.run, worker)
        eventually(lambda: len(lake.work.claimable(planned)) == 1)
        assert not engine.interrupted.is_set(), "it has taken the part of the last table"
        engine.gb_hours = sum(estimates) * 1.02
        assert ended.result(PATIENCE_S) == {JobStatus.CANCELLED: 1}
    stopped, *rest = lake.passes.entries(planned.pass_id)
    assert stopped.reason == "Stopped after 0 s: the GB·h of the budget are used."
    assert {entry.reason for entry in rest} == {OVERSPENT}
    report = lake.fleet.report(planned)
    assert report.spent.gb_hours == pytest.approx(engine.gb_hours), "what a stopped job has used is spent"


@pytest.mark.one_database
def test_a_job_within_its_estimate_and_the_time_of_the_pass_is_not_stopped(
    store: Store, tmp_path: Path, clock: MovedClock
) -> None:
    lake, estimates = estimated(store, tmp_path)
    planned = submitted(lake, Budget(gb_hours=sum(estimates) * 1.01, time=timedelta(hours=4)))
    engine = ScriptedEngine()
    engine.gb_hours = estimates[0] * 0.9
    used = pytest.approx(estimates[0] * (0.9 + RECORDED_AHEAD))  # this engine's results do not measure it again
    drain = lake.fleet.drain(planned, "pod-1")
    assert drain.run(worker_of(lake, drain, "pod-1", engine)) == {JobStatus.COMPLETED: TABLES}
    assert [entry.spent and entry.spent.gb_hours for entry in lake.passes.entries(planned.pass_id)] == [used] * TABLES
    assert not engine.interrupted.is_set()


def test_several_workers_share_a_pass_and_each_job_runs_once(fleet: FleetLake) -> None:
    drains = {f"pod-{number}": drain_of(fleet, f"pod-{number}") for number in range(3)}

    def run(worker_id: str) -> int:
        return drains[worker_id].run(worker_of(fleet, drains[worker_id], worker_id)).total()

    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(run, drains))
    assert sum(ended) == TABLES
    assert states(fleet) == [EntryState.MAINTAINED] * TABLES
    assert [job.attempt for job in fleet.jobs.list()] == [1] * TABLES


def test_the_retry_of_a_worker_continues_with_the_job_that_the_try_before_had_claimed(fleet: FleetLake) -> None:
    (planned,) = fleet.passes.list().items
    lost = fleet.jobs.claim(
        "dag/run/maintain#1", job_id=fleet.work.claimable(planned)[2].job_id, catalog_id=fleet.config.catalog_id
    )
    assert lost is not None
    drain = drain_of(fleet, "dag/run/maintain#2")
    ended = drain.run(worker_of(fleet, drain, "dag/run/maintain#2", resumes="dag/run/maintain#"))
    assert ended == {JobStatus.COMPLETED: TABLES}
    assert fleet.jobs.get(lost.job.job_id).attempt == 2
    assert not fleet.jobs.renew(lost), "the process before does not count any more"


def test_another_worker_of_the_pass_takes_over_the_table_of_a_lost_one(fleet: FleetLake, clock: MovedClock) -> None:
    assert fleet.jobs.claim("lost", catalog_id=fleet.config.catalog_id)
    drain = drain_of(fleet, "pod-1")
    assert drain.run(worker_of(fleet, drain, "pod-1")).total() == TABLES - 1
    clock.move(timedelta(minutes=31))
    fleet.jobs.sweep()
    clock.move(timedelta(minutes=5))
    assert drain.run(worker_of(fleet, drain, "pod-1")) == {JobStatus.COMPLETED: 1}
    assert states(fleet) == [EntryState.MAINTAINED] * TABLES


@pytest.mark.one_database
def test_a_job_does_not_start_in_quiet_hours_that_have_begun_since_the_plan_and_starts_after_them(
    store: Store, tmp_path: Path, clock: MovedClock
) -> None:
    lake = FleetLake(CatalogConfig.embedded(tmp_path), store, policies=Policies([Rule("**", quiet="03:00-04:00", actions=SMALL)]))
    lake.make("t", commits=4)
    planned = submitted(lake)
    clock.move(timedelta(minutes=70))
    drain = drain_of(lake, "pod-1")
    with counted_reads() as reads:
        assert drain.run(worker_of(lake, drain, "pod-1")).total() == 0
    assert len(reads.metadata) == 1, "the load that finds out whether the table has changed"
    (entry,) = lake.passes.entries(planned.pass_id)
    assert (entry.state, entry.reason) == (EntryState.SUBMITTED, "Quiet until 2026-11-23 04:00:00 UTC")
    clock.move(timedelta(minutes=50))
    assert drain.run(worker_of(lake, drain, "pod-1")) == {JobStatus.COMPLETED: 1}
    (entry,) = lake.passes.entries(planned.pass_id)
    assert (entry.state, entry.reason) == (EntryState.MAINTAINED, None)


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("snowpack.frozen_until", "2026-11-24T00:00:00Z", "Frozen until 2026-11-24 00:00:00 UTC"),
        (
            "snowpack.skip",
            "it is restored",
            "Excluded by the policy since it was planned: it is restored (table property snowpack.skip)",
        ),
    ],
)
def test_a_table_whose_owner_stops_maintenance_after_the_plan_waits_with_that_reason(
    fleet: FleetLake, name: str, value: str, reason: str
) -> None:
    (planned,) = fleet.passes.list().items
    with fleet.catalog.load_table(fleet.name("t0").identifier).transaction() as change:
        change.set_properties({name: value})
    drain = drain_of(fleet, "pod-1")
    assert drain.run(worker_of(fleet, drain, "pod-1")) == {JobStatus.COMPLETED: TABLES - 1}
    assert [group.example for group in fleet.fleet.report(planned).waiting] == [reason]
    assert fleet.passes.entries(planned.pass_id, [EntryState.WAITING])[0].table == fleet.name("t0")


@pytest.mark.one_database
def test_no_job_is_claimed_in_drain_mode(fleet: FleetLake) -> None:
    fleet.jobs.set_drain(True, by="me")
    drain = drain_of(fleet, "pod-1")
    assert drain.run(worker_of(fleet, drain, "pod-1")).total() == 0
    assert states(fleet) == [EntryState.SUBMITTED] * TABLES


@pytest.mark.one_database
def test_a_worker_that_is_told_to_stop_claims_no_other_job(fleet: FleetLake) -> None:
    drain = drain_of(fleet, "pod-1")
    stopped = ScriptedEngine(between=lambda _action: worker.abandon("Airflow ended the task") and None)
    worker = worker_of(fleet, drain, "pod-1", stopped)
    assert drain.run(worker).total() == 1
    assert sorted(states(fleet)) == [EntryState.FAILED, *[EntryState.SUBMITTED] * (TABLES - 1)]


@pytest.mark.one_database
def test_a_signal_to_the_command_ends_its_pass_and_unlocks_all_tables(fleet: FleetLake) -> None:
    from airflow_snowpack.cli.commands.fleet import _stop as stop

    (planned,) = fleet.passes.list().items
    drain = drain_of(fleet, "pod-1")
    must_end = list[bool]()
    engine = ScriptedEngine(between=lambda _action: must_end.append(stop(fleet.fleet, planned, worker, "SIGTERM")))
    worker = worker_of(fleet, drain, "pod-1", engine)
    drain.run(worker)
    assert must_end == [True]
    assert sorted(states(fleet)) == [EntryState.FAILED, *[EntryState.WAITING] * (TABLES - 1)]
    assert fleet.passes.get(planned.pass_id).ended_at is not None
    assert fleet.jobs.locks.list() == []
    assert not stop(fleet.fleet, planned, worker, "SIGTERM"), "no job is running: the command reports as usual"


@pytest.mark.one_database
def test_a_worker_of_the_queue_may_run_jobs_of_a_pass_too(fleet: FleetLake) -> None:
    other = JobWorker(fleet.jobs, ScriptedEngine, "snowpack_workers", catalog_id=fleet.config.catalog_id)
    assert other.run_once() is JobStatus.COMPLETED
    drain = drain_of(fleet, "pod-1")
    assert drain.run(worker_of(fleet, drain, "pod-1")).total() == TABLES - 1
    assert states(fleet) == [EntryState.MAINTAINED] * TABLES


@pytest.mark.one_database
def test_a_pass_is_not_maintained_with_the_connection_of_another_catalog(fleet: FleetLake) -> None:
    """All of its tables would seem to have been dropped."""
    (planned,) = fleet.passes.list().items
    other = replace(fleet.fleet, catalog="archive", catalog_id="another")
    with pytest.raises(PassOfOtherCatalog, match="Use the same catalog_conn_id as for its plan"):
        other.drain(planned, "pod-1")
    assert states(fleet) == [EntryState.SUBMITTED] * TABLES


@pytest.mark.one_database
def test_the_id_of_a_pass_is_known_before_it_is_planned_and_a_part_of_its_jobs_is_no_success(
    store: Store, tmp_path: Path
) -> None:
    lake, known = FleetLake(CatalogConfig.embedded(tmp_path), store), list[str]()
    lake.make("t", commits=4)
    lake.plan("night/1/plan")

    def stop(pass_id: str) -> None:
        known.append(pass_id)
        lake.jobs.set_drain(True, by="me")

    with pytest.raises(DrainModeOn):
        lake.fleet.start("night/1/plan", Budget(tables=100), workers=1, holder="pod-1", begun=stop)
    (planned,) = lake.passes.list().items
    assert known == [planned.pass_id]
    lake.fleet.report(planned)
    with pytest.raises(PassNotPlanned, match="ended before all of its jobs were submitted"):
        lake.fleet.refuse_if_not_planned(planned.pass_id)
