"""Rescues the jobs of crashed workers: a job is requeued or fails for good, and its table is unlocked.

Several processes may do so at once: expired rows are locked with SKIP LOCKED, and each write is fenced by the attempt read.

A Spark server may continue a statement whose client was killed. The invariant: while ``jobs.spark_server`` names a server,
an attempt of this job may have left work there, so the table stays locked. Only a process that has verified the end of the work
clears it: the attempt itself, its successor, or the rescuer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from typing import Any, Protocol

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.action_history import records_of_lost
from airflow_snowpack.jobs.counts import count_end
from airflow_snowpack.jobs.idempotency import KEPT, KEYS
from airflow_snowpack.jobs.model import Job, JobStatus, LifecyclePolicy, SweepReport
from airflow_snowpack.jobs.rows import job_from, lock_from, read_drain
from airflow_snowpack.jobs.steps_sqlite import keep_records
from airflow_snowpack.lineage.operations import forget_operations
from airflow_snowpack.store import Actor, Expired, Store, write_audit
from airflow_snowpack.store.counters import Counts, add_counts, sum_increments
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.jobs import job_queue, jobs, table_locks

QUEUE = "queue"
"""The subject of a sweep in the audit trail."""
MAX_BACKOFF = timedelta(days=1)
BATCH_SIZE = 100
"""How many jobs one pass handles, besides those that wait for a Spark server."""
MAX_KEY_BATCHES = 10
"""How many batches of expired idempotency keys one pass deletes; far fewer expire between two passes."""

log = logging.getLogger(__name__)

ACTIVE = (JobStatus.PENDING.value, JobStatus.RUNNING.value)
COLUMNS = (jobs.c.job_id, jobs.c.spark_server, jobs.c.attempt)


def rescue(
    store: Store,
    policy: LifecyclePolicy,
    ended: Set[tuple[str, int]] = frozenset(),
    actor: Actor | None = None,
) -> SweepReport:
    """Make one pass over the expired leases, in one transaction; the next pass continues after :data:`BATCH_SIZE` jobs.

    :param ended: attempts whose work on a Spark server has ended; a job does not fail before that.
    """
    now = store.clock()

    def sweep(conn: sa.Connection) -> SweepReport:
        if read_drain(conn).on:
            return SweepReport(paused=True)
        # Jobs that wait for a server are the oldest in each pass, and must not use up the batch.
        waiting = conn.execute(sa.select(sa.func.count()).select_from(spent_on_servers(policy, now).subquery())).scalar_one()
        expired = do.LEASES.expired(conn, now, BATCH_SIZE + waiting)
        lost = _jobs_of(conn, [lease.key for lease in expired])
        left = [lease for lease in expired if not lost[lease.key].inline and lease.attempt < policy.max_attempts]
        spent = [lease for lease in expired if lease not in left]
        spent = [each for each in spent if lost[each.key].spark_server is None or (each.key, each.attempt) in ended]
        for lease in (*left, *spent):
            job = lost[lease.key]
            keep_records(conn, {"b_now": now, "b_records": records_of_lost(job)}, job.table.lock_key)
        counts = Counts()
        for lease in spent:
            _fail(conn, lease, now)
            count_end(counts, lost[lease.key], JobStatus.FAILED, lost[lease.key].results, now)
        for lease in left:
            _requeue(conn, lease, now + backoff(policy.retry_base, lease.attempt, MAX_BACKOFF))
        report = SweepReport(
            requeued=tuple(lease.key for lease in left),
            failed=tuple(lease.key for lease in spent),
            unlocked=_unlock_abandoned(conn, now),
        )
        if report.changed:
            detail = {"requeued": list(report.requeued), "failed": list(report.failed), "unlocked": list(report.unlocked)}
            write_audit(conn, store, actor, "sweep", QUEUE, **detail)
        add_counts(conn, counts)
        return report

    report = store.transact(sweep)
    if not report.paused:
        # In separate transactions: a submit takes the table's lock first and writes its key last.
        _delete_expired_keys(store)
        forget_operations(store)
    sum_increments(store)
    return report


def _delete_expired_keys(store: Store) -> None:
    """Delete expired idempotency keys in small batches; the next pass deletes the rest."""
    pruner = Pruner(store, [KEYS], older_than=KEPT)
    for _ in range(MAX_KEY_BATCHES):
        if not pruner.step():
            return


def _jobs_of(conn: sa.Connection, keys: list[str]) -> dict[str, Job]:
    if not keys:
        return {}
    return {row.job_id: job_from(row) for row in conn.execute(sa.select(jobs).where(jobs.c.job_id.in_(keys)))}


def _requeue(conn: sa.Connection, lease: Expired, visible_at: datetime) -> None:
    do.LEASES.give_back(conn, lease.key, lease.attempt_id, visible_at)
    waiting = {"status": JobStatus.PENDING.value, "attempt_id": None, "started_at": None, "results": None}
    conn.execute(sa.update(jobs).where(jobs.c.job_id == lease.key).values(**waiting))


def _fail(conn: sa.Connection, lease: Expired, now: datetime) -> None:
    conn.execute(do.LEASES.release, {"b_key": lease.key, "b_attempt": lease.attempt_id})
    attempts = f"{lease.attempt} attempt{'s' if lease.attempt != 1 else ''}"
    error = (
        f"Gave up after {attempts}: the worker {lease.holder} stopped sending heartbeats and its lease ran out. "
        "Check that worker's log for the cause, then submit the job again."
    )
    ended = {"status": JobStatus.FAILED.value, "attempt_id": None, "completed_at": now, "error": error, "spark_server": None}
    lock_key = conn.execute(sa.update(jobs).where(jobs.c.job_id == lease.key).values(**ended).returning(do.LOCK_KEY)).scalar_one()
    conn.execute(do.unlock_table(), {"b_key": lease.key, "b_table": lock_key})


def _unlock_abandoned(conn: sa.Connection, now: datetime) -> tuple[str, ...]:
    gone = sa.delete(table_locks).where(do.abandoned_lock).returning(*table_locks.c)
    return tuple(str(lock_from(row).table) for row in conn.execute(gone, {"b_now": now}))


class Orphans(Protocol):
    """Ends what attempts at a job left running on a Spark server; the caller provides it, to keep Spark out of this room."""

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt what these attempts still run, and return when all of it has ended.

        :raises SnowpackError: the server does not answer, or something still runs; call again.
        """
        ...


def end_orphans(store: Store, policy: LifecyclePolicy, orphans: Orphans | None) -> frozenset[tuple[str, int]]:
    """End the work of jobs that are about to fail, and of ended jobs that still hold the lock of their table.

    :returns: the jobs that may fail, each with the attempt whose work has ended.
    """
    now = store.clock()
    spent = spent_on_servers(policy, now)
    locked = sa.select(*COLUMNS).join(table_locks, table_locks.c.holder == jobs.c.job_id)
    locked = locked.where(table_locks.c.expires_at <= now, jobs.c.status.not_in(ACTIVE), jobs.c.spark_server.is_not(None))
    failing = [row for row in store.all(spent) if _ended(orphans, row)]
    for row in store.all(locked):
        if _ended(orphans, row):
            forget = sa.update(jobs).where(jobs.c.job_id == row.job_id, jobs.c.spark_server == row.spark_server)
            store.execute(forget.values(spark_server=None))
    return frozenset((row.job_id, row.attempt) for row in failing)


def spent_on_servers(policy: LifecyclePolicy, now: datetime) -> sa.Select[Any]:
    """Select the jobs without attempts left whose last lease has expired, and whose work may still run on a Spark server."""
    gone = sa.and_(job_queue.c.claimed_at.is_not(None), job_queue.c.visible_at <= now)
    last = sa.or_(jobs.c.inline, job_queue.c.attempt_count >= policy.max_attempts)
    joined = sa.select(*COLUMNS).join(job_queue, job_queue.c.job_id == jobs.c.job_id)
    return joined.where(gone, last, jobs.c.spark_server.is_not(None))


def _ended(orphans: Orphans | None, row: Any) -> bool:
    if orphans is None:
        return False
    try:
        orphans.end(row.spark_server, row.job_id, range(1, row.attempt + 1))
    except SnowpackError as problem:
        log.warning("orphan_still_running: job %s on %s keeps its table locked: %s", row.job_id, row.spark_server, problem)
        return False
    return True
