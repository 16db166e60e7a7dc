"""Claims a job from the queue and runs it in the task.

    RunMaintenanceJobOperator(task_id="run", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")     # this one
    RunMaintenanceJobOperator(task_id="work")                                                     # the next one

With nothing to claim the task is skipped. A retry takes the job that its own try before holds over at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_snowpack.operators.refusals import refusals_are_final
from airflow_snowpack.operators.rendered import UnreadableArgument, read_text
from airflow_snowpack.operators.running import RunsJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.jobs import Claim, Jobs


class RunMaintenanceJobOperator(RunsJob):
    """Runs one job under a fenced claim.

    :param job_id: this job; ``None`` for the next one in the queue. A template that renders to nothing is
        refused, and runs no other job instead.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id`` and
        ``spark_conn_id``.
    :param continue_on_error: go on after an action that failed; ``None`` for what ``[snowpack] continue_on_error`` says.

    Returns the job as a dictionary. Skipped when there is nothing to claim: the queue is empty, or the job has ended, runs
    elsewhere, or waits out its back-off.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id", "catalog_conn_id", "spark_conn_id")
    ui_color = "#dff3fb"

    def __init__(
        self,
        *,
        job_id: str | None = None,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self._names_a_job = job_id is not None
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.spark_conn_id = spark_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Claim and run."""
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.operators.report import job_report

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            self._refuse_empty_id()
            self._skip_if_idle(context, hook.jobs())
            catalog = IcebergCatalogHook(self.catalog_conn_id).catalog
            spark = IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id)
            take = partial(self._claim, context, hook.jobs())
            return job_report(self.run_claim(hook.jobs(), take, spark, catalog, context))

    def _refuse_empty_id(self) -> None:
        if self._names_a_job and read_text(self.job_id) is None:
            raise UnreadableArgument(
                "job_id", self.job_id, "the id of a job, or leave job_id out to run the next one in the queue"
            )

    def _skip_if_idle(self, context: Context, jobs: Jobs) -> None:
        """End at once when the queue is empty, before the catalog is connected: the usual case of a worker on a schedule."""
        if read_text(self.job_id) is None and context["ti"].try_number == 1 and jobs.queue_depth() == 0:
            raise AirflowSkipException("No job waits in the queue.")

    def _claim(self, context: Context, jobs: Jobs) -> Claim:
        from airflow_snowpack.operators.identity import tries_of, worker_of

        job_id, worker = read_text(self.job_id), worker_of(context)
        claim = jobs.reclaim(tries_of(context), worker, job_id=job_id) if context["ti"].try_number > 1 else None
        claim = claim or jobs.claim(worker, job_id=job_id)
        if claim is not None:
            return claim
        if job_id is None:
            raise AirflowSkipException("No job waits in the queue.")
        raise AirflowSkipException(f"The job {job_id} cannot be claimed now; it is {jobs.get(job_id).status}.")
