"""Runs a claimed job inside of a task, and leaves the store tidy when Airflow ends the task.

    class MyOperator(RunsJob):
        def execute(self, context):
            job = self.run_claim(jobs, take, spark, catalog, context)

Airflow's SIGTERM calls ``on_kill`` and would then let ``execute`` go on for five more seconds; so ``on_kill`` stops the
Spark work, fails the job, and ends the process. Nothing of this relies on being called: without it the lease runs out, or
the next try takes the job over.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowTaskTimeout

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.openlineage import LineageFacets

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
    from airflow_snowpack.jobs import Attempt, Claim, Job, Jobs, StaleAttempt
    from airflow_snowpack.store.signs_of_life import SignOfLife

KILLED_EXIT_CODE = 143  # 128 + SIGTERM, as a shell would tell it


class RunsJob(LineageFacets, BaseOperator):
    """The part of an operator that runs a job.

    :param continue_on_error: go on after an action that failed; ``None`` for what ``[snowpack] continue_on_error`` says.
    """

    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(self, *, continue_on_error: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.continue_on_error = continue_on_error

    _running: Attempt | None = None
    _job_id = ""
    _claiming = False
    _killed = False

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

        def claim() -> Attempt:
            claimed = take()
            job = claimed.job
            self._job_id = job.job_id
            self.log.info("Job %s, attempt %d, on %s: %s", job.job_id, claimed.attempt, job.table, ", ".join(job.actions))
            return Attempt(jobs, claimed, engine, continue_on_error=go_on, sign=sign)

        attempt = self._unless_killed(claim)
        # Before the work, which may be killed, and before the block below: a signal meanwhile still finds the attempt.
        show_job(self, context, self._job_id)
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

    def on_kill(self) -> None:
        """Stop the Spark work, fail the job, and end the process: Airflow would otherwise let the task go on."""
        self._killed = True
        if self._claiming:
            return  # the claim that is under way would be left behind; whoever claims looks at the flag afterwards
        if self._running is not None:
            self._running.abandon(f"Airflow ended the task {self.dag_id}.{self.task_id}")
        if isinstance(sys.exception(), AirflowTaskTimeout):
            return  # the task's own time limit, which Airflow reports better than an exit
        raise SystemExit(KILLED_EXIT_CODE)

    def _unless_killed(self, claim: Callable[[], Attempt]) -> Attempt:
        """A claim, and the attempt that answers for it, as one step for a signal that comes in between."""
        self._claiming = True
        try:
            self._running = claim()
        finally:
            self._claiming = False
            if self._killed:
                self.on_kill()
        return self._running


def _left(stale: StaleAttempt) -> AirflowException:
    """How a task ends whose attempt was replaced.

    Only a job that waits in the queue again may be tried again by this task. For one that another attempt runs or has ended,
    a retry would take it from its successor; for a cancelled one it would undo the cancel.
    """
    from airflow_snowpack.jobs import JobStatus

    if stale.status is JobStatus.PENDING:
        return AirflowException(str(stale))
    return AirflowFailException(str(stale))
