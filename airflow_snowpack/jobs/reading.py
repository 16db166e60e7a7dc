"""Looks at jobs without changing them.

reader = JobReader(store)
reader.get(job_id)
reader.list(table=table, status=JobStatus.FAILED)
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.errors import JobNotFound
from airflow_snowpack.jobs.history import History
from airflow_snowpack.jobs.model import DrainState, HistoryEntry, Job, JobStatus
from airflow_snowpack.jobs.rows import job_from
from airflow_snowpack.jobs.switches import read_drain
from airflow_snowpack.store import Store
from airflow_snowpack.store.schema import job_queue, jobs

IS_LIVE = jobs.c.deleted_at.is_(None)


class JobReader:
    """What can be asked about jobs."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._events = History(store)

    def find_owned(self, owner: str) -> Job | None:
        """The job of this owner that is pending or running, if there is one."""
        query = (
            sa.select(jobs)
            .join(job_queue, job_queue.c.job_id == jobs.c.job_id)
            .where(jobs.c.owner == owner)
            .order_by(jobs.c.submitted_at.desc())
        )
        row = self.store.read(lambda conn: conn.execute(query).first())
        return None if row is None else job_from(row)

    def get(self, job_id: str) -> Job:
        """:raises JobNotFound: no such job, or it was deleted."""
        query = sa.select(jobs).where(jobs.c.job_id == job_id, IS_LIVE)
        row = self.store.read(lambda conn: conn.execute(query).first())
        if row is None:
            raise JobNotFound(job_id)
        return job_from(row)

    def queue_depth(self) -> int:
        """How many jobs a worker could claim now: the specification's count, which a worker pool is scaled by."""
        ready = sa.and_(job_queue.c.claimed_at.is_(None), job_queue.c.visible_at <= self.store.clock())
        query = sa.select(sa.func.count()).select_from(job_queue).where(ready)
        return self.store.read(lambda conn: conn.execute(query).scalar_one())

    def history(self, job_id: str) -> list[HistoryEntry]:
        """The events of a job's life, oldest first; best-effort, see ``history.py``."""
        return self._events.of(job_id)

    def list(self, table: TableName | None = None, status: JobStatus | None = None, limit: int = 100) -> list[Job]:
        """Jobs that were not deleted, newest first."""
        query = sa.select(jobs).where(IS_LIVE).order_by(jobs.c.submitted_at.desc(), jobs.c.job_id).limit(limit)
        if table is not None:
            query = query.where(jobs.c.table_key == str(table))
        if status is not None:
            query = query.where(jobs.c.status == status.value)
        return [job_from(row) for row in self.store.read(lambda conn: conn.execute(query).all())]

    def drain(self) -> DrainState:
        """Whether submissions are refused."""
        return self.store.read(read_drain)
