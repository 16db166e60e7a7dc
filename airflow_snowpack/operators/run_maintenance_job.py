"""Claims a job from the queue and runs it in the task.

    RunMaintenanceJobOperator(task_id="run", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")     # this one
    RunMaintenanceJobOperator(task_id="work")                                                     # the next one

With nothing to claim the task is skipped. A retry takes the job that its own try before holds over at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.operators.arguments import UnreadableArgument, read_text
from airflow_snowpack.operators.base import refusals_are_final
from airflow_snowpack.operators.running import RunsJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.jobs import Claim, Jobs
    from airflow_snowpack.store.signs_of_life import SignOfLife


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
            sign = self._sign(context, hook)
            catalog_hook = IcebergCatalogHook(self.catalog_conn_id)
            catalog_id = catalog_hook.config.catalog_id
            self._skip_if_idle(context, hook.jobs(), catalog_id)
            catalog = catalog_hook.catalog
            spark = IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id)
            take = partial(self._claim, context, hook.jobs(), catalog_id)
            return job_report(self.run_claim(hook.jobs(), take, spark, catalog, context, sign))

    def _sign(self, context: Context, hook: SnowpackHook) -> SignOfLife | None:
        """Report a worker, unless this task runs one certain job and leaves the queue alone."""
        from airflow_snowpack.operators.sign_of_life import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role

        if self._names_a_job:
            return None
        sign = sign_of_task(hook.store(), Role.WORKER, context)
        sign.beat()
        return sign

    def _refuse_empty_id(self) -> None:
        if self._names_a_job and read_text(self.job_id) is None:
            raise UnreadableArgument(
                "job_id", self.job_id, "the id of a job, or leave job_id out to run the next one in the queue"
            )

    def _skip_if_idle(self, context: Context, jobs: Jobs, catalog_id: str) -> None:
        """End at once when the queue is empty, before the catalog is connected: the usual case of a worker on a schedule."""
        if read_text(self.job_id) is None and context["ti"].try_number == 1 and jobs.queue_depth(catalog_id) == 0:
            raise AirflowSkipException(_nothing_to_claim(jobs, catalog_id))

    def _claim(self, context: Context, jobs: Jobs, catalog_id: str) -> Claim:
        from airflow_snowpack.iceberg.errors import WrongCatalog
        from airflow_snowpack.operators.base import worker_of

        job_id, worker = read_text(self.job_id), worker_of(context)
        if job_id is not None and (job := jobs.get(job_id)).table.catalog_id != catalog_id:
            raise WrongCatalog(job.table.dotted, job.table.catalog, job.table.catalog_id, catalog_id)
        again = context["ti"].try_number > 1
        claim = jobs.reclaim(TaskRef.of(context["ti"]).any_try, worker, job_id=job_id, catalog_id=catalog_id) if again else None
        claim = claim or jobs.claim(worker, job_id=job_id, catalog_id=catalog_id)
        if claim is not None:
            return claim
        if job_id is None:
            raise AirflowSkipException(_nothing_to_claim(jobs, catalog_id))
        raise AirflowSkipException(f"The job {job_id} cannot be claimed now; it is {jobs.get(job_id).status}.")


def _nothing_to_claim(jobs: Jobs, catalog_id: str) -> str:
    left = sum(jobs.waiting_elsewhere(catalog_id).values())
    if not left:
        return "No job waits in the queue."
    which = "1 waiting job belongs" if left == 1 else f"{left} waiting jobs belong"
    return f"No job of the catalog {catalog_id} waits in the queue; {which} to other catalogs, whose workers claim them."
