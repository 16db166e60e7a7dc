"""Old jobs are deleted with their histories, in batches, and never one that something may still need."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from forgetting import Killed, killed_at
from query_plans import scans, sent_by

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, Jobs, JobStatus
from airflow_snowpack.jobs.retention import KINDS
from airflow_snowpack.store import Actor, AuditTrail, Store, write_audit
from airflow_snowpack.store.audit import AUDIT_TRAIL
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.jobs import job_history, jobs as jobs_table

ACTIONS = ["expire_snapshots"]
HALF_A_YEAR = timedelta(days=180)


def prune(store: Store, *, dry_run: bool = False, batch_size: int = 3) -> dict[str, int]:
    pruner = Pruner(store, (*KINDS, AUDIT_TRAIL), older_than=HALF_A_YEAR, dry_run=dry_run, batch_size=batch_size)
    return dict(pruner.run(sleep=lambda _seconds: None))


def ended(jobs: Jobs, table: TableName, status: JobStatus = JobStatus.COMPLETED) -> Job:
    """A job that ran; its history has three events."""
    claim = jobs.submit_and_claim(table, ACTIONS, "w")
    assert jobs.finish(claim, status, [], "boom" if status is JobStatus.FAILED else None)
    jobs.release_lock(claim)
    return jobs.get(claim.job.job_id)


def all_ids(store: Store, column: sa.Column[Any]) -> set[str]:
    return set(store.read(lambda conn: conn.execute(sa.select(column)).scalars().all()))


def test_old_jobs_go_with_their_histories_and_the_newest_of_each_table_stays(
    jobs: Jobs, store: Store, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    old = []
    for _ in range(5):
        old += [ended(jobs, table), ended(jobs, other_table, JobStatus.FAILED), jobs.record_dry_run(table, ACTIONS, [])]
        clock.move(hours=1)
    jobs.delete(old[-3].job_id)
    clock.move(days=200)
    young = ended(jobs, TableName("lake", "db", "young"))
    jobs.flush()

    planned = prune(store, dry_run=True)
    assert all_ids(store, jobs_table.c.job_id) == {job.job_id for job in [*old, young]}
    # Of the first table the job before the deleted one is the newest now.
    kept = {old[-6].job_id, old[-2].job_id, old[-1].job_id, young.job_id}
    assert prune(store) == planned
    assert planned["jobs"] == len(old) + 1 - len(kept)
    assert all_ids(store, jobs_table.c.job_id) == all_ids(store, job_history.c.job_id) == kept
    assert prune(store) == {"jobs": 0, "job_history": 0, "action_records": 0, "audit_trail": 0}


def test_a_job_that_is_open_holds_a_lock_or_left_work_on_a_server_stays_however_old_it_is(
    jobs: Jobs, store: Store, clock: MovedClock
) -> None:
    tables = [TableName("lake", "db", f"t{number}") for number in range(6)]
    pending = jobs.submit(tables[0], ACTIONS)
    running = jobs.submit_and_claim(tables[1], ACTIONS, "w").job
    cancelled = jobs.submit_and_claim(tables[2], ACTIONS, "w").job
    jobs.cancel(cancelled.job_id)
    on_server = ended(jobs, tables[3])
    at = sa.update(jobs_table).where(jobs_table.c.job_id == on_server.job_id).values(spark_server="sc://spark")
    store.transact(lambda conn: conn.execute(at))
    late = jobs.submit_and_claim(tables[4], ACTIONS, "w")
    gone = ended(jobs, tables[5])
    clock.move(days=200)
    jobs.finish(late, JobStatus.COMPLETED, [])
    for table in tables[3:]:
        jobs.locks.release(table, late.job.job_id)
    for table in (tables[3], tables[4], tables[5]):
        ended(jobs, table)  # so that none of theirs stays as the newest

    assert prune(store)["jobs"] == 1
    left = all_ids(store, jobs_table.c.job_id)
    assert {pending.job_id, running.job_id, cancelled.job_id, on_server.job_id, late.job.job_id} < left
    assert gone.job_id not in left


def test_a_kill_anywhere_leaves_no_history_without_its_job_and_the_next_run_ends_the_same(
    jobs: Jobs, store: Store, table: TableName, clock: MovedClock
) -> None:
    for _ in range(6):
        ended(jobs, table)
        clock.move(hours=1)
    clock.move(days=200)
    jobs.flush()
    place = 0
    while len(all_ids(store, jobs_table.c.job_id)) > 1:
        place += 1
        with suppress(Killed), killed_at(store, place):
            prune(store, batch_size=2)
        assert all_ids(store, job_history.c.job_id) == all_ids(store, jobs_table.c.job_id)
    assert place > 4
    assert prune(store, batch_size=2)["jobs"] == 0


def test_no_batch_walks_over_jobs_that_it_does_not_delete(
    jobs: Jobs, store: Store, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    for _ in range(3):
        ended(jobs, table)
        jobs.delete(ended(jobs, other_table).job_id)
        clock.move(hours=1)
    clock.move(days=200)
    jobs.flush()

    sent = sent_by(store, lambda: prune(store, batch_size=2))
    assert scans(store, sent, ["jobs", "job_history", "job_queue", "table_locks"]) == []


@pytest.mark.parametrize(("days", "gone"), [(200, 0), (364, 0), (366, 2)])
def test_the_audit_trail_stays_for_a_year(store: Store, clock: MovedClock, days: int, gone: int) -> None:
    for _ in range(2):
        store.transact(lambda conn: write_audit(conn, store, Actor("vera", "api"), "submit", "lake.db.t"))
    clock.move(days=days)
    store.transact(lambda conn: write_audit(conn, store, Actor("vera", "api"), "submit", "lake.db.t"))

    assert prune(store, batch_size=1)["audit_trail"] == gone
    assert len(AuditTrail(store).latest()) == 3 - gone
