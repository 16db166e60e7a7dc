"""Spark work that outlives its worker: a Spark Connect server goes on with a statement whose client was killed.

    class MyOrphans:                                            # the jobs room knows no Spark: a caller brings this
        def end(self, server, job_id, attempts): ...

The invariant: while ``jobs.spark_server`` names a server, an attempt of this job may have left work there, so the table stays
locked for everyone else. Only a process that has seen the work end clears it: the attempt itself, its successor, or the sweep.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs.model import JobStatus, LifecyclePolicy
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.jobs import job_queue, jobs, table_locks

log = logging.getLogger(__name__)

ACTIVE = (JobStatus.PENDING.value, JobStatus.RUNNING.value)
COLUMNS = (jobs.c.job_id, jobs.c.spark_server, jobs.c.attempt)


class Orphans(Protocol):
    """Ends what attempts at a job left running on a server."""

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt what these attempts still run, and return when all of it has ended.

        :raises SnowpackError: the server does not answer, or something still runs; call again.
        """
        ...


def end_orphans(store: Store, policy: LifecyclePolicy, orphans: Orphans | None) -> frozenset[tuple[str, int]]:
    """End the work of jobs that the sweep is about to fail, and of ended jobs that still hold their table.

    :returns: the jobs that the sweep may fail, each with the attempt whose work has ended.
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
    """Select the jobs without attempts left whose last lease has run out, and whose work may still run on a Spark server."""
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
