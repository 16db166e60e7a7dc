"""The sweep: what a crashed worker left behind goes back to the queue, or fails for good, and its table becomes free.

Many may sweep at once: expired rows are locked with SKIP LOCKED, and each return or failure is fenced by the attempt
that was seen.
"""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.idempotency import KEPT, KEYS
from airflow_snowpack.jobs.model import JobStatus, LifecyclePolicy, SweepReport
from airflow_snowpack.jobs.orphans import spent_on_servers
from airflow_snowpack.jobs.rows import lock_from
from airflow_snowpack.jobs.switches import read_drain
from airflow_snowpack.lineage.operations import forget_operations
from airflow_snowpack.store import Actor, Expired, Store, write_audit
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.tables.jobs import jobs, table_locks

QUEUE = "queue"
"""The subject of a sweep in the audit trail."""
MAX_BACKOFF = timedelta(days=1)
AT_ONCE = 100
KEY_BATCHES = 10
"""Of idempotency keys that one pass removes; they come far more slowly."""


def sweep_once(
    store: Store,
    policy: LifecyclePolicy,
    ended: Set[tuple[str, int]] = frozenset(),
    actor: Actor | None = None,
) -> SweepReport:
    """One pass, in one transaction; at most 100 jobs beside those that wait for a Spark server. The next pass takes the rest.

    :param ended: attempts whose work on a Spark server has ended. A job with such work does not fail before that.
    """
    now = store.clock()

    def sweep(conn: sa.Connection) -> SweepReport:
        if read_drain(conn).on:
            return SweepReport(paused=True)
        # Those of a server that stays away are the oldest in each pass, and must not take the places of all others.
        waiting = conn.execute(sa.select(sa.func.count()).select_from(spent_on_servers(policy, now).subquery())).scalar_one()
        expired = do.LEASES.expired(conn, now, AT_ONCE + waiting)
        keys = [lease.key for lease in expired]
        inline, remote = _among(conn, keys, jobs.c.inline), _among(conn, keys, jobs.c.spark_server.is_not(None))
        left = [lease for lease in expired if lease.key not in inline and lease.attempt < policy.max_attempts]
        spent = [lease for lease in expired if lease not in left]
        spent = [lease for lease in spent if lease.key not in remote or (lease.key, lease.attempt) in ended]
        for lease in spent:
            _fail(conn, lease, now)
        for lease in left:
            _requeue(conn, lease, now + backoff(policy, lease.attempt))
        report = SweepReport(
            requeued=tuple(lease.key for lease in left),
            failed=tuple(lease.key for lease in spent),
            unlocked=_unlock_abandoned(conn, now),
        )
        if report.changed:
            detail = {"requeued": list(report.requeued), "failed": list(report.failed), "unlocked": list(report.unlocked)}
            write_audit(conn, store, actor, "sweep", QUEUE, **detail)
        return report

    report = store.transact(sweep)
    if not report.paused:
        # Apart from the rest: a submit takes the table's lock first and writes its key last.
        _forget_keys(store)
        forget_operations(store)
    return report


def _forget_keys(store: Store) -> None:
    """Remove idempotency keys past their time, in small batches; the next sweep takes the rest."""
    pruner = Pruner(store, [KEYS], older_than=KEPT)
    for _ in range(KEY_BATCHES):
        if not pruner.step():
            return


def backoff(policy: LifecyclePolicy, attempt: int) -> timedelta:
    """How long a job waits after its ``attempt``-th attempt was lost: ``retry_base * 2 ** attempt``, a day at most."""
    return min(policy.retry_base * (1 << min(attempt, 20)), MAX_BACKOFF)


def _among(conn: sa.Connection, keys: list[str], which: sa.ColumnElement[bool]) -> set[str]:
    """Those of the jobs that meet the condition.

    An inline job belongs to the process that submitted it: no other process would ever claim it again.
    """
    if not keys:
        return set()
    return set(conn.execute(sa.select(jobs.c.job_id).where(jobs.c.job_id.in_(keys), which)).scalars())


def _requeue(conn: sa.Connection, lease: Expired, visible_at: datetime) -> None:
    do.LEASES.give_back(conn, lease.key, lease.attempt_id, visible_at)
    waiting = {"status": JobStatus.PENDING.value, "attempt_id": None, "started_at": None, "results": None}
    conn.execute(sa.update(jobs).where(jobs.c.job_id == lease.key).values(**waiting))


def _fail(conn: sa.Connection, lease: Expired, now: datetime) -> None:
    conn.execute(do.LEASES.release, {"b_key": lease.key, "b_attempt": lease.attempt_id})
    attempts = f"{lease.attempt} attempt{'s' if lease.attempt != 1 else ''}"
    error = (
        f"Gave up after {attempts}: the worker {lease.holder} stopped sending heartbeats and its lease ran out. "
        "Look at that worker's log for the cause, then submit the job again."
    )
    ended = {"status": JobStatus.FAILED.value, "attempt_id": None, "completed_at": now, "error": error, "spark_server": None}
    lock_key = conn.execute(sa.update(jobs).where(jobs.c.job_id == lease.key).values(**ended).returning(do.LOCK_KEY)).scalar_one()
    conn.execute(do.unlock_table(), {"b_key": lease.key, "b_table": lock_key})


def _unlock_abandoned(conn: sa.Connection, now: datetime) -> tuple[str, ...]:
    gone = sa.delete(table_locks).where(do.abandoned_lock).returning(*table_locks.c)
    return tuple(str(lock_from(row).table) for row in conn.execute(gone, {"b_now": now}))
