"""Which old jobs may be deleted for good, with their events.

    Pruner(store, KINDS, older_than=timedelta(days=180))

The invariant: a job stays while it is queued, holds a lock, or a Spark server may still work for it. The newest job and the
newest dry run of each table stay too: the list of tables shows when a table was last maintained, however long ago.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.jobs.idempotency import KEPT
from airflow_snowpack.jobs.model import JobStatus
from airflow_snowpack.jobs.statements import LOCK_KEY
from airflow_snowpack.store.retention import BEFORE, RetainedRows
from airflow_snowpack.store.tables.jobs import action_records, job_history, job_queue, jobs, table_locks

ENDED = tuple(status.value for status in JobStatus if status.is_terminal)
newer = jobs.alias("newer")

# Scalar subqueries instead of EXISTS, which Postgres would turn into joins over all rows of the other table.
queued = sa.select(job_queue.c.job_id).where(job_queue.c.job_id == jobs.c.job_id).scalar_subquery()
lock = (
    sa.select(table_locks.c.table_key)
    .where(table_locks.c.table_key == LOCK_KEY.element, table_locks.c.holder == jobs.c.job_id)
    .scalar_subquery()
)
successor = (
    sa.select(newer.c.job_id)
    .where(
        newer.c.table_key == jobs.c.table_key,
        newer.c.catalog_id == jobs.c.catalog_id,
        newer.c.dry_run == jobs.c.dry_run,
        newer.c.deleted_at.is_(None),
        sa.tuple_(newer.c.submitted_at, newer.c.job_id) > sa.tuple_(jobs.c.submitted_at, jobs.c.job_id),
    )
    .order_by(newer.c.submitted_at.desc(), newer.c.job_id.desc())
    .limit(1)
    .scalar_subquery()
)
over = sa.and_(
    jobs.c.status.in_(ENDED),
    # Jobs are scanned by submission; a job that waited or ran for long may have ended much later.
    sa.func.coalesce(jobs.c.completed_at, jobs.c.submitted_at) < BEFORE,
    jobs.c.spark_server.is_(None),
    queued.is_(None),
    lock.is_(None),
)


def _jobs(which: sa.ColumnElement[bool], unneeded: sa.ColumnElement[bool]) -> RetainedRows:
    return RetainedRows(
        jobs,
        age=jobs.c.submitted_at,
        order=(jobs.c.submitted_at, jobs.c.job_id),
        which=which,
        unneeded=unneeded,
        belongings=(job_history.c.job_id,),
        at_least=KEPT,  # a request repeated with its idempotency key still finds its job
    )


KINDS = (
    _jobs(jobs.c.deleted_at.is_(None), sa.and_(over, successor.is_not(None))),
    _jobs(jobs.c.deleted_at.is_not(None), over),
    # Records of tables without maintenance for that long.
    RetainedRows(
        action_records, age=action_records.c.last_run_at, order=(action_records.c.last_run_at, action_records.c.table_key)
    ),
)
