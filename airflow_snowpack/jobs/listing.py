"""Lists of jobs, newest first, page by page.

    page = reader.page(JobFilter(statuses={JobStatus.FAILED}), limit=50)
    more = reader.page(JobFilter(statuses={JobStatus.FAILED}), after=page.next, limit=50)

The invariant: a page begins right after the last row of the page before, by the moment of submission and the id, which never
change, and is one statement. So jobs that come or end meanwhile make no row appear twice, and none that was there from the start
and still fits the filter is left out.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.errors import InvalidCursor
from airflow_snowpack.jobs.model import Job, JobStatus
from airflow_snowpack.jobs.rows import job_from
from airflow_snowpack.store import storable
from airflow_snowpack.store.schema import job_queue, jobs
from airflow_snowpack.store.types import UtcDateTime

IS_LIVE = jobs.c.deleted_at.is_(None)
LONGEST_CURSOR = 256
IN_THE_QUEUE = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
WITH_ERROR = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})
SEARCHED = (jobs.c.table_key, jobs.c.job_id, jobs.c.submitted_by, jobs.c.owner, jobs.c.error, jobs.c.cancelled_by)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; what is left out narrows nothing.

    :param table: jobs of this table; without a ``catalog_id``, of the tables with its name in every catalog.
    :param statuses: any of these.
    :param search: part of the table's name, the job's id, who submitted, owns or cancelled it, or its error; upper
        and lower case alike.
    :param dag_id: jobs of this DAG's task instances.
    :param since: submitted at this moment or later.
    :param until: submitted before this moment.
    """

    table: TableName | None = None
    statuses: frozenset[JobStatus] = frozenset()
    search: str | None = None
    dag_id: str | None = None
    dry_run: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs of a list.

    :param next: the cursor of the page after this one; ``None`` when this is the last.
    """

    jobs: tuple[Job, ...]
    next: str | None


def read_page(conn: sa.Connection, which: JobFilter, after: str | None, limit: int) -> JobPage:
    """:raises InvalidCursor: ``after`` is not one that a page had."""
    rows = conn.execute(page_query(which, after, limit + 1)).all()
    shown = tuple(job_from(row) for row in rows[:limit])
    return JobPage(shown, cursor_of(shown[-1]) if len(rows) > limit else None)


def page_query(which: JobFilter, after: str | None, limit: int) -> sa.Select[Any]:
    """Some jobs, newest first: a short walk along an index, or one for each of several statuses.

    It is a single statement even so: between two of them a job could go from the one status to the other, and be met twice or
    not at all.
    """
    walks = [_walk(statuses, where).limit(limit) for statuses, where in _conditions(which, after)]
    if len(walks) == 1:
        return walks[0]
    met = sa.union_all(*(sa.select(walk.subquery()) for walk in walks)).subquery()
    return sa.select(met).order_by(*_newest_first(met)).limit(limit)


def _walk(statuses: Set[JobStatus], where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    """Jobs, newest first. Those in the queue are read and sorted by themselves: a database that does not know how few they are
    would rather walk over all jobs in order until it has met enough of them.
    """
    if not statuses or not statuses <= IN_THE_QUEUE:
        return sa.select(jobs).where(*where, *_of(statuses)).order_by(*_newest_first(jobs))
    active = sa.select(jobs).where(*where, *_kept(statuses)).cte("active").prefix_with("MATERIALIZED")
    has_status = active.c.status.in_(sorted(statuses))
    return sa.select(active).where(has_status).order_by(*_newest_first(active))


def _newest_first(source: sa.FromClause) -> tuple[sa.UnaryExpression[Any], sa.UnaryExpression[Any]]:
    return source.c.submitted_at.desc(), source.c.job_id.desc()


def count_statuses(conn: sa.Connection) -> dict[JobStatus, int]:
    """How many jobs have each status. Most are completed, and those are the ones that need not be looked at."""
    found = [sa.select(jobs.c.status).where(IS_LIVE, *_of(statuses)) for statuses in (IN_THE_QUEUE, WITH_ERROR)]
    known = sa.union_all(*found).subquery()
    all_of_them = sa.select(sa.literal("all"), sa.func.count()).select_from(jobs).where(IS_LIVE)
    query = sa.select(known.c.status, sa.func.count()).group_by(known.c.status).union_all(all_of_them)
    counts: dict[str, int] = {row[0]: row[1] for row in conn.execute(query)}
    total = counts.pop("all")
    by_status = {JobStatus(status): number for status, number in counts.items()}
    return {status: by_status.get(status, 0) for status in JobStatus} | {JobStatus.COMPLETED: total - sum(by_status.values())}


def count(conn: sa.Connection, which: JobFilter, at_most: int) -> int:
    """How many jobs there are, counted up to ``at_most``."""
    walks = ([*where, *_of(statuses)] for statuses, where in _conditions(which, None))
    some = (sa.select(jobs.c.job_id).where(*where).limit(at_most).subquery() for where in walks)
    found = sa.union_all(*(sa.select(each) for each in some)).subquery()
    return min(at_most, conn.execute(sa.select(sa.func.count()).select_from(found)).scalar_one())


def read_latest(conn: sa.Connection, table_keys: Sequence[str], catalog_id: str, *, dry_run: bool) -> list[Job]:
    """Return the newest job, or the newest dry run, of each of these tables of one catalog that has one."""
    rows = sa.func.json_array_elements_text if conn.dialect.name == "postgresql" else sa.func.json_each
    key = rows(sa.bindparam("table_keys", list(table_keys), type_=sa.JSON)).table_valued(sa.column("value", sa.Text))
    newest = sa.select(jobs.c.job_id).where(jobs.c.table_key == key.c.value, jobs.c.catalog_id == catalog_id)
    newest = newest.where(jobs.c.dry_run == dry_run, IS_LIVE)
    newest = newest.order_by(*_newest_first(jobs)).limit(1)
    ids = [job_id for job_id in conn.execute(sa.select(newest.scalar_subquery()).select_from(key)).scalars() if job_id]
    return [job_from(row) for row in conn.execute(sa.select(jobs).where(jobs.c.job_id.in_(ids)))]


def cursor_of(job: Job) -> str:
    """The place right after this job."""
    place = json.dumps([job.submitted_at.isoformat(), job.job_id])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _place_of(cursor: str) -> tuple[datetime, str]:
    if len(cursor) > LONGEST_CURSOR:
        raise InvalidCursor(cursor)
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        submitted_at, job_id = place
        moment = datetime.fromisoformat(submitted_at).astimezone(UTC)
        known = [moment.isoformat(), storable(job_id)] == place
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidCursor(cursor) from error
    if not known:
        raise InvalidCursor(cursor)
    return moment, job_id


def _conditions(which: JobFilter, after: str | None) -> list[tuple[Set[JobStatus], list[sa.ColumnElement[bool]]]]:
    """The statuses that each walk meets, and what else it asks: several statuses may be several short walks, not one long one."""
    common = _narrow(which)
    if after is not None:
        moment, job_id = _place_of(after)
        place = sa.tuple_(sa.literal(moment, UtcDateTime), sa.literal(job_id, sa.Text))
        common.append(sa.tuple_(jobs.c.submitted_at, jobs.c.job_id) < place)
    if which.table is not None and which.statuses:
        return [(frozenset(), [*common, jobs.c.status.in_(sorted(which.statuses))])]
    if not which.statuses:
        return [(frozenset(), common)]
    walks = (which.statuses & kept for kept in (IN_THE_QUEUE, WITH_ERROR, {JobStatus.COMPLETED}))
    return [(statuses, common) for statuses in walks if statuses]


def _of(statuses: Set[JobStatus]) -> list[sa.ColumnElement[bool]]:
    """The condition for statuses of one walk; no status is every status."""
    return [jobs.c.status.in_(sorted(statuses)), *_kept(statuses)] if statuses else []


def _kept(statuses: Set[JobStatus]) -> list[sa.ColumnElement[bool]]:
    """Where jobs of these statuses are found without a walk over all the others; see ``store/schema.py``."""
    if statuses <= IN_THE_QUEUE:
        return [jobs.c.job_id.in_(sa.select(job_queue.c.job_id))]
    return [jobs.c.error.is_not(None)] if statuses <= WITH_ERROR else []


def _narrow(which: JobFilter) -> list[sa.ColumnElement[bool]]:
    where: list[Any] = [IS_LIVE]
    if which.table is not None:
        where.append(jobs.c.table_key == str(which.table))
        if which.table.catalog_id:
            where.append(jobs.c.catalog_id == which.table.catalog_id)
    if which.dry_run is not None:
        where.append(jobs.c.dry_run == which.dry_run)
    if which.dag_id is not None:
        prefix = f"{storable(which.dag_id)}/"
        where.append(sa.func.substr(jobs.c.owner, 1, len(prefix)) == prefix)
    if which.since is not None:
        where.append(jobs.c.submitted_at >= which.since)
    if which.until is not None:
        where.append(jobs.c.submitted_at < which.until)
    if which.search:
        # Both sides in lower case by the database: SQLite knows only ASCII, and Python more than either.
        text = sa.func.lower(re.sub(r"([/%_])", r"/\1", storable(which.search)))
        where.append(sa.or_(*(sa.func.lower(column).contains(text, escape="/") for column in SEARCHED)))
    return where
