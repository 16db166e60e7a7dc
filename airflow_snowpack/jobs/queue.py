"""The queue as people look at it: how deep, how old, who holds what, and how it went over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.jobs.listing import IS_LIVE
from airflow_snowpack.jobs.model import QueuePlace, QueueSample, QueueState
from airflow_snowpack.store import row_mapper
from airflow_snowpack.store.tables.jobs import job_queue, jobs

unclaimed = job_queue.c.claimed_at.is_(None)
place_from = row_mapper(QueuePlace, attempt="attempt_count")


def read_state(conn: sa.Connection, now: datetime) -> QueueState:
    """Depth by the specification's count: neither claimed nor waiting for its time."""
    ready = sa.and_(unclaimed, job_queue.c.visible_at <= now)

    def how_many(which: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
        return sa.func.coalesce(sa.func.sum(sa.case((which, 1), else_=0)), 0)

    row = conn.execute(
        sa.select(
            how_many(ready).label("depth"),
            sa.func.min(sa.case((ready, job_queue.c.enqueued_at))).label("oldest"),
            how_many(sa.and_(unclaimed, job_queue.c.visible_at > now)).label("delayed"),
            how_many(~unclaimed).label("running"),
        )
    ).one()
    return QueueState(depth=row.depth, oldest=row.oldest, delayed=row.delayed, running=row.running)


def read_places(conn: sa.Connection, job_ids: Iterable[str]) -> dict[str, QueuePlace]:
    """Where these jobs stand; a finished one is left out."""
    rows = conn.execute(sa.select(job_queue).where(job_queue.c.job_id.in_(list(job_ids))))
    return {row.job_id: place_from(row) for row in rows}


def count_ahead(conn: sa.Connection, place: QueuePlace, now: datetime) -> int:
    """Count the claimable jobs of the same catalog that come before this place."""
    before = sa.and_(job_queue.c.catalog_id == place.catalog_id, job_queue.c.enqueued_at < place.enqueued_at)
    ahead = sa.and_(unclaimed, job_queue.c.visible_at <= now, before)
    return conn.execute(sa.select(sa.func.count()).select_from(job_queue).where(ahead)).scalar_one()


def count_elsewhere(conn: sa.Connection, catalog_id: str, now: datetime) -> dict[str, int]:
    """Count the claimable jobs of each catalog but this one."""
    theirs = sa.and_(unclaimed, job_queue.c.visible_at <= now, job_queue.c.catalog_id != catalog_id)
    counted = sa.select(job_queue.c.catalog_id, sa.func.count().label("waiting")).where(theirs).group_by(job_queue.c.catalog_id)
    return {row.catalog_id: row.waiting for row in conn.execute(counted)}


def read_samples(conn: sa.Connection, now: datetime, period: timedelta, steps: int) -> list[QueueSample]:
    """How many jobs waited and ran at evenly spaced moments up to now, told from the jobs' own moments.

    A job waits from its submission to its first start and runs until its end; that it went back to the queue in between is
    not seen.
    Jobs that were submitted more than a day before the period are seen only while they are active.
    """
    since = now - period
    active = jobs.c.job_id.in_(sa.select(job_queue.c.job_id))
    recent = sa.and_(jobs.c.submitted_at > since - timedelta(days=1), IS_LIVE, ~jobs.c.dry_run)
    spans = sa.select(jobs.c.submitted_at, jobs.c.started_at, jobs.c.completed_at)
    rows = conn.execute(spans.where(recent).union_all(spans.where(active, ~recent))).all()
    moments = [since + period * step / steps for step in range(1, steps + 1)]
    waiting, running = [0] * steps, [0] * steps
    for submitted_at, started_at, completed_at in rows:
        end = completed_at or now + timedelta(microseconds=1)
        start = min(started_at or end, end)
        _add(waiting, moments, submitted_at, start)
        _add(running, moments, start, end)
    return [QueueSample(*sample) for sample in zip(moments, waiting, running, strict=True)]


def _add(counts: list[int], moments: list[datetime], begin: datetime, end: datetime) -> None:
    """Count a span that holds its begin and not its end."""
    for index in range(bisect_left(moments, begin), bisect_left(moments, end)):
        counts[index] += 1
