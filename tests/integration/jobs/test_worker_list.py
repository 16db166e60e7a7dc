"""The workers, one by one: what each runs, and when it was last seen."""

from __future__ import annotations

from clocks import MovedClock
from query_plans import sent_by
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobWorker, WorkerState, list_workers
from airflow_snowpack.store.signs_of_life import Role, SignOfLife

ACTIONS = ["expire_snapshots"]


def table(number: int) -> TableName:
    return TableName("lake", "db", f"t{number}")


def test_a_worker_shows_how_many_jobs_it_has_ended_and_which_it_runs(jobs: Jobs, clock: MovedClock) -> None:
    for number in range(3):
        jobs.submit(table(number), ACTIONS)
    SignOfLife(jobs.store, Role.WORKER, "pod-8").beat()
    sign = SignOfLife(jobs.store, Role.WORKER, "pod-7")
    worker = JobWorker(jobs, ScriptedEngine, "pod-7", sign=sign)
    worker.run_once(), worker.run_once()
    jobs.claim("pod-7")
    clock.move(minutes=1)
    sign.beat()
    seen, idle = list_workers(jobs.store)
    assert (seen.name, seen.state, seen.jobs_ended) == ("pod-7", WorkerState.WORKING, 2)
    assert [claim.table for claim in seen.claims] == [table(2)]
    assert (idle.name, idle.state, idle.jobs_ended, idle.claims) == ("pod-8", WorkerState.IDLE, None, ())
    assert idle.host == seen.host is not None


def test_a_worker_that_gives_no_sign_is_gone_with_the_job_that_it_had(jobs: Jobs, clock: MovedClock) -> None:
    SignOfLife(jobs.store, Role.WORKER, "pod-7").beat()
    job = jobs.submit(table(1), ACTIONS)
    jobs.claim("pod-7")
    clock.move(minutes=6)
    (gone,) = list_workers(jobs.store)
    assert (gone.state, [claim.job_id for claim in gone.claims]) == (WorkerState.GONE, [job.job_id])


def test_the_claims_of_all_runs_of_a_task_belong_to_its_sign_and_those_of_other_tasks_stand_alone(
    jobs: Jobs, clock: MovedClock
) -> None:
    SignOfLife(jobs.store, Role.WORKER, "nightly.work", detail={"dag": "nightly"}).beat()
    claimants = ("nightly/run 1/work[0] try 1 on a:1", "nightly/run/2/work[1] try 2 on b:7", "x/r/own try 1 on c:1")
    for number, claimant in enumerate(claimants):
        jobs.submit(table(number), ACTIONS)
        assert jobs.claim(claimant) is not None
        clock.move(seconds=1)
    task, alone = list_workers(jobs.store)
    assert (task.name, [claim.table for claim in task.claims]) == ("nightly.work", [table(0), table(1)])
    assert (alone.name, alone.state, alone.seen_at) == ("x/r/own try 1 on c:1", WorkerState.WORKING, None)
    clock.move(hours=1)
    assert {worker.state for worker in list_workers(jobs.store)} == {WorkerState.GONE}


def test_the_list_of_workers_takes_two_statements(jobs: Jobs) -> None:
    for number in range(5):
        SignOfLife(jobs.store, Role.WORKER, f"pod-{number}").beat()
        jobs.submit(table(number), ACTIONS)
        jobs.claim(f"pod-{number}")
    jobs.flush()
    assert len(sent_by(jobs.store, lambda: list_workers(jobs.store))) == 2
    assert len(list_workers(jobs.store)) == 5
