"""Two catalogs with one name: each job stays with its own catalog from submit to its end, and so does each lock."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

import pytest
from clocks import MovedClock
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import CatalogUnreachable, TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    JobFilter,
    Jobs,
    JobStatus,
    JobWorker,
    KeyUsedBefore,
    LifecyclePolicy,
    TableLocked,
    explain,
    explain_tables,
)
from airflow_snowpack.jobs.history import record_change
from airflow_snowpack.jobs.model import TableChange
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Actor, Store

A, B, C = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
ACTIONS = ["expire_snapshots"]
VERA = Actor("vera", via="api")


def orders(catalog_id: str, catalog: str = "lake") -> TableName:
    return TableName(catalog, "sales", "orders", catalog_id)


def test_a_worker_claims_only_jobs_of_the_catalog_that_it_reaches(jobs: Jobs) -> None:
    theirs, mine = jobs.submit(orders(B), ACTIONS), jobs.submit(orders(A), ACTIONS)

    assert jobs.claim("worker of A", job_id=theirs.job_id, catalog_id=A) is None
    claim = jobs.claim("worker of A", catalog_id=A)
    assert (claim.job.job_id, claim.job.table) == (mine.job_id, orders(A))
    assert jobs.claim("worker of A", catalog_id=A) is None
    assert jobs.get(theirs.job_id).status is JobStatus.PENDING

    other = jobs.claim("worker of B", catalog_id=B)
    assert other.job.table == orders(B)


def test_a_long_queue_of_another_catalog_is_not_ahead_of_a_job(jobs: Jobs, clock: MovedClock) -> None:
    for number in range(5):
        jobs.submit(TableName("lake", "sales", f"t{number}", B), ACTIONS)
    clock.move(seconds=1)
    mine = jobs.submit(orders(A), ACTIONS)

    assert jobs.ahead_of([mine.job_id]) == {mine.job_id: 0}
    assert (jobs.queue_depth(), jobs.queue_depth(A), jobs.queue_depth(B)) == (6, 1, 5)
    assert f"If no worker runs for catalog {A}, start one" in str(explain(jobs, mine))


def test_a_lock_is_of_a_table_of_one_catalog_whatever_the_catalog_is_called(jobs: Jobs) -> None:
    job = jobs.submit(orders(A), ACTIONS)
    jobs.locks.acquire(orders(B), "etl", ttl=timedelta(hours=1))
    for name in ("lake", "lakehouse"):
        with pytest.raises(TableLocked) as refused:
            jobs.submit(orders(A, name), ACTIONS)
        assert refused.value.lock.holder == job.job_id

    assert {lock.table for lock in jobs.locks.list()} == {orders(A), orders(B)}
    assert jobs.break_lock(orders(A), "etl", actor=VERA) is None
    assert jobs.break_lock(orders(B), "etl", actor=VERA) is not None


@pytest.mark.parametrize("end", ["finish", "cancel pending", "cancel running", "sweep", "unlock"])
def test_every_end_of_a_job_frees_its_own_table_and_no_other(store: Store, clock: MovedClock, end: str) -> None:
    jobs = Jobs(store, LifecyclePolicy(max_attempts=1))
    jobs.locks.acquire(orders(B), "etl", ttl=timedelta(days=9))
    jobs.locks.acquire(orders(""), "etl", ttl=timedelta(days=9))
    job = jobs.submit(orders(A), ACTIONS)
    if end == "cancel pending":
        jobs.cancel(job.job_id)
    else:
        claim = jobs.claim("worker", catalog_id=A)
        clock.move(seconds=60)
        assert jobs.renew(claim)
        held = jobs.locks.get(orders(A))
        assert held.expires_at == clock.now + jobs.policy.lease, "the heartbeat renews the lock of the right table"
        match end:
            case "finish":
                assert jobs.finish(claim, JobStatus.COMPLETED, [])
            case "cancel running":
                jobs.cancel(job.job_id)
                assert jobs.release_lock(claim)
            case "sweep":
                clock.move(hours=2)
                assert jobs.sweep().failed == (job.job_id,)
            case "unlock":
                jobs.cancel(job.job_id)
                clock.move(hours=2)
                assert jobs.sweep().unlocked == ("lake.sales.orders",)

    assert jobs.locks.get(orders(A)) is None
    assert {lock.table for lock in jobs.locks.list()} == {orders(B), orders("")}


def test_a_requeued_job_keeps_its_catalog(store: Store, clock: MovedClock) -> None:
    jobs = Jobs(store)
    job = jobs.submit(orders(A), ACTIONS)
    assert jobs.claim("worker 1", catalog_id=A) is not None
    clock.move(hours=2)
    assert jobs.sweep().requeued == (job.job_id,)
    clock.move(hours=1)

    assert jobs.claim("worker of B", catalog_id=B) is None
    again = jobs.claim("worker 2", catalog_id=A)
    assert again.job.table == orders(A)


def test_a_retried_task_takes_over_no_job_of_another_catalog(jobs: Jobs) -> None:
    jobs.submit(orders(B), ACTIONS)
    assert jobs.claim("dag/run/task try 1", catalog_id=B) is not None

    assert jobs.reclaim("dag/run/task try ", "dag/run/task try 2", catalog_id=A) is None
    assert jobs.reclaim("dag/run/task try ", "dag/run/task try 2", catalog_id=B) is not None


def test_a_request_that_is_repeated_stays_with_its_catalog(jobs: Jobs) -> None:
    first = jobs.submit_once(orders(B), ACTIONS, key="k", actor=VERA).job
    with pytest.raises(KeyUsedBefore):
        jobs.submit_once(orders(A), ACTIONS, key="k", actor=VERA)
    jobs.cancel(first.job_id, actor=VERA)

    assert jobs.rerun(first.job_id, actor=VERA).table == orders(B)


def test_a_table_shows_the_jobs_and_the_lock_of_its_own_catalog(jobs: Jobs) -> None:
    mine = jobs.submit(orders(A), ACTIONS)
    theirs = jobs.submit(orders(B), ACTIONS)
    jobs.cancel(theirs.job_id)

    found = explain_tables(jobs, [orders(A), orders(B)])
    assert [getattr(found[orders(which)].last, "job_id", None) for which in (A, B)] == [mine.job_id, theirs.job_id]
    assert found[orders(A)].lock is not None
    assert found[orders(B)].lock is None
    assert [job.job_id for job in jobs.list(orders(A))] == [mine.job_id]
    by_name = jobs.page(JobFilter(table=orders(""))).items
    assert {job.job_id for job in by_name} == {mine.job_id, theirs.job_id}, "a name alone is every table of that name"


def test_an_idle_worker_logs_once_what_it_leaves_to_others(
    jobs: Jobs, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.submit(orders(B), ACTIONS)
    jobs.submit(orders(""), ACTIONS)
    worker = JobWorker(jobs, lambda: ScriptedEngine(), "worker", catalog_id=A)

    def lines() -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            worker.run_forever(until_idle=True)
        return [record.getMessage() for record in caplog.records if record.getMessage().startswith("jobs_left")]

    first = lines()
    assert [line.split(",")[0] for line in sorted(first)] == [
        "jobs_left: 1 waiting job belongs to catalog (not recorded)",
        f"jobs_left: 1 waiting job belongs to catalog {B}",
    ]
    assert lines() == []
    jobs.submit(TableName("lake", "sales", "clicks", B), ACTIONS)
    assert lines() == [], "counted once a minute at most"
    clock.move(minutes=1)
    assert [line.split(",")[0] for line in lines()] == [f"jobs_left: 2 waiting jobs belong to catalog {B}"]


def test_a_worker_of_several_catalogs_takes_them_in_turn_each_with_its_own_engine(
    jobs: Jobs, clock: MovedClock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        jobs.submit(TableName("lake", "sales", f"a{number}", A), ["rewrite_manifests"], priority=9)
    for number in range(2):
        clock.move(seconds=1)
        jobs.submit(TableName("lake", "sales", f"b{number}", B), ACTIONS)
    left = jobs.submit(TableName("lake", "sales", "c0", C), ACTIONS)
    ran: list[tuple[str, ScriptedEngine]] = []

    def engine(catalog_id: str) -> ScriptedEngine:
        ran.append((catalog_id, ScriptedEngine()))
        return ran[-1][1]

    worker = JobWorker(jobs, partial(engine, A), "worker", catalog_id=A, more_catalogs={B: partial(engine, B)})
    with caplog.at_level(logging.WARNING):
        worker.run_forever(until_idle=True)

    done = sorted((jobs.get(job_id) for job_id in worker.recent), key=lambda job: list(worker.recent).index(job.job_id))
    assert [job.table.table for job in done] == ["a0", "b0", "a1", "b1", "a2"]
    assert {job.status for job in done} == {JobStatus.COMPLETED}
    actions = {(catalog_id, action) for catalog_id, made in ran for action in made.ran}
    assert actions == {(A, "rewrite_manifests"), (B, "expire_snapshots")}
    assert jobs.get(left.job_id).status is JobStatus.PENDING
    assert f"jobs_left: 1 waiting job belongs to catalog {C}, and this worker reaches catalogs {A}, {B}." in caplog.text


def test_a_worker_of_several_catalogs_works_on_while_one_of_them_is_down(jobs: Jobs, clock: MovedClock) -> None:
    tries = []

    def down() -> ScriptedEngine:
        tries.append(clock())
        if len(tries) < 3:
            raise CatalogUnreachable("lake", OSError("down"))
        return ScriptedEngine()

    for catalog_id in (A, B):
        jobs.submit(orders(catalog_id), ACTIONS)
    worker = JobWorker(jobs, down, "worker", catalog_id=A, more_catalogs={B: ScriptedEngine})

    assert [worker.run_once(), worker.run_once()] == [JobStatus.COMPLETED, None]
    assert len(tries) == 1, "it is left alone for a while"
    clock.move(minutes=2)
    assert worker.run_once() is None
    clock.move(minutes=2)
    assert worker.run_once() is JobStatus.COMPLETED


def test_a_catalog_that_lets_a_worker_wait_takes_little_of_its_time_from_the_others(jobs: Jobs, clock: MovedClock) -> None:
    silent = []

    def wait() -> ScriptedEngine:
        silent.append(clock())
        clock.move(minutes=2)
        raise CatalogUnreachable("lake", OSError("no answer"))

    for number in range(10):
        jobs.submit(TableName("lake", "sales", f"b{number}", B), ACTIONS)
    worker = JobWorker(jobs, wait, "worker", catalog_id=A, more_catalogs={B: ScriptedEngine})

    for _ in range(10):
        assert worker.run_once() is JobStatus.COMPLETED
        clock.move(minutes=1)
    assert len(silent) == 1
    clock.move(minutes=10)
    assert worker.run_once() is None
    assert len(silent) == 2


def test_a_worker_none_of_whose_catalogs_can_be_used_ends_with_the_reason(jobs: Jobs) -> None:
    def down() -> ScriptedEngine:
        raise CatalogUnreachable("lake", OSError("down"))

    worker = JobWorker(jobs, down, "worker", catalog_id=A, more_catalogs={B: down})
    with pytest.raises(CatalogUnreachable, match="down"):
        worker.run_forever(until_idle=True)


def test_a_worker_of_several_catalogs_resumes_the_job_of_an_earlier_try_in_each(jobs: Jobs) -> None:
    for catalog_id in (A, B):
        jobs.submit(orders(catalog_id), ACTIONS)
        assert jobs.claim("dag/run/task try 1", catalog_id=catalog_id) is not None
    more = {B: ScriptedEngine}
    worker = JobWorker(jobs, ScriptedEngine, "try 2", catalog_id=A, more_catalogs=more, resumes="dag/run/task try ")
    worker.run_forever(until_idle=True)

    assert [job.status for job in jobs.list()] == [JobStatus.COMPLETED] * 2


def test_a_worker_of_several_catalogs_claims_the_highest_priority_of_each_first(jobs: Jobs, clock: MovedClock) -> None:
    for number, priority in enumerate((5, 1, 1)):
        jobs.submit(TableName("lake", "sales", f"a{number}", A), ACTIONS, priority=priority)
    clock.move(seconds=1)
    for number, priority in enumerate((9, 2)):
        jobs.submit(TableName("lake", "sales", f"b{number}", B), ACTIONS, priority=priority)

    claims = [jobs.claim("worker", catalog_id=catalog_id) for catalog_id in (A, B, A, B)]

    assert [claim.job.table.table for claim in claims] == ["a0", "b0", "a1", "b1"]


def test_the_lineage_of_a_job_names_its_catalog(jobs: Jobs, store: Store) -> None:
    jobs.submit(orders(B), ACTIONS)
    claim = jobs.claim("worker", catalog_id=B)
    record_change(
        jobs.store, claim, ActionResult("expire_snapshots", ActionOutcome.SUCCEEDED, "Done", 1.0, change=TableChange(1, 1))
    )

    (operation,) = OperationLog(store).of_table(str(orders(B))).items
    assert operation.detail["catalog_id"] == B
