"""The jobs of a period, with only what a report needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_snowpack.jobs.listing import IS_LIVE, NEWEST_FIRST
from airflow_snowpack.jobs.model import CANCELLED, ActionResult, Job, JobStatus
from airflow_snowpack.jobs.rows import results_from_json, table_from
from airflow_snowpack.store import row_mapper
from airflow_snowpack.store.tables.jobs import job_queue, jobs

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.store import Store

LONGEST_WAIT = timedelta(days=1)
"""A job that ended is not found if it was submitted longer than this before the period."""


@dataclass(frozen=True, slots=True)
class RecentJob:
    """A job without its options and its plan; see :class:`~airflow_snowpack.jobs.model.Job`."""

    job_id: str
    table: TableName
    status: JobStatus
    submitted_at: datetime
    completed_at: datetime | None
    error: str | None
    cancelled_by: str | None
    results: tuple[ActionResult, ...]


def is_withdrawn(job: Job | RecentJob) -> bool:
    """Return whether a pass, not a user, has cancelled the job: the next pass plans its table again."""
    return job.status is JobStatus.CANCELLED and job.cancelled_by is None and job.error not in (None, CANCELLED)


def shown_status(job: Job | RecentJob) -> str:
    """Return the status for display: ``withdrawn`` for a job that a pass has cancelled."""
    return "withdrawn" if is_withdrawn(job) else job.status.value


_recent = row_mapper(RecentJob, {"status": JobStatus, "results": results_from_json}, table=table_from)
J = jobs.c
COLUMNS = (
    *(J.job_id, J.catalog, J.catalog_id, J.database_name, J.table_name),
    *(J.status, J.submitted_at, J.completed_at, J.error, J.cancelled_by, J.results),
)


def read_recent(store: Store, since: datetime, at_most: int) -> list[RecentJob]:
    """Return the jobs that are active or ended since a time, newest first, without dry runs, in one statement.

    :param at_most: of the ended jobs, and again of the active ones, so that a long queue hides no ended job.
    """
    live = sa.select(*COLUMNS).where(IS_LIVE, ~J.dry_run).order_by(*NEWEST_FIRST.order()).limit(at_most)
    ended = live.where(J.submitted_at >= since - LONGEST_WAIT, J.completed_at >= since)
    active = live.where(J.completed_at.is_(None), J.job_id.in_(sa.select(job_queue.c.job_id)))
    found = sa.union_all(*(sa.select(each.subquery()) for each in (ended, active))).subquery()
    return [_recent(row) for row in store.all(sa.select(found).order_by(*NEWEST_FIRST.order(found)))]
