"""The queue over time, from the times of the jobs themselves, in one statement.

    read_samples(store, timedelta(days=1), 96)[-1].longest_wait

A job waits from its submission to its start and runs until its end; requeues are not counted. Jobs submitted more than a day
before the period count only while they are active, and dry runs and deleted jobs not at all. At most :data:`MOST_JOBS` are read,
the newest first: the samples then begin where these do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.jobs.listing import IS_LIVE, LONGEST_WAIT, NEWEST_FIRST
from airflow_snowpack.jobs.model import JobStatus, QueueSample
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.jobs import job_queue, jobs

MOST_JOBS = 100_000
ENDS = {JobStatus.COMPLETED.value: "completed", JobStatus.FAILED.value: "failed"}


def read_samples(store: Store, period: timedelta, steps: int) -> list[QueueSample]:
    """Return evenly spaced samples, the last one of now."""
    now = store.clock()
    rows = store.all(_query(now - period - LONGEST_WAIT))
    moments = [now - period + period * step / steps for step in range(1, steps + 1)]
    if len(rows) >= MOST_JOBS:
        oldest = sorted(row.submitted_at for row in rows)[-MOST_JOBS]
        moments = [each for each in moments if each - period / steps >= oldest] or moments[-1:]
    since = moments[0] - period / steps
    counts: dict[str, list[int]] = {name: [0] * len(moments) for name in ("waiting", "running", *ENDS.values())}
    waits: list[list[timedelta]] = [[] for _ in moments]
    for row in rows:
        end = row.completed_at or now + timedelta(microseconds=1)
        start = min(row.started_at or end, end)
        _add(counts["waiting"], moments, row.submitted_at, start)
        _add(counts["running"], moments, start, end)
        if row.started_at is not None and row.attempt == 1 and since < start <= now:
            insort(waits[bisect_left(moments, start)], start - row.submitted_at)
        if row.status in ENDS and since < end <= now:
            counts[ENDS[row.status]][bisect_left(moments, end)] += 1
    columns = zip(moments, *counts.values(), map(tuple, waits), strict=True)
    return [QueueSample(*sample) for sample in columns]


def _query(since: datetime) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    spans = sa.select(jobs.c.submitted_at, jobs.c.started_at, jobs.c.completed_at, jobs.c.status, jobs.c.attempt)
    recent = sa.and_(jobs.c.submitted_at > since, IS_LIVE, ~jobs.c.dry_run)
    newest = spans.where(recent).order_by(*NEWEST_FIRST.order()).limit(MOST_JOBS).subquery()
    active = jobs.c.job_id.in_(sa.select(job_queue.c.job_id))
    return sa.select(newest).union_all(spans.where(active, ~recent))


def _add(counts: list[int], moments: list[datetime], begin: datetime, end: datetime) -> None:
    """Count a span that includes its begin but not its end."""
    for index in range(bisect_left(moments, begin), bisect_left(moments, end)):
        counts[index] += 1
