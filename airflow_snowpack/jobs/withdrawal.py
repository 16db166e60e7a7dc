"""Withdraws or postpones waiting jobs, in the caller's transaction.

    attempts = withdraw(conn, job_ids, "The time of the pass was over.", now)

The invariant: claimed jobs are left alone, so a withdrawn job has not touched its table in this attempt.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.claim_order import FRONT, close_gaps
from airflow_snowpack.jobs.counts import counts_of_cancelled
from airflow_snowpack.jobs.model import JobStatus
from airflow_snowpack.store import storable
from airflow_snowpack.store.counters import add_counts
from airflow_snowpack.store.tables.jobs import job_queue, jobs, table_locks

Q = job_queue.c
PLACE = (Q.catalog_id, Q.rank, Q.database_name, Q.turn)


def withdraw(conn: sa.Connection, job_ids: Collection[str], reason: str, now: datetime) -> dict[str, int]:
    """Cancel the jobs that no worker has claimed, and unlock their tables: six statements, and one for each database.

    :param reason: becomes the error of the jobs.
    :returns: the cancelled jobs, each with the number of its attempts, all of which were lost.
    """
    waiting = sa.select(Q.job_id, Q.attempt_count).where(Q.job_id.in_(job_ids), Q.claimed_at.is_(None))
    # Ordered, so that two processes that withdraw the same jobs do not deadlock.
    found = {row.job_id: row.attempt_count for row in conn.execute(waiting.order_by(Q.job_id).with_for_update())}
    if not found:
        return {}
    gone = sa.delete(job_queue).where(Q.job_id.in_(list(found))).returning(*PLACE)
    close_gaps(conn, [tuple(row) for row in conn.execute(gone)])
    cancelled = {"status": JobStatus.CANCELLED.value, "attempt_id": None, "completed_at": now, "error": storable(reason)}
    ended = sa.update(jobs).where(jobs.c.job_id.in_(list(found))).values(cancelled).returning(do.LOCK_KEY)
    keys = conn.execute(ended).scalars().all()
    theirs = sa.and_(table_locks.c.table_key.in_(keys), table_locks.c.holder.in_(list(found)))
    # The work of a lost attempt may still run on a Spark server; the sweep ends it and then unlocks the table.
    conn.execute(sa.update(table_locks).where(theirs, do.holder_left_work).values(expires_at=now))
    conn.execute(sa.delete(table_locks).where(theirs, ~do.holder_left_work))
    add_counts(conn, counts_of_cancelled(len(found)))
    return found


def postpone(conn: sa.Connection, job_id: str, until: datetime) -> bool:
    """Make a job claimable only from a time on; return ``False`` if a worker has claimed it, or it has ended."""
    place = conn.execute(sa.select(*PLACE).where(Q.job_id == job_id, Q.claimed_at.is_(None)).with_for_update()).first()
    if place is None:
        return False
    # Like a requeued job, it has already had its turn.
    conn.execute(sa.update(job_queue).where(Q.job_id == job_id).values(visible_at=until, turn=FRONT))
    close_gaps(conn, [tuple(place)])
    return True
