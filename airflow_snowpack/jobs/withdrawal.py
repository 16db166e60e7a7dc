"""Withdraws a job that waits and is not needed any more.

    withdraw(store, job_id, "The time of the pass was over.")

The invariant: a job that a worker has claimed is left alone. So a withdrawn job has never touched its table in this attempt.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.jobs import statements as do
from airflow_snowpack.jobs.model import JobStatus
from airflow_snowpack.store import Store, repeatable, storable
from airflow_snowpack.store.tables.jobs import job_queue, jobs


def withdraw(store: Store, job_id: str, reason: str) -> bool:
    """Cancel a job that no worker has claimed, and unlock its table.

    :param reason: becomes the error of the job.
    :returns: ``False`` when a worker has the job, or it has ended; then nothing was written.
    """
    now = store.clock()
    cancelled = {"status": JobStatus.CANCELLED.value, "attempt_id": None, "completed_at": now, "error": storable(reason)}
    waiting = sa.and_(job_queue.c.job_id == job_id, job_queue.c.claimed_at.is_(None))

    def write(conn: sa.Connection) -> bool:
        if conn.execute(sa.delete(job_queue).where(waiting)).rowcount != 1:
            return False
        ended = sa.update(jobs).where(jobs.c.job_id == job_id).values(cancelled)
        row = conn.execute(ended.returning(do.LOCK_KEY, jobs.c.spark_server)).one()
        # The work of a lost attempt may still run on a Spark server; the sweep ends that, and then frees the table.
        unlock = do.unlock_table() if row.spark_server is None else do.expire_lock()
        conn.execute(unlock, {"b_key": job_id, "b_table": row.lock_key, "b_now": now})
        return True

    def withdrawn_before(conn: sa.Connection) -> bool:
        ours = sa.and_(jobs.c.job_id == job_id, jobs.c.status == cancelled["status"], jobs.c.completed_at == now)
        return conn.execute(sa.select(jobs.c.job_id).where(ours)).first() is not None

    return store.transact(repeatable(write, withdrawn_before))
