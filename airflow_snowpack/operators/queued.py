"""Queue a job from a task, wait for its end in the triggerer, and cancel the job if the task ends first.

    def request(self, context, hook, catalog, request):
        self.queue_job(context, hook.jobs(), catalog, request, before)       # leaves the worker slot

    def report(self, context, job, before): ...                          # after the job has completed

The invariant: a task that ends, or that Airflow ends while it waits, leaves no pending or running job behind. The event of the
trigger is a hint; the task reads the job.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowException

from airflow_snowpack.airflow_versions import TaskDeferralError, TaskDeferralTimeout
from airflow_snowpack.assets import is_template
from airflow_snowpack.links import show_job
from airflow_snowpack.operators.arguments import UnreadableArgument, UnusableArgument, read_text
from airflow_snowpack.operators.base import WaitsForTable, owner_of
from airflow_snowpack.operators.jobs import RunsJob, require_completed
from airflow_snowpack.setting import EXECUTIONS, read_execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.jobs import Job, Jobs, TableLocked
    from airflow_snowpack.lineage.operation import DatasetAt, TableAt
    from airflow_snowpack.maintenance.submit import MaintenanceRequest
    from airflow_snowpack.setting import Execution
    from airflow_snowpack.settings import Settings

WORKERS_OWN = ("continue_on_error", "spark_conn_id")
"""Arguments that apply only if the task runs its job; a worker uses its own."""


class QueuesJob(WaitsForTable, RunsJob):
    """Base of the operators that run their job in the task or queue it for a worker.

    :param execution: ``inline``, ``queued``, or ``None`` for ``[snowpack] execution``.
    """

    def __init__(self, *, execution: Execution | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.execution = execution
        if execution is not None and not is_template(execution):
            self.read_execution("inline")

    _queued: tuple[Jobs, str, str] | None = None
    _ended_job: Job | None = None

    def report(self, context: Context, job: Job, before: Mapping[str, int]) -> Any:
        """Emit the events of a completed job, and return the XCom; ``before`` has the table's numbers before the job."""
        raise NotImplementedError

    def read_execution(self, default: Execution) -> Execution:
        """Return where the job runs.

        :param default: without an argument.
        :raises UnreadableArgument: the argument is not an execution.
        :raises UnusableArgument: the job would be queued, and another argument would have no effect.
        """
        text = read_text(self.execution)
        try:
            execution = default if text is None else read_execution(text)
        except ValueError:
            raise UnreadableArgument("execution", text, " or ".join(EXECUTIONS)) from None
        for name in WORKERS_OWN if execution == "queued" else ():
            if read_text(value := getattr(self, name)) is not None:
                why = f"has no effect with execution = '{execution}', because the worker that runs the job has its own"
                raise UnusableArgument(name, value, why, "Remove it, or use execution = 'inline'")
        return execution

    def is_queued(self, settings: Settings) -> bool:
        """Return whether a worker runs the job; raises what :meth:`read_execution` raises."""
        return self.read_execution(settings.execution) == "queued"

    def queue_job(
        self, context: Context, jobs: Jobs, catalog: Catalog, request: MaintenanceRequest, before: Mapping[str, int]
    ) -> NoReturn:
        """Queue the job, or find the one that an earlier try queued, and wait for its end."""
        from airflow_snowpack.maintenance.submit import submit_own

        owner = owner_of(context)
        with self.kill_postponed():
            job = submit_own(jobs, catalog, request, owner=owner, submitted_by=owner)
            self._queued = jobs, job.job_id, owner
        self._wait(context, jobs, job, before)

    def job_ended(self, context: Context, event: dict[str, Any], job_id: str, before: Mapping[str, int]) -> Any:
        """Resume after a wait, and wait again if the job has not ended."""
        from airflow_snowpack.connections.errors import ConnectionUnreadable
        from airflow_snowpack.jobs import JobStatus
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        owner = owner_of(context)
        with self.installation() as hook:
            try:
                jobs, job = hook.jobs(), hook.jobs().get(job_id)
            except (ConnectionUnreadable, StoreTooSlow, StoreUnreachable) as outage:
                self.log.warning("The job is read again when the store answers: %s", outage)
                self._defer(context, job_id, before)
            if not job.status.is_terminal:
                if problem := event.get("problem"):
                    self._cancel(jobs, job_id, owner)
                    raise AirflowException(problem)
                self._queued = jobs, job_id, owner
                self._wait(context, jobs, job, before)
            show_job(self, context, job_id)
            if job.status is JobStatus.CANCELLED and job.cancelled_by == owner:
                self.log.info("Job %s was cancelled with an earlier try of this task. The task submits it again.", job_id)
                return self._attempt_or_wait(context, until=None)
            self._ended_job, self._job_id = job, job_id
            return self.report(context, require_completed(job), before)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Cancel the job if Airflow ends the wait: after ``execution_timeout``, or because the trigger failed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except (TaskDeferralError, TaskDeferralTimeout):
            with self.installation() as hook:
                own = hook.jobs().find_owned(owner_of(context))
                if own is not None:
                    self._cancel(hook.jobs(), own.job_id, owner_of(context))
            raise

    def abandon(self, reason: str) -> None:
        if self._queued is not None:
            self._cancel(*self._queued)
        super().abandon(reason)

    def must_wait(self, context: Context, locked: TableLocked) -> bool:
        """Return whether the worker of a job that an earlier try of this task cancelled is leaving the table."""
        with self.installation() as hook:
            holder = hook.jobs().find(locked.lock.holder)
        return holder is not None and holder.owner == owner_of(context)

    def read_and_written(self) -> tuple[Sequence[TableAt | DatasetAt], Sequence[TableAt | DatasetAt]]:
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.lineage.operations import OperationLog

        job = self._ended_job
        if job is None:
            return (), ()
        with SnowpackHook(self.store_conn_id) as hook:
            newest = OperationLog(hook.store()).of_table(str(job.table)).items
        done = [each for each in reversed(newest) if each.job_id == job.job_id]
        return [table for each in done for table in each.inputs], [table for each in done for table in each.outputs]

    def time_left(self, context: Context) -> timedelta | None:
        """Return what remains of ``execution_timeout`` for a queued job, which counts from the beginning of the try.

        The try may have waited for its table, or for an earlier job, before.
        """
        from airflow_snowpack.settings import Settings
        from airflow_snowpack.store import utc_now

        limit, began = self.execution_timeout, context["ti"].start_date
        if limit is None or began is None or not self.is_queued(Settings.load()):
            return None
        return max(timedelta(0), began + limit - utc_now())

    def _wait(self, context: Context, jobs: Jobs, job: Job, before: Mapping[str, int]) -> NoReturn:
        from airflow_snowpack.jobs import explain
        from airflow_snowpack.store import StoreError

        show_job(self, context, job.job_id)
        self.log.info("Job %s on %s: %s", job.job_id, job.table, job.work)
        try:
            self.log.info("%s", explain(jobs, job))
        except StoreError as problem:
            # The job is queued: a task that failed now would leave it behind.
            self.log.warning("The task waits, but the reason cannot be read: %s", problem)
        self._defer(context, job.job_id, before)

    def _defer(self, context: Context, job_id: str, before: Mapping[str, int]) -> NoReturn:
        from airflow_snowpack.triggers import MaintenanceJobTrigger

        poll_s = self.poll_interval.total_seconds()
        trigger = MaintenanceJobTrigger(job_id, self.store_conn_id, poll_s, owner=owner_of(context))
        arguments = {"job_id": job_id, "before": dict(before)}
        self.defer(trigger=trigger, method_name="job_ended", kwargs=arguments, timeout=self.time_left(context))
        raise AssertionError("defer() raises")

    def _cancel(self, jobs: Jobs, job_id: str, by: str) -> None:
        from airflow_snowpack.jobs import JobAlreadyFinished, JobNotFound, JobRunsInTask

        with suppress(JobAlreadyFinished, JobNotFound, JobRunsInTask):
            jobs.cancel(job_id, by=by, unless_inline=True)
            self.log.info("Job %s was cancelled, because its task has ended.", job_id)
