"""Cancels a job, for good: a running one stops its Spark work within seconds and then frees its table.

CancelMaintenanceOperator(task_id="stop", job_id="{{ params.job_id }}")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class CancelMaintenanceOperator(BaseOperator):
    """Cancels a pending or running job.

    :param job_id: which one.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.

    Returns the job as a dictionary. Skipped when the job has ended already, so that it can stand at the end of any DAG.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id")
    ui_color = "#fbe3df"
    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(self, *, job_id: str, store_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Cancel."""
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.jobs import JobAlreadyFinished
        from airflow_snowpack.operators.base import owner_of
        from airflow_snowpack.operators.report import job_report

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            show_job(self, context, hook.jobs().get(self.job_id).job_id)
            try:
                return job_report(hook.jobs().cancel(self.job_id, by=owner_of(context)))
            except JobAlreadyFinished as finished:
                raise AirflowSkipException(str(finished)) from finished
