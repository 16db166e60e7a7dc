"""Lists of jobs, newest first: pages, counts, and the jobs of a period.

    page = jobs.page(JobFilter(statuses={JobStatus.FAILED}), limit=50)
    more = jobs.page(JobFilter(statuses={JobStatus.FAILED}), after=page.next, limit=50)

The invariant: a page begins right after the last job of the previous page, and one statement reads its jobs. Jobs that are
submitted or end meanwhile therefore never make a job appear twice, and no job that matches throughout is missed.

No page reads more than :data:`MAX_EXAMINED` jobs. If no index covers the filter (a search, for example), a page may end before it
is full, even without any job; its cursor continues from the last job that was read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import Job, JobStatus, RecentJob
from airflow_snowpack.jobs.rows import job_from, results_from_json, table_from
from airflow_snowpack.store import Store, row_mapper, storable
from airflow_snowpack.store.paging import Keyset, Page, Place
from airflow_snowpack.store.tables.jobs import job_queue, jobs, jobs_dag

IS_LIVE = jobs.c.deleted_at.is_(None)
NEWEST_FIRST = Keyset(jobs.c.submitted_at, jobs.c.job_id, descending=True)
IN_THE_QUEUE = frozenset({JobStatus.PENDING, JobStatus.RUNNING})
WITH_ERROR = frozenset({JobStatus.FAILED, JobStatus.CANCELLED})
MAX_EXAMINED = 20_000
"""The most jobs that a page or a count reads if no index covers its filter; takes a fraction of a second."""
SEARCHED = (jobs.c.table_key, jobs.c.job_id, jobs.c.submitted_by, jobs.c.owner, jobs.c.error, jobs.c.cancelled_by)


LONGEST_WAIT = timedelta(days=1)
"""A job that ended is not found if it was submitted longer than this before the period."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; omitted fields do not restrict the list.

    :param table: jobs of this table; without a ``catalog_id``, of the tables with this name in every catalog.
    :param search: part of the table's name, the job's id, its error, or who submitted, owns or cancelled it; case-insensitive.
    :param dag_id: jobs of this DAG's task instances.
    :param since: submitted at this time or later.
    :param until: submitted before this time.
    """

    table: TableName | None = None
    statuses: frozenset[JobStatus] = frozenset()
    search: str | None = None
    dag_id: str | None = None
    dry_run: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobPage(Page[Job]):
    """A page of jobs.

    :param searched_to: if the page ended at :data:`MAX_EXAMINED` jobs before it was full: when the last of them was submitted.
        Older jobs may match the filter too.
    """

    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobCounts:
    """How many jobs of each status match a filter; for ``capped`` statuses the number is a lower bound."""

    by_status: dict[JobStatus, int]
    capped: frozenset[JobStatus]


def read_page(conn: sa.Connection, which: JobFilter, after: str | None, limit: int) -> JobPage:
    """Return a page of the jobs that match the filter.

    :raises InvalidCursor: ``after`` is not the cursor of a page.
    """
    last = last_examined(conn, which, after)
    rows = conn.execute(page_query(which, after, limit + 1, last)).all()
    page = NEWEST_FIRST.page(rows, limit, job_from)
    if page.next is not None or last is None:
        return JobPage(page.items, page.next)
    return JobPage(page.items, NEWEST_FIRST.cursor(*last), last[0])


def last_examined(conn: sa.Connection, which: JobFilter, after: str | None) -> Place | None:
    """Return the place at which a page that starts after this cursor stops reading.

    It is found first and then bounds the page's statement, so that the next page starts exactly where this one ended, whatever is
    submitted or deleted between the two statements.

    :returns: ``None`` if an index covers the whole filter, or fewer than :data:`MAX_EXAMINED` jobs are left.
    """
    return _last_read(conn, which, after) if _is_examined(which) else None


def _last_read(conn: sa.Connection, which: JobFilter, after: str | None) -> Place | None:
    row = conn.execute(_walked_by_index(which, after).offset(MAX_EXAMINED - 1).limit(1)).first()
    return None if row is None else (row.submitted_at, row.job_id)


def _is_examined(which: JobFilter) -> bool:
    """Return whether no index covers the whole filter. Active jobs are few, and found through the queue."""
    if which.statuses and which.statuses <= IN_THE_QUEUE and which.table is None and which.dag_id is None:
        return False
    both = which.table is not None and which.dag_id is not None
    of_some = which.table is not None or which.dag_id is not None
    other_catalogs = which.table is not None and bool(which.table.catalog_id)
    return bool(which.search) or which.dry_run is not None or both or other_catalogs or (of_some and bool(which.statuses))


def _walked_by_index(which: JobFilter, after: str | None) -> sa.Select[Any]:
    """Select the jobs that a page with this filter scans, by the most selective index."""
    statuses: frozenset[JobStatus] = frozenset()
    narrowest = JobFilter(since=which.since, until=which.until)
    if which.table is not None:
        narrowest = replace(narrowest, table=replace(which.table, catalog_id=""))
    elif which.dag_id is not None:
        narrowest = replace(narrowest, dag_id=which.dag_id)
    elif which.statuses <= WITH_ERROR:
        statuses = which.statuses
    where = [*_narrow(narrowest), *NEWEST_FIRST.beyond(after), *(_kept(statuses) if statuses else [])]
    return sa.select(jobs.c.submitted_at, jobs.c.job_id).where(*where).order_by(*NEWEST_FIRST.order())


def page_query(which: JobFilter, after: str | None, limit: int, last: Place | None = None) -> sa.Select[Any]:
    """Select a page of jobs, newest first: by one short index scan, or one for each of several statuses.

    A single statement: between two of them a job could change its status, and be found twice or not at all.

    :param last: the last place to read.
    """
    bound = [] if last is None else [NEWEST_FIRST.up_to(last)]
    walks = [_walk(statuses, [*where, *bound]).limit(limit) for statuses, where in _conditions(which, after)]
    if len(walks) == 1:
        return walks[0]
    met = sa.union_all(*(sa.select(walk.subquery()) for walk in walks)).subquery()
    return sa.select(met).order_by(*NEWEST_FIRST.order(met)).limit(limit)


def _walk(statuses: Set[JobStatus], where: Sequence[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    """Select jobs, newest first. Queued ones are read first and then sorted, or the planner might scan all jobs in order."""
    if not statuses or not statuses <= IN_THE_QUEUE:
        return sa.select(jobs).where(*where, *_of(statuses)).order_by(*NEWEST_FIRST.order())
    active = sa.select(jobs).where(*where, *_kept(statuses)).cte("active").prefix_with("MATERIALIZED")
    has_status = active.c.status.in_(sorted(statuses))
    return sa.select(active).where(has_status).order_by(*NEWEST_FIRST.order(active))


def count_by_status(conn: sa.Connection, rows: sa.FromClause) -> dict[JobStatus, int]:
    """Count rows by their ``status`` column."""
    found = {row[0]: row[1] for row in conn.execute(sa.select(rows.c.status, sa.func.count()).group_by(rows.c.status))}
    return {status: found.get(status.value, 0) for status in JobStatus}


def count(conn: sa.Connection, which: JobFilter, at_most: int) -> JobCounts:
    """Count the matching jobs of each status: up to ``at_most`` each or, without a fitting index, among those a page reads."""
    rest = replace(which, statuses=frozenset())
    if _is_examined(replace(rest, statuses=frozenset({JobStatus.COMPLETED}))):
        return _count_examined(conn, rest)
    by_status = {status: _count_walked(conn, replace(rest, statuses=frozenset({status})), at_most) for status in JobStatus}
    return JobCounts(by_status, frozenset(status for status, number in by_status.items() if number >= at_most))


def _count_examined(conn: sa.Connection, which: JobFilter) -> JobCounts:
    last = _last_read(conn, which, None)
    where = [*_narrow(which), *([] if last is None else [NEWEST_FIRST.up_to(last)])]
    by_status = count_by_status(conn, sa.select(jobs.c.status).where(*where).subquery())
    return JobCounts(by_status, frozenset() if last is None else frozenset(JobStatus))


def _count_walked(conn: sa.Connection, which: JobFilter, at_most: int) -> int:
    walks = ([*where, *_of(statuses)] for statuses, where in _conditions(which, None))
    some = (sa.select(jobs.c.job_id).where(*where).limit(at_most).subquery() for where in walks)
    found = sa.union_all(*(sa.select(each) for each in some)).subquery()
    return min(at_most, conn.execute(sa.select(sa.func.count()).select_from(found)).scalar_one())


def read_latest(conn: sa.Connection, table_keys: Sequence[str], catalog_id: str, *, dry_run: bool) -> list[Job]:
    """Return the newest job, or newest dry run, of each of these tables of one catalog."""
    rows = sa.func.json_array_elements_text if conn.dialect.name == "postgresql" else sa.func.json_each
    key = rows(sa.bindparam("table_keys", list(table_keys), type_=sa.JSON)).table_valued(sa.column("value", sa.Text))
    newest = sa.select(jobs.c.job_id).where(jobs.c.table_key == key.c.value, jobs.c.catalog_id == catalog_id)
    # A literal condition: a parameter would hide the dry runs' index from the planner; most tables have many jobs but no dry run.
    newest = newest.where(jobs.c.dry_run if dry_run else ~jobs.c.dry_run, IS_LIVE)
    newest = newest.order_by(*NEWEST_FIRST.order()).limit(1)
    ids = [job_id for job_id in conn.execute(sa.select(newest.scalar_subquery()).select_from(key)).scalars() if job_id]
    return [job_from(row) for row in conn.execute(sa.select(jobs).where(jobs.c.job_id.in_(ids)))]


def _conditions(which: JobFilter, after: str | None) -> list[tuple[Set[JobStatus], list[sa.ColumnElement[bool]]]]:
    """Return the statuses and conditions of each index scan: several short scans instead of one long one."""
    common = [*_narrow(which), *NEWEST_FIRST.beyond(after)]
    if (which.table is not None or which.dag_id is not None) and which.statuses:
        return [(frozenset(), [*common, jobs.c.status.in_(sorted(which.statuses))])]
    if not which.statuses:
        return [(frozenset(), common)]
    walks = (which.statuses & kept for kept in (IN_THE_QUEUE, WITH_ERROR, {JobStatus.COMPLETED}))
    return [(statuses, common) for statuses in walks if statuses]


def _of(statuses: Set[JobStatus]) -> list[sa.ColumnElement[bool]]:
    """Return the conditions for the statuses of one scan; no status means every status."""
    return [jobs.c.status.in_(sorted(statuses)), *_kept(statuses)] if statuses else []


def _kept(statuses: Set[JobStatus]) -> list[sa.ColumnElement[bool]]:
    """Return the condition of the index that has jobs of these statuses and few others; see ``store/tables/jobs.py``."""
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
        where += [jobs.c.owner.is_not(None), jobs_dag == f"{storable(which.dag_id)}/"]
    if which.since is not None:
        where.append(jobs.c.submitted_at >= which.since)
    if which.until is not None:
        where.append(jobs.c.submitted_at < which.until)
    if which.search:
        # Both sides in lower case by the database: SQLite lowers only ASCII, and Python more than either database.
        text = sa.func.lower(re.sub(r"([/%_])", r"/\1", storable(which.search)))
        where.append(sa.or_(*(sa.func.lower(column).contains(text, escape="/") for column in SEARCHED)))
    return where


_recent = row_mapper(RecentJob, {"status": JobStatus, "results": results_from_json}, table=table_from)
J = jobs.c
RECENT_COLUMNS = (
    *(J.job_id, J.catalog, J.catalog_id, J.database_name, J.table_name),
    *(J.status, J.submitted_at, J.completed_at, J.error, J.cancelled_by, J.results),
)


def read_recent(store: Store, since: datetime, at_most: int) -> list[RecentJob]:
    """Return the jobs that are active or ended since a time, newest first, without dry runs, in one statement.

    :param at_most: of the ended jobs, and again of the active ones, so that a long queue hides no ended job.
    """
    live = sa.select(*RECENT_COLUMNS).where(IS_LIVE, ~J.dry_run).order_by(*NEWEST_FIRST.order()).limit(at_most)
    ended = live.where(J.submitted_at >= since - LONGEST_WAIT, J.completed_at >= since)
    active = live.where(J.completed_at.is_(None), J.job_id.in_(sa.select(job_queue.c.job_id)))
    found = sa.union_all(*(sa.select(each.subquery()) for each in (ended, active))).subquery()
    return [_recent(row) for row in store.all(sa.select(found).order_by(*NEWEST_FIRST.order(found)))]
