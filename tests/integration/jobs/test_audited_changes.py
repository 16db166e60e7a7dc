"""What an actor requests: each change with its entry in the audit trail, or neither of them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from scripted_engine import PATIENCE_S

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    DrainModeOn,
    JobAlreadyFinished,
    Jobs,
    JobStatus,
    JobStillActive,
    LockInUse,
    TableLocked,
    TableLocks,
)
from airflow_snowpack.store import Actor, AuditTrail, Store
from airflow_snowpack.store.schema import audit_trail
from airflow_snowpack.store.tables.jobs import job_queue, jobs as jobs_table, table_locks

VERA = Actor("vera", via="api")
ACTIONS = ["rewrite_data_files", "expire_snapshots"]
PLAN = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Would compact 87 files", 0.1, metrics={"files": 87})


def without_audit_trail(store: Store) -> None:
    with store.engine.begin() as conn:
        audit_trail.drop(conn)


def rows(store: Store, *tables: sa.Table) -> list[int]:
    counts = sa.select(*(sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in tables))
    return list(store.read(lambda conn: conn.execute(counts).one()))


@pytest.mark.one_database
def test_a_rerun_requests_the_same_actions_options_and_priority(jobs: Jobs, table: TableName) -> None:
    first = jobs.submit(table, ACTIONS, options={"expire_snapshots": {"retain_last": 3}}, priority=7, actor=VERA)
    jobs.cancel(first.job_id, actor=VERA)
    second = jobs.rerun(first.job_id, actor=VERA)

    assert (second.table, second.actions, second.options) == (first.table, first.actions, first.options)
    assert (jobs.get(first.job_id).priority, second.priority) == (7, 7)
    assert second.job_id != first.job_id


@pytest.mark.parametrize(
    "ask",
    [
        lambda jobs, table: jobs.submit(table, ACTIONS, actor=VERA),
        lambda jobs, table: jobs.submit_once(table, ACTIONS, key="k", actor=VERA),
        lambda jobs, table: jobs.record_dry_run(table, ACTIONS, [PLAN], actor=VERA),
    ],
    ids=["submit", "with a key", "dry run"],
)
def test_without_its_entry_there_is_no_job_no_lock_and_no_queue_row(
    jobs: Jobs, store: Store, table: TableName, ask: Callable[[Jobs, TableName], object]
) -> None:
    without_audit_trail(store)

    with pytest.raises(sa.exc.DBAPIError):
        ask(jobs, table)
    assert rows(store, jobs_table, job_queue, table_locks) == [0, 0, 0]


def test_without_its_entry_nothing_else_changes_either(
    jobs: Jobs, locks: TableLocks, store: Store, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    lost = jobs.submit_and_claim(TableName("lake", "db", "lost"), ACTIONS, "w1").job
    clock.move(hours=1)
    active, done = jobs.submit(table, ACTIONS), jobs.record_dry_run(table, ACTIONS, [])
    locks.acquire(other_table, "etl", ttl=timedelta(hours=1))
    without_audit_trail(store)

    for change in (
        lambda: jobs.cancel(active.job_id, actor=VERA),
        lambda: jobs.delete(done.job_id, actor=VERA),
        lambda: jobs.set_drain(True, actor=VERA),
        lambda: jobs.break_lock(other_table, "etl", actor=VERA),
        lambda: jobs.sweep(actor=VERA),
    ):
        with pytest.raises(sa.exc.DBAPIError):
            change()
    assert jobs.get(active.job_id).status is JobStatus.PENDING
    assert jobs.get(done.job_id) == done
    assert not jobs.drain().on
    assert jobs.get(lost.job_id).status is JobStatus.RUNNING
    assert {lock.holder for lock in locks.list()} == {lost.job_id, active.job_id, "etl"}


def test_what_is_refused_leaves_no_entry(jobs: Jobs, store: Store, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS)

    with pytest.raises(TableLocked):
        jobs.submit(table, ACTIONS, actor=VERA)
    with pytest.raises(JobStillActive):
        jobs.delete(job.job_id, actor=VERA)
    with pytest.raises(TableLocked):
        jobs.rerun(job.job_id, actor=VERA)
    jobs.cancel(job.job_id)
    with pytest.raises(JobAlreadyFinished):
        jobs.cancel(job.job_id, actor=VERA)
    jobs.set_drain(True)
    with pytest.raises(DrainModeOn):
        jobs.submit(table, ACTIONS, actor=VERA)
    with pytest.raises(DrainModeOn):
        jobs.record_dry_run(table, ACTIONS, [], actor=VERA)
    assert rows(store, audit_trail) == [0]


def test_of_many_who_switch_drain_mode_on_at_once_only_the_one_who_did_it_is_on_record(jobs: Jobs, trail: AuditTrail) -> None:
    together = Barrier(8)

    def switch(number: int) -> None:
        together.wait(PATIENCE_S)
        jobs.set_drain(True, actor=Actor(f"user {number}", via="page"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(switch, range(8)))
    (entry,) = trail.of("drain")
    assert entry.actor == jobs.drain().by


def test_an_actor_with_a_name_that_no_database_takes_is_served_all_the_same(
    jobs: Jobs, trail: AuditTrail, table: TableName
) -> None:
    vera = Actor("ve\x00ra \ud800", via="api")
    job = jobs.submit_once(table, ACTIONS, key="k", actor=vera).job

    assert jobs.submit_once(table, ACTIONS, key="k", actor=vera).again
    assert jobs.cancel(job.job_id, actor=vera).cancelled_by == "ve�ra ?"
    assert {entry.actor for entry in trail.latest()} == {"ve�ra ?"}


# -- locks -------------------------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_the_lock_of_an_active_job_goes_with_the_job_and_in_no_other_way(jobs: Jobs, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS, actor=VERA)

    for force in (False, True):
        with pytest.raises(LockInUse, match="Cancel the job instead"):
            jobs.break_lock(table, job.job_id, force=force, actor=VERA)


# -- many at once ------------------------------------------------------------------------------------------------------


def test_of_twenty_who_submit_for_a_table_at_once_one_gets_a_job_and_nineteen_are_told_who_has_it(
    jobs: Jobs, store: Store, trail: AuditTrail, table: TableName
) -> None:
    together = Barrier(20)

    def submit(number: int) -> object:
        user = Actor(f"user {number}", via="api")
        together.wait(PATIENCE_S)
        try:
            return jobs.submit_once(table, ACTIONS, key=f"key {number}" if number % 2 else None, actor=user).job
        except TableLocked as refused:
            return refused

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(submit, range(20)))
    refusals = [answer for answer in answers if isinstance(answer, TableLocked)]
    (job,) = jobs.list()
    assert len(refusals) == 19
    assert {refusal.lock.holder for refusal in refusals} == {job.job_id}
    assert rows(store, jobs_table, job_queue, table_locks, audit_trail) == [1, 1, 1, 1]
    assert [entry.subject for entry in trail.latest()] == [job.job_id]
    assert jobs.cancel(job.job_id).status is JobStatus.CANCELLED, "so many at once leave connections for what comes after"
