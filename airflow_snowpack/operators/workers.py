"""Run jobs of the queue in a task, one after the other, with one Spark session."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_snowpack.operators.base import ReportsLineage, StopsWhenKilled, UsesCatalog, worker_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.jobs import Claim, JobWorker


class WorksForQueue(ReportsLineage, StopsWhenKilled, UsesCatalog):
    """Base of the operators that run jobs one after the other, with one Spark session for all.

    :param spark_conn_id: the Airflow connection of Spark; ``None`` for the installation's.
    """

    def __init__(self, *, spark_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id

    _worker: JobWorker | None = None

    def queue_worker(
        self, context: Context, hook: SnowpackHook, *, claim_next: Callable[[], Claim | None] | None = None
    ) -> JobWorker:
        """Return the worker of this task, which a kill abandons from here on. A retry resumes the job of the try before.

        :param claim_next: see :class:`JobWorker`.
        :raises SparkUnavailable, CatalogUnreachable: this machine cannot run jobs.
        """
        from airflow_snowpack.airflow.task_ref import TaskRef
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
        from airflow_snowpack.jobs import JobWorker
        from airflow_snowpack.operators.housekeeping import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role
        from airflow_snowpack.worker.process import engines

        spark = IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id).spark
        self._worker = JobWorker(
            hook.jobs(),
            engines(hook.installation, spark),
            worker_of(context),
            catalog_id=spark.catalog.catalog_id,
            continue_on_error=hook.settings.continue_on_error,
            sign=sign_of_task(hook.store(), Role.WORKER, context),
            resumes=TaskRef.of(context["ti"]).any_try if context["ti"].try_number > 1 else None,
            claiming=self.kill_postponed,
            claim_next=claim_next,
        )
        return self._worker

    def job_ids(self) -> Sequence[str]:
        """Return the jobs that this try claimed last."""
        return () if self._worker is None else tuple(self._worker.recent)

    def abandon(self, reason: str) -> None:
        if self._worker is not None:
            self._worker.abandon(reason)


class RunQueuedJobsOperator(WorksForQueue):
    """Claims jobs from the queue and runs them until none is left.

        wanted = JobQueueSensor(task_id="wait", max_workers=4)
        RunQueuedJobsOperator.partial(task_id="work", pool="snowpack_workers").expand(number=wanted.output)

    All jobs of the task share one Spark session. A job that fails does not fail the task: the task or the person that submitted
    it sees its error. A retry takes over the job that the try before had claimed.

    :param number: the worker's number among those of its run; it has no effect on the work.
    :param run_for: claim no more jobs after this time: the DAG's next run can then start more workers, or new code.
    :param store_conn_id, catalog_conn_id, spark_conn_id: Airflow connections; ``None`` for the installation's.

    Returns how many jobs ended in which status, such as ``{"completed": 12, "failed": 1}``. Skipped without a job to claim.
    """

    template_fields: Sequence[str] = ("store_conn_id", "catalog_conn_id", "spark_conn_id")
    ui_color = "#dff3fb"

    def __init__(
        self,
        *,
        number: int = 0,
        run_for: timedelta = timedelta(minutes=30),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.run_for = run_for

    def execute(self, context: Context) -> dict[str, int]:
        from airflow_snowpack.operators.housekeeping import sign_of_task
        from airflow_snowpack.operators.jobs import nothing_to_claim
        from airflow_snowpack.store.signs_of_life import Role

        with self.installation() as hook:
            jobs, catalog_id = hook.jobs(), self.catalog_hook().config.catalog_id
            sign_of_task(hook.store(), Role.WORKER, context).beat()
            if context["ti"].try_number == 1 and jobs.queue_depth(catalog_id) == 0:
                raise AirflowSkipException(nothing_to_claim(jobs, catalog_id))
            worker = self.queue_worker(context, hook)
            ended, until = Counter[str](), hook.store().clock() + self.run_for
            while hook.store().clock() < until and (status := worker.run_once()) is not None:
                ended[status.value] += 1
        if not ended:
            raise AirflowSkipException("No job of this catalog could be claimed.")
        return dict(ended)
