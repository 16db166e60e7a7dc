"""Waits until a maintenance job has ended, and takes its outcome over.

MaintenanceJobSensor(task_id="done", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.refusals import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.jobs import Job


class MaintenanceJobSensor(BaseSensorOperator):
    """Waits for one job.

    :param job_id: which one.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, without a worker's slot; the default.

    Returns the job as a dictionary when it is completed. A job that failed or was cancelled fails the task with the job's error,
    and for good: looking again would find the same.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id")
    ui_color = "#e6f1f2"
    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(
        self,
        *,
        job_id: str,
        store_conn_id: str | None = None,
        deferrable: bool = True,
        poke_interval: timedelta | float = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.job_id = job_id
        self.store_conn_id = store_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, and wait in the triggerer if the job is still active."""
        if not self.deferrable:
            return super().execute(context)
        looked = self.poke(context)
        if looked.is_done:
            return looked.xcom_value
        from airflow_snowpack.triggers.maintenance_job import MaintenanceJobTrigger

        trigger = MaintenanceJobTrigger(self.job_id, self.store_conn_id, self.poke_interval)
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return None

    def poke(self, context: Context) -> PokeReturnValue:
        """Look at the job."""
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.operators.report import job_report

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            job = hook.jobs().get(self.job_id)
        show_job(self, context, job.job_id)
        _refuse_unsuccessful(job)
        return PokeReturnValue(is_done=job.status.is_terminal, xcom_value=job_report(job) if job.status.is_terminal else None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The trigger saw the job's end."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        return self.poke(context).xcom_value


def _refuse_unsuccessful(job: Job) -> None:
    from airflow_snowpack.jobs import JobStatus

    if job.status in (JobStatus.FAILED, JobStatus.CANCELLED):
        raise AirflowFailException(
            f"The job {job.job_id} on {job.table} ended as {job.status}: {job.error or 'no reason was given'}"
        )
