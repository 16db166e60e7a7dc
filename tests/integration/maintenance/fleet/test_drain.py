"""The workers of a pass: they share its jobs, resume what a lost one had claimed, and stop when they have to. No Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fleet_lake import FleetLake
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import DrainModeOn, JobStatus, JobWorker
from airflow_snowpack.maintenance.fleet import Budget, EntryState
from airflow_snowpack.maintenance.fleet.errors import PassNotPlanned, PassOfOtherCatalog

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.fleet.drain import Drain
    from airflow_snowpack.store import Store

TABLES = 5


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> FleetLake:
    lake = FleetLake(CatalogConfig.embedded(tmp_path), store)
    for number in range(TABLES):
        lake.make(f"t{number}", commits=4)
    lake.work.submit(lake.plan(workers=3))
    return lake


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
