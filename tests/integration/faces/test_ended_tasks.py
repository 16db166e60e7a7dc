"""What tasks leave in the store when Airflow ends them while they wait: the sweep ends it, and nothing that is still awaited.

Airflow is a real HTTP server that answers as its REST API does; the store is real, on both databases.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from answering_airflow import RunTold, answering_airflow
from clocks import MovedClock
from made_plans import made_plan

from airflow_snowpack.hooks.ended_tasks import sweep
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery
from airflow_snowpack.jobs import Job, JobStatus, SweepReport
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.fleet.model import PassState
from airflow_snowpack.maintenance.fleet.progress import PassWork
from airflow_snowpack.scheduling import Gate, GatePlace, MaxConcurrent
from airflow_snowpack.scheduling.pending_runs.gated_runs import waiting_at_gates
from airflow_snowpack.store import open_store

GONE = None
"""A run that was deleted, with its DAG or alone."""
WAITS = ["scheduled", "queued", "running", "restarting", "deferred", "up_for_retry", "up_for_reschedule"]
"""The states of a task instance that waits, or that waits for its next try."""
ENDED = ["success", "failed", "skipped", "upstream_failed", "removed", None]
"""Its final states, and none: it was cleared."""


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def installation(store_url: str, clock: MovedClock) -> Iterator[Installation]:
    installation = Installation(open_store(store_url, clock=clock))
    yield installation
    installation.close()


def table(name: str) -> TableName:
    return TableName("lake", "demo", name, "c0ffee")


def swept(installation: Installation, runs: dict[tuple[str, str], RunTold]) -> SweepReport:
    with answering_airflow(runs) as address:
        return swept_by(installation, address)


def swept_by(installation: Installation, address: str) -> SweepReport:
    from airflow_snowpack.hooks.api_client import AirflowRest
    from airflow_snowpack.hooks.run_states import RestRunStates

    with AirflowRest(address, token="t") as rest:
        return sweep(installation, RestRunStates(rest))


def awaited_job(installation: Installation, name: str, owner: str | None, *, awaited: bool = True) -> Job:
    return installation.jobs.submit(table(name), ["expire_snapshots"], owner=owner, awaited=awaited)


def test_a_job_is_cancelled_when_no_try_of_its_task_waits_for_it_and_in_no_other_case(installation: Installation) -> None:
    """Each state of a task instance, mapped or not, in a run that goes on, has ended or is gone."""
    runs: dict[tuple[str, str], RunTold] = {}
    doomed, stays = set(), set()

    def own(name: str, run: RunTold | None, task: str, *, is_over: bool) -> None:
        if run is not None:
            runs["dag", name] = run
        (doomed if is_over else stays).add(awaited_job(installation, name, f"dag/{name}/{task}").job_id)

    for state in (*WAITS, *ENDED):
        own(f"plain_{state}", RunTold("running", {"clean": {-1: state}}), "clean", is_over=state in ENDED)
        mapped = {"clean": {0: "success", 3: state, 4: "deferred"}}
        own(f"mapped_{state}", RunTold("running", mapped), "clean[3]", is_over=state in ENDED)
    own("over", RunTold("failed", {"clean": {-1: "deferred"}}), "clean", is_over=True)
    own("still_running", RunTold("failed", {"clean": {-1: "running"}}), "clean", is_over=False)
    own("no_instance", RunTold("running", {}), "clean", is_over=True)
    own("deleted", GONE, "clean", is_over=True)

    assert set(swept(installation, runs).cancelled) == doomed
    for job_id in doomed:
        job = installation.jobs.get(job_id)
        assert (job.status, job.cancelled_by) == (JobStatus.CANCELLED, job.owner), "its next try submits it again"
        assert (job.error or "").startswith("Its task "), job.error
        assert installation.locks.get(job.table) is None
    assert {installation.jobs.get(job_id).status for job_id in stays} == {JobStatus.PENDING}
    assert set(swept(installation, runs).cancelled) == set(), "a second sweep finds nothing"


def test_a_running_job_of_an_ended_task_loses_its_fence_and_keeps_its_table_locked(installation: Installation) -> None:
    job = awaited_job(installation, "a", "dag/r1/clean")
    claim = installation.jobs.claim("pod-1", job_id=job.job_id, catalog_id="c0ffee")
    assert claim is not None
    assert swept(installation, {("dag", "r1"): RunTold("running", {"clean": {-1: "failed"}})}).cancelled == (job.job_id,)
    assert not installation.jobs.renew(claim)
    assert installation.locks.get(table("a")) is not None, "its worker unlocks the table when it has left it"


def test_a_job_that_no_task_waits_for_is_left_to_its_worker(installation: Installation) -> None:
    own = [
        awaited_job(installation, "submitted", "dag/r1/submit", awaited=False),
        awaited_job(installation, "by_a_user", None),
        awaited_job(installation, "by_a_name", "vera"),
    ]
    inline = awaited_job(installation, "inline", "dag/r1/clean")
    installation.jobs.take_over(inline.job_id, "task-1", owner="dag/r1/clean")
    assert swept(installation, {}).cancelled == ()
    assert [installation.jobs.get(job.job_id).status for job in own] == [JobStatus.PENDING] * 3
    assert installation.jobs.get(inline.job_id).status is JobStatus.RUNNING


@pytest.mark.parametrize("outage", ["down", "proxy"])
@pytest.mark.one_database
def test_nothing_is_ended_while_airflow_does_not_report_it(installation: Installation, clock: MovedClock, outage: str) -> None:
    job, planned = awaited_job(installation, "a", "dag/r1/clean"), pass_of(installation, "dag/r1/plan")
    clock.now += timedelta(hours=1)
    if outage == "down":
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        report = swept_by(installation, address)
    else:
        with answering_airflow({}) as address:
            report = swept_by(installation, f"{address}/elsewhere")  # its 404 is a proxy's
    assert report.cancelled == ()
    assert installation.jobs.get(job.job_id).status is JobStatus.PENDING
    assert installation.fleet_passes.get(planned.pass_id).ended_at is None


@pytest.mark.one_database
def test_nothing_is_ended_in_drain_mode(installation: Installation) -> None:
    job = awaited_job(installation, "a", "dag/r1/clean")
    installation.jobs.set_drain(True)
    assert swept(installation, {}).paused
    assert installation.jobs.get(job.job_id).status is JobStatus.PENDING


@pytest.mark.parametrize(
    ("run", "is_released"),
    [
        (RunTold("success"), True),
        (RunTold("failed"), True),
        (RunTold("running"), False),
        (RunTold("queued"), False),
        (GONE, False),  # a name of a user's own looks the same, and its holder may still write
    ],
)
def test_a_lock_is_released_when_its_dag_run_has_ended_and_in_no_other_case(
    installation: Installation, run: RunTold | None, is_released: bool
) -> None:
    locks = installation.locks
    for name, holder in (("of_run", "etl/r1"), ("of_name", "etl"), ("of_longer", "etl/r1/write")):
        locks.acquire(table(name), holder, ttl=timedelta(hours=4))
    awaited_job(installation, "of_job", None)
    report = swept(installation, {} if run is None else {("etl", "r1"): run})
    left = {lock.table.table for lock in locks.list()}
    assert {"of_run", "of_name", "of_longer", "of_job"} - left == ({"of_run"} if is_released else set())
    assert report.unlocked == (("lake.demo.of_run",) if is_released else ())


def test_a_lock_that_a_cleared_run_renews_while_airflow_is_asked_stays(installation: Installation, clock: MovedClock) -> None:
    def lock() -> None:
        installation.locks.acquire(table("a"), "etl/r1", ttl=timedelta(hours=4))

    class ClearedMeanwhile:
        def read(self, queries: Sequence[RunQuery]) -> dict[tuple[str, str], DagRunState]:
            clock.now += timedelta(seconds=1)
            lock()
            return {(each.dag_id, each.run_id): DagRunState(RunPhase.OVER) for each in queries}

    lock()
    assert sweep(installation, ClearedMeanwhile()).unlocked == ()
    assert installation.locks.get(table("a")) is not None


def pass_of(installation: Installation, owner: str) -> Pass:
    """A planned pass with one job in the queue."""
    passes = installation.fleet_passes
    planning = passes.begin(owner, "lake", "c0ffee", Budget(tables=9), workers=1, holder="worker-1")
    name = table(owner.replace("/", "_"))
    planned = passes.plan(
        planning, [PassEntry(name, 0, EntryState.CHOSEN, plan=made_plan(name, expire_snapshots="3 old"))], [], {}
    )
    assert PassWork(passes, installation.jobs).submit(planned) == 1
    return planned


@pytest.mark.parametrize(
    ("run", "ends"),
    [(RunTold("running", {"plan": {-1: "success"}}), False), (RunTold("success"), True), (RunTold("failed"), True), (GONE, True)],
)
def test_a_pass_ends_with_its_dag_run_and_frees_the_tables_that_no_worker_claimed(
    installation: Installation, run: RunTold | None, ends: bool
) -> None:
    planned = pass_of(installation, "nightly/r1/plan")
    swept(installation, {} if run is None else {("nightly", "r1"): run})
    state = installation.fleet_passes.get(planned.pass_id).state
    assert (state is PassState.ENDED, installation.locks.list() == []) == (ends, ends)


class QuietAirflow:
    """No DAG runs."""

    def dag_runs(self, known: Any) -> dict[str, Any]:
        from airflow_snowpack.scheduling.airflow_port import DagRuns

        return dict.fromkeys(known, DagRuns(1, {}))


def test_a_run_whose_task_ended_at_its_gate_no_longer_waits_there(installation: Installation, clock: MovedClock) -> None:
    store = installation.store
    for run_id in ("failed", "waits", "cleared", "seen"):
        Gate(store, QuietAirflow(), GatePlace("dag", run_id, "gate"), [MaxConcurrent(1)]).ask()  # type: ignore[arg-type]  # as far as gates ask
    clock.now += timedelta(hours=1)
    Gate(store, QuietAirflow(), GatePlace("dag", "seen", "gate"), [MaxConcurrent(1)]).ask()  # type: ignore[arg-type]  # as far as gates ask
    states = {"failed": "failed", "waits": "deferred", "cleared": None, "seen": "failed"}
    swept(installation, {("dag", run_id): RunTold("running", {"gate": {-1: state}}) for run_id, state in states.items()})
    left = store.read(waiting_at_gates)
    assert [run.place.run_id for run in left] == ["seen", "waits"], "one that was seen a moment ago is asked about later"
