"""Reads jobs and the queue without changing them.

reader = JobReader(store)
reader.get(job_id)
reader.page(JobFilter(table=table, statuses=frozenset({JobStatus.FAILED})))
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.action_history import ActionHistory, read_histories
from airflow_snowpack.jobs.claim_order import ORDER
from airflow_snowpack.jobs.drain import read_drain
from airflow_snowpack.jobs.errors import JobNotFound
from airflow_snowpack.jobs.history import History
from airflow_snowpack.jobs.listing import (
    IS_LIVE,
    NEWEST_FIRST,
    JobCounts,
    JobFilter,
    JobPage,
    count,
    count_by_status,
    read_latest,
    read_page,
)
from airflow_snowpack.jobs.model import DrainState, HistoryEntry, Job, JobStatus, QueuePlace, QueueSample, QueueState
from airflow_snowpack.jobs.recent import RecentJob, read_recent
from airflow_snowpack.jobs.rows import job_from
from airflow_snowpack.jobs.statements import draining
from airflow_snowpack.store import Store, row_mapper, storable
from airflow_snowpack.store.tables.jobs import job_queue, jobs

unclaimed = job_queue.c.claimed_at.is_(None)
place_from = row_mapper(QueuePlace, attempt="attempt_count")
state_from = row_mapper(
    QueueState,
    depth=lambda row: 0 if row.draining else row.visible,
    held=lambda row: row.visible if row.draining else 0,
)


EVERYTHING = JobFilter()


class JobReader:
    def __init__(self, store: Store) -> None:
        self.store = store
        self._events = History(store)

    def action_histories(self, tables: Collection[TableName]) -> dict[TableName, ActionHistory]:
        """Return what past jobs did to each table, per action, in one statement per thousand tables."""
        return read_histories(self.store, tables)

    def find_owned(self, owner: str) -> Job | None:
        """Return the pending or running job of this owner, if any."""
        # An owner has few jobs, but the queue may be long: unlike EXISTS, a scalar subquery never becomes a join from the queue.
        is_active = sa.select(job_queue.c.job_id).where(job_queue.c.job_id == jobs.c.job_id).scalar_subquery().is_not(None)
        query = sa.select(jobs).where(jobs.c.owner == storable(owner), is_active).order_by(jobs.c.submitted_at.desc()).limit(1)
        row = self.store.first(query)
        return None if row is None else job_from(row)

    def last_owned(self, owner: str) -> Job | None:
        """Return the newest job of this owner in any state, or ``None``."""
        query = sa.select(jobs).where(jobs.c.owner == storable(owner), IS_LIVE).order_by(jobs.c.submitted_at.desc()).limit(1)
        row = self.store.first(query)
        return None if row is None else job_from(row)

    def awaited(self) -> list[Job]:
        """Return the pending and running jobs whose tasks wait for them."""
        # From the queue, which is short, to its jobs by key.
        query = sa.select(jobs).join(job_queue, job_queue.c.job_id == jobs.c.job_id)
        return [job_from(row) for row in self.store.all(query.where(jobs.c.awaited, ~jobs.c.inline))]

    def get(self, job_id: str) -> Job:
        """:raises JobNotFound: there is no such job, or it was deleted."""
        job = self._first(jobs.c.job_id == storable(job_id), IS_LIVE)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus | JobNotFound]:
        """Return the status of several jobs in one statement; ``JobNotFound`` for a missing or deleted job."""
        query = sa.select(jobs.c.job_id, jobs.c.status).where(IS_LIVE)
        found = {row.job_id: JobStatus(row.status) for row in self.store.all_by_key(query, jobs.c.job_id, job_ids)}
        return {job_id: found.get(storable(job_id)) or JobNotFound(job_id) for job_id in job_ids}

    def find(self, job_id: str) -> Job | None:
        """Return the job, even if deleted; ``None`` if it never existed."""
        return self._first(jobs.c.job_id == storable(job_id))

    def find_all(self, job_ids: Collection[str]) -> dict[str, Job]:
        """Return these jobs by id, in one statement; deleted and missing ones are left out."""
        rows = self.store.all_by_key(sa.select(jobs).where(IS_LIVE), jobs.c.job_id, job_ids)
        return {row.job_id: job_from(row) for row in rows}

    def ids_beginning(self, beginning: str, *, limit: int = 10) -> list[str]:
        """Return the ids that start with a short id, without deleted jobs."""
        return self.store.ids_beginning(jobs.c.job_id, beginning, limit, IS_LIVE)

    def queue_depth(self, catalog_id: str | None = None) -> int:
        """Count the jobs that a worker could claim now (default: of all catalogs); pools of workers scale by it."""
        query = sa.select(sa.func.count()).select_from(job_queue).where(self._claimable())
        query = query if catalog_id is None else query.where(job_queue.c.catalog_id == catalog_id)
        return int(self.store.scalar(query))

    def queue_depths(self, catalog_ids: Collection[str]) -> dict[str, int]:
        """Count the jobs that a worker could claim now, for each of these catalogs."""
        which = sa.and_(self._claimable(), job_queue.c.catalog_id.in_(catalog_ids))
        counted = sa.select(job_queue.c.catalog_id, sa.func.count().label("waiting")).where(which)
        rows = self.store.all(counted.group_by(job_queue.c.catalog_id))
        return dict.fromkeys(catalog_ids, 0) | {row.catalog_id: row.waiting for row in rows}

    def waiting_elsewhere(self, catalog_id: str) -> dict[str, int]:
        """Count the claimable jobs of every other catalog, by ``catalog_id``."""
        theirs = sa.and_(self._claimable(), job_queue.c.catalog_id != catalog_id)
        counted = sa.select(job_queue.c.catalog_id, sa.func.count().label("waiting")).where(theirs)
        return {row.catalog_id: row.waiting for row in self.store.all(counted.group_by(job_queue.c.catalog_id))}

    def running_in_workers(self) -> dict[str, int]:
        """Count the jobs that queue workers run, by ``catalog_id``, without those that tasks run inline."""
        # A look-up for each row of the queue: for a join, Postgres without statistics would scan all jobs.
        inline = sa.select(jobs.c.inline).where(jobs.c.job_id == job_queue.c.job_id).scalar_subquery()
        counted = sa.select(job_queue.c.catalog_id, sa.func.count().label("running")).where(~unclaimed, ~inline)
        return {row.catalog_id: row.running for row in self.store.all(counted.group_by(job_queue.c.catalog_id))}

    def history(self, job_id: str) -> list[HistoryEntry]:
        """Return the events of a job, oldest first; best-effort, see ``history.py``."""
        return self._events.of(job_id)

    def page(self, which: JobFilter = EVERYTHING, *, after: str | None = None, limit: int = 100) -> JobPage:
        """Return a page of the jobs that match the filter, newest first.

        :param after: ``next`` of the previous page.
        :raises InvalidCursor: ``after`` is not the cursor of a page.
        """
        return self.store.read(lambda conn: read_page(conn, which, after, limit))

    def count(self, which: JobFilter = EVERYTHING, *, at_most: int = 10_000) -> JobCounts:
        """Count the jobs of each status that match the rest of the filter, up to ``at_most`` of each; see ``listing.py``."""
        return self.store.read(lambda conn: count(conn, which, at_most))

    def count_open(self) -> dict[JobStatus, int]:
        # From the queue, a look-up for each row: for a join, Postgres without statistics would scan all jobs.
        status = sa.select(jobs.c.status).where(jobs.c.job_id == job_queue.c.job_id).scalar_subquery()
        queued = sa.select(status.label("status")).select_from(job_queue).subquery()
        found = self.store.read(lambda conn: count_by_status(conn, queued))
        return {status: found[status] for status in (JobStatus.PENDING, JobStatus.RUNNING)}

    def count_recent(self, period: timedelta, *, at_most: int = 10_000) -> dict[JobStatus, int]:
        """Count the jobs submitted within this period by status, among the ``at_most`` newest."""
        recent = sa.and_(IS_LIVE, jobs.c.submitted_at >= self.store.clock() - period)
        newest = sa.select(jobs.c.status).where(recent).order_by(*NEWEST_FIRST.order()).limit(at_most).subquery()
        return self.store.read(lambda conn: count_by_status(conn, newest))

    def recent(self, since: datetime, *, at_most: int) -> list[RecentJob]:
        """Return the jobs that are active or ended since this time, newest first, without dry runs, in one statement.

        :param at_most: of the ended jobs, and again of the active ones.
        """
        return read_recent(self.store, since, at_most)

    def latest(self, tables: Iterable[TableName], *, dry_run: bool = False) -> dict[TableName, Job]:
        """Return the newest job, or the newest dry run, of each table that has one."""
        keys: dict[str, list[str]] = {}
        for table in tables:
            keys.setdefault(table.catalog_id, []).append(str(table))

        def read(conn: sa.Connection) -> dict[TableName, Job]:
            found = (job for each, names in keys.items() for job in read_latest(conn, names, each, dry_run=dry_run))
            return {job.table: job for job in found}

        return self.store.read(read) if keys else {}

    def queue(self) -> QueueState:
        """Return depth, age and occupation of the queue."""
        ready = self._visible()

        def how_many(which: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
            return sa.func.coalesce(sa.func.sum(sa.case((which, 1), else_=0)), 0)

        query = sa.select(
            how_many(ready).label("visible"),
            sa.func.min(sa.case((ready, job_queue.c.enqueued_at))).label("oldest"),
            how_many(sa.and_(unclaimed, ~ready)).label("delayed"),
            how_many(~unclaimed).label("running"),
            draining.label("draining"),
        )
        return state_from(self.store.first(query))

    def places(self, job_ids: Iterable[str]) -> dict[str, QueuePlace]:
        """Return the places of these jobs in the queue; finished jobs have none."""
        ids = [*job_ids]
        rows = self.store.all(sa.select(job_queue).where(job_queue.c.job_id.in_(ids))) if ids else ()
        return {row.job_id: place_from(row) for row in rows}

    def ahead_of(self, job_ids: Collection[str]) -> dict[str, int]:
        """Count the visible jobs of the same catalog that workers claim before each of these queued jobs, in one statement."""
        before, names = job_queue.alias("before"), [column.name for column in ORDER]
        first, here = (sa.tuple_(*(table.c[name] for name in names)) for table in (before, job_queue))
        due = sa.and_(before.c.claimed_at.is_(None), before.c.visible_at <= self.store.clock())
        ahead = sa.select(sa.func.count()).where(due, before.c.catalog_id == job_queue.c.catalog_id, first < here)
        query = sa.select(job_queue.c.job_id, ahead.scalar_subquery().label("ahead"))
        return {row.job_id: row.ahead for row in self.store.all_by_key(query, job_queue.c.job_id, job_ids)}

    def queue_over_time(self, period: timedelta = timedelta(days=1), steps: int = 96) -> list[QueueSample]:
        """Count the waiting and the running jobs at evenly spaced times up to now.

        A job waits from its submission to its start and runs until its end; requeues are not counted. Jobs submitted more than a
        day before the period count only while they are active.
        """
        now = self.store.clock()
        since = now - period
        active = jobs.c.job_id.in_(sa.select(job_queue.c.job_id))
        recent = sa.and_(jobs.c.submitted_at > since - timedelta(days=1), IS_LIVE, ~jobs.c.dry_run)
        spans = sa.select(jobs.c.submitted_at, jobs.c.started_at, jobs.c.completed_at)
        moments = [since + period * step / steps for step in range(1, steps + 1)]
        waiting, running = [0] * steps, [0] * steps
        for job in self.store.all(spans.where(recent).union_all(spans.where(active, ~recent))):
            end = job.completed_at or now + timedelta(microseconds=1)
            start = min(job.started_at or end, end)
            _add(waiting, moments, job.submitted_at, start)
            _add(running, moments, start, end)
        return [QueueSample(*sample) for sample in zip(moments, waiting, running, strict=True)]

    def drain(self) -> DrainState:
        """Return whether drain mode is on."""
        return self.store.read(read_drain)

    def list(self, table: TableName | None = None, status: JobStatus | None = None, limit: int = 100) -> list[Job]:
        """Return the newest jobs that were not deleted."""
        which = JobFilter(table=table, statuses=frozenset({status} if status is not None else ()))
        return [*self.page(which, limit=limit).items]

    def _first(self, *where: sa.ColumnElement[bool]) -> Job | None:
        row = self.store.first(sa.select(jobs).where(*where))
        return None if row is None else job_from(row)

    def _visible(self) -> sa.ColumnElement[bool]:
        return sa.and_(unclaimed, job_queue.c.visible_at <= self.store.clock())

    def _claimable(self) -> sa.ColumnElement[bool]:
        return sa.and_(self._visible(), ~draining)


def _add(counts: list[int], moments: list[datetime], begin: datetime, end: datetime) -> None:
    """Count a span that includes its begin but not its end."""
    for index in range(bisect_left(moments, begin), bisect_left(moments, end)):
        counts[index] += 1
