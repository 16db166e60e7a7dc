"""Wait for the end of a maintenance job, for a free table, or for work."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import PokeReturnValue

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.base import UsesCatalog
from airflow_snowpack.sensors.base import WaitingSensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_snowpack.triggers import JobQueueTrigger, MaintenanceJobTrigger, TableLockTrigger


class MaintenanceJobSensor(WaitingSensor):
    """Waits until a maintenance job has ended.

    :param job_id: the id of the job, such as ``"{{ ti.xcom_pull('submit')['job_id'] }}"``.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.

    Returns the completed job as a dictionary. A failed or cancelled job fails the task without a retry, with the job's error.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id")
    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def poke(self, context: Context) -> PokeReturnValue:
        from airflow_snowpack.jobs import JobStatus, explain, shown_status
        from airflow_snowpack.operators.jobs import job_report

        with self.installation() as hook:
            job = hook.jobs().get(self.job_id)
            if self.deferrable:  # otherwise it pokes every few seconds
                self.log.info("Job %s on %s: %s", job.job_id, job.table, explain(hook.jobs(), job))
        show_job(self, context, job.job_id)
        if job.status in (JobStatus.FAILED, JobStatus.CANCELLED):
            raise AirflowFailException(
                f"The job {job.job_id} on {job.table} ended as {shown_status(job)}: {job.error or 'no reason was given'}"
            )
        return PokeReturnValue(is_done=job.status.is_terminal, xcom_value=job_report(job) if job.status.is_terminal else None)

    def question(self, context: Context, until: datetime) -> MaintenanceJobTrigger:
        from airflow_snowpack.triggers import MaintenanceJobTrigger

        return MaintenanceJobTrigger(self.job_id, self.store_conn_id, self.poke_interval)


class TableLockSensor(UsesCatalog, WaitingSensor):
    """Waits until a table is not locked.

    The table may be locked again before the next task runs. To keep other processes away, take the lock:
    ``AcquireTableLockOperator(if_locked="wait")``.

    :param table: ``database.table``.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.
    """

    template_fields: Sequence[str] = ("table", "store_conn_id", "catalog_conn_id")

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table

    def poke(self, context: Context) -> PokeReturnValue:

        with self.installation() as hook:
            lock = hook.locks().blocking(self.catalog_hook().identified(self.table))
        if lock is not None:
            self.log.info("The table %s is locked by %s", self.table, lock.holder)
        return PokeReturnValue(is_done=lock is None)

    def question(self, context: Context, until: datetime) -> TableLockTrigger:
        from airflow_snowpack.triggers import TableLockTrigger

        name, poll_s = self.catalog_hook().identified(self.table), self.poke_interval
        return TableLockTrigger(self.table, name.catalog, None, self.store_conn_id, poll_s, catalog_id=name.catalog_id)


class JobQueueSensor(UsesCatalog, WaitingSensor):
    """Waits until a worker of this catalog could claim a job.

    :param max_workers: the largest number of workers.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.

    Returns a number for each worker that the waiting jobs need, such as ``[0, 1, 2]``: one for each job, at most ``max_workers``.
    """

    template_fields: Sequence[str] = ("store_conn_id", "catalog_conn_id")

    def __init__(self, *, max_workers: int = 4, poke_interval: timedelta | float = timedelta(seconds=1), **kwargs: Any) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        if max_workers < 1:
            raise ValueError(f"max_workers = {max_workers} is not valid. It must be at least 1.")
        self.max_workers = max_workers

    def poke(self, context: Context) -> PokeReturnValue:
        with self.installation() as hook:
            depth = hook.jobs().queue_depth(self.catalog_hook().config.catalog_id)
        self.log.info("Jobs that wait for a worker: %s", depth)
        return PokeReturnValue(is_done=depth > 0, xcom_value=[*range(min(depth, self.max_workers))])

    def question(self, context: Context, until: datetime) -> JobQueueTrigger:
        from airflow_snowpack.triggers import JobQueueTrigger

        return JobQueueTrigger(self.catalog_hook().config.catalog_id, self.store_conn_id, self.poke_interval)
