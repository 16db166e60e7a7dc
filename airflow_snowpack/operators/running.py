"""Runs a claimed job inside of a task, and leaves the store tidy when Airflow ends the task.

class MyOperator(RunsJob):
    def execute(self, context):
        job = self.run_claim(jobs, take, spark, catalog, context)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.base import ReportsLineage, StopsWhenKilled

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
    from airflow_snowpack.jobs import Attempt, Claim, Job, Jobs, StaleAttempt
    from airflow_snowpack.store.signs_of_life import SignOfLife


class RunsJob(ReportsLineage, StopsWhenKilled):
    """The part of an operator that runs a job.

    :param continue_on_error: go on after an action that failed; ``None`` for what ``[snowpack] continue_on_error`` says.
    """

    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(self, *, continue_on_error: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.continue_on_error = continue_on_error

    _running: Attempt | None = None

    def run_claim(
        self,
        jobs: Jobs,
        take: Callable[[], Claim],
        spark: IcebergSparkHook,
        catalog: Catalog,
        context: Context,
        sign: SignOfLife | None = None,
    ) -> Job:
        """Claim a job and run it to its end.

        :param take: claims the job. What can fail before (settings, connections, the catalog) should have been tried by
            then, so that a task which cannot work takes no job away from one that can.
        :param sign: the sign of life of a task that drains the queue.
        :raises SparkUnavailable: this machine has no Spark to run it on; nothing was claimed.
        :raises AirflowException: the job failed; the message is the error of its action.
        :raises LeaseRanOut: the store was away for longer than the lease; a retry takes the job over.
        :raises AirflowFailException: the same request would fail again, or another process has the job now, or it was cancelled.
        """
        from airflow_snowpack.inventory import stored_locations
        from airflow_snowpack.jobs import Attempt, JobStatus, StaleAttempt
        from airflow_snowpack.maintenance import SparkEngine

        spark.check()
        engine = SparkEngine(spark.sessions, lambda: catalog, locations=partial(stored_locations, jobs.store))
        go_on = spark.settings.continue_on_error if self.continue_on_error is None else self.continue_on_error

        with self.kill_postponed():
            claimed = take()
            attempt = self._running = Attempt(jobs, claimed, engine, continue_on_error=go_on, sign=sign)
        job = claimed.job
        self.log.info("Job %s, attempt %d, on %s: %s", job.job_id, claimed.attempt, job.table, ", ".join(job.actions))
        # Before the work, which may be killed, and before the block below: a signal meanwhile still finds the attempt.
        show_job(self, context, job.job_id)
        try:
            job = attempt.run()
        except StaleAttempt as stale:
            raise _left(stale) from stale
        finally:
            self._running = None
        if job.status is not JobStatus.COMPLETED:
            failure = AirflowFailException if any(result.final for result in job.results) else AirflowException
            raise failure(f"The maintenance of {job.table} ended as {job.status} (job {job.job_id}): {job.error}")
        return job

    def abandon(self, reason: str) -> None:
        """Stop the Spark work and fail the job."""
        if self._running is not None:
            self._running.abandon(reason)


def _left(stale: StaleAttempt) -> AirflowException:
    """How a task ends whose attempt was replaced.

    Only a job that waits in the queue again may be tried again by this task. For one that another attempt runs or has ended,
    a retry would take it from its successor; for a cancelled one it would undo the cancel.
    """
    from airflow_snowpack.jobs import JobStatus

    if stale.status is JobStatus.PENDING:
        return AirflowException(str(stale))
    return AirflowFailException(str(stale))
