"""Run jobs from the queue in a task, and cancel them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.arguments import UnreadableArgument, read_text
from airflow_snowpack.operators.base import ReportsLineage, StopsWhenKilled, UsesCatalog, UsesStore, owner_of, worker_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.jobs import Attempt, Claim, Job, Jobs, StaleAttempt
    from airflow_snowpack.maintenance import SparkEngine
    from airflow_snowpack.store.signs_of_life import SignOfLife


class RunsJob(ReportsLineage, StopsWhenKilled, UsesCatalog):
    """Base of the operators that run a job in their own task.

        engine = self.engine(hook, catalog)
        with self.kill_postponed():
            claim = hook.jobs().claim(worker_of(context))
            self.begin(hook, claim, engine)
        job = self.run_attempt(context, claim)

    Whatever can fail early (settings, connections, the catalog) is tried before the claim: a task that cannot work takes no job.

    :param continue_on_error: run the remaining actions after one that failed; ``None``: ``[snowpack] continue_on_error``.
    """

    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(
        self,
        *,
        continue_on_error: bool | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.continue_on_error = continue_on_error
        self.spark_conn_id = spark_conn_id

    _running: Attempt | None = None
    _job_id: str | None = None

    def job_ids(self) -> Sequence[str]:
        return () if self._job_id is None else (self._job_id,)

    def engine(self, hook: SnowpackHook, catalog: Catalog) -> SparkEngine:
        """Return the engine that runs the actions; raise :class:`SparkUnavailable` if this machine has no Spark."""
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
        from airflow_snowpack.inventory import stored_footprints
        from airflow_snowpack.maintenance import SparkEngine
        from airflow_snowpack.maintenance.removals.records import Removals

        spark = IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id)
        spark.check()
        footprints = partial(stored_footprints, hook.store())
        return SparkEngine(spark.sessions, lambda: catalog, footprints=footprints, removals=Removals(hook.store()))

    def begin(self, hook: SnowpackHook, claim: Claim, engine: SparkEngine, sign: SignOfLife | None = None) -> None:
        """Begin the attempt at a claimed job, which a kill abandons from here on; ``sign`` is the queue worker's sign of life."""
        from airflow_snowpack.jobs import Attempt

        continues = hook.settings.continue_on_error if self.continue_on_error is None else self.continue_on_error
        self._running = Attempt(hook.jobs(), claim, engine, continue_on_error=continues, sign=sign)
        self._job_id = claim.job.job_id

    def run_attempt(self, context: Context, claim: Claim) -> Job:
        """Run the attempt that has begun, to its end.

        :raises AirflowException: the job failed; the message is the error of its action.
        :raises LeaseRanOut: the store did not answer for longer than the lease; a retry takes the job over.
        :raises AirflowFailException: a retry would fail again, take the job from another process, or undo a cancel.
        """
        from airflow_snowpack.jobs import StaleAttempt

        assert self._running is not None, "it has begun"
        job = claim.job
        self.log.info("Job %s, attempt %d, on %s: %s", job.job_id, claim.attempt, job.table, job.work)
        # Outside of the block below: a kill that arrives meanwhile finds the attempt.
        show_job(self, context, job.job_id)
        try:
            job = self._running.run()
        except StaleAttempt as stale:
            raise replaced(stale) from stale
        finally:
            self._running = None
        return require_completed(job)

    def abandon(self, reason: str) -> None:
        if self._running is not None:
            self._running.abandon(reason)


def require_completed(job: Job) -> Job:
    """Return the job if it is completed.

    :raises AirflowException: it failed; the message is the error of its action.
    :raises AirflowFailException: a retry would fail again, or undo a cancel.
    """
    from airflow_snowpack.jobs import JobStatus, shown_status

    if job.status is JobStatus.COMPLETED:
        return job
    final = job.status is JobStatus.CANCELLED or any(result.final for result in job.results)
    failure = AirflowFailException if final else AirflowException
    raise failure(f"The maintenance of {job.table} ended as {shown_status(job)} (job {job.job_id}): {job.error}")


def replaced(stale: StaleAttempt) -> AirflowException:
    """Return the exception that ends a task whose attempt was replaced.

    The task may retry only a job that waits in the queue again. If another attempt runs or has ended the job, a retry would take
    it from that attempt; if the job was cancelled, a retry would undo the cancel.
    """
    from airflow_snowpack.jobs import JobStatus

    return AirflowException(str(stale)) if stale.status is JobStatus.PENDING else AirflowFailException(str(stale))


class RunMaintenanceJobOperator(RunsJob):
    """Claims a job from the queue and runs it in the task.

        RunMaintenanceJobOperator(task_id="run", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")     # this job
        RunMaintenanceJobOperator(task_id="work")                                                     # the next one

    A retry takes over the job that the try before had claimed.

    :param job_id: the job to run; ``None`` for the next one in the queue. A template that renders to nothing is refused.
    :param store_conn_id, catalog_conn_id, spark_conn_id: Airflow connections; ``None`` for the installation's.
    :param continue_on_error: run the remaining actions after one that failed; ``None``: ``[snowpack] continue_on_error``.

    Returns the job as a dictionary. Skipped when there is nothing to claim: the queue is empty, or the job has ended, runs
    elsewhere, or is not due yet after a failure. In drain mode a task without a job is skipped; one with a pending job is
    retried.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id", "catalog_conn_id", "spark_conn_id")
    ui_color = "#dff3fb"

    def __init__(self, *, job_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self._names_a_job = job_id is not None

    def execute(self, context: Context) -> dict[str, Any]:
        with self.installation() as hook:
            self._refuse_empty_id()
            sign = self._sign(context, hook)
            catalog_hook = self.catalog_hook()
            catalog_id = catalog_hook.config.catalog_id
            self._skip_if_idle(context, hook.jobs(), catalog_id)
            engine = self.engine(hook, catalog_hook.catalog)
            with self.kill_postponed():
                claim = self._claim(context, hook.jobs(), catalog_id)
                self.begin(hook, claim, engine, sign)
            return job_report(self.run_attempt(context, claim))

    def _sign(self, context: Context, hook: SnowpackHook) -> SignOfLife | None:
        """Report a worker, unless the task runs one named job and not the queue."""
        from airflow_snowpack.operators.housekeeping import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role

        if self._names_a_job:
            return None
        sign = sign_of_task(hook.store(), Role.WORKER, context)
        sign.beat()
        return sign

    def _refuse_empty_id(self) -> None:
        if self._names_a_job and read_text(self.job_id) is None:
            expected = "the id of a job, or leave job_id out to run the next one in the queue"
            raise UnreadableArgument("job_id", self.job_id, expected)

    def _skip_if_idle(self, context: Context, jobs: Jobs, catalog_id: str) -> None:
        """Skip the task before connecting to the catalog if the queue is empty, as it usually is for a worker on a schedule."""
        if read_text(self.job_id) is None and context["ti"].try_number == 1 and jobs.queue_depth(catalog_id) == 0:
            raise AirflowSkipException(nothing_to_claim(jobs, catalog_id))

    def _claim(self, context: Context, jobs: Jobs, catalog_id: str) -> Claim:
        from airflow_snowpack.airflow.task_ref import TaskRef
        from airflow_snowpack.iceberg.errors import WrongCatalog
        from airflow_snowpack.jobs import DrainModeOn, JobStatus

        job_id, worker = read_text(self.job_id), worker_of(context)
        if job_id is not None and (job := jobs.get(job_id)).table.catalog_id != catalog_id:
            raise WrongCatalog(job.table.dotted, job.table.catalog, job.table.catalog_id, catalog_id)
        again = context["ti"].try_number > 1
        any_try = TaskRef.of(context["ti"]).any_try
        claim = jobs.reclaim(any_try, worker, job_id=job_id, catalog_id=catalog_id) if again else None
        claim = claim or jobs.claim(worker, job_id=job_id, catalog_id=catalog_id)
        if claim is not None:
            return claim
        if job_id is None:
            raise AirflowSkipException(nothing_to_claim(jobs, catalog_id))
        status = jobs.get(job_id).status
        if status is JobStatus.PENDING and (state := jobs.drain()).on:
            raise DrainModeOn(state, "no job is claimed. Run the task again when it is off.")
        raise AirflowSkipException(f"The job {job_id} cannot be claimed now; it is {status}.")


def nothing_to_claim(jobs: Jobs, catalog_id: str) -> str:
    """Return why a worker of this catalog finds no job."""
    if jobs.drain().on:
        return "Drain mode is on: no job is claimed."
    left = sum(jobs.waiting_elsewhere(catalog_id).values())
    if not left:
        return "No job waits in the queue."
    which = "1 waiting job belongs" if left == 1 else f"{left} waiting jobs belong"
    return f"No job of the catalog {catalog_id} waits in the queue; {which} to other catalogs, whose workers claim them."


class CancelMaintenanceOperator(UsesStore):
    """Cancels a pending or running job. A running job stops its Spark work within seconds and then releases its table.

    :param job_id: the job to cancel.
    :param store_conn_id: the Airflow connection of the store; ``None`` for the installation's.

    Returns the job as a dictionary. Skipped when the job has already ended.
    """

    template_fields: Sequence[str] = ("job_id", "store_conn_id")
    ui_color = "#fbe3df"
    operator_extra_links = (MaintenanceJobLink(),)

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.jobs import JobAlreadyFinished

        with self.installation() as hook:
            show_job(self, context, hook.jobs().get(self.job_id).job_id)
            try:
                return job_report(hook.jobs().cancel(self.job_id, by=owner_of(context)))
            except JobAlreadyFinished as finished:
                raise AirflowSkipException(str(finished)) from finished


def job_report(job: Job, before: Mapping[str, int] | None = None, after: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a job as JSON values, for XCom, with the table's numbers before and after the job if they are known."""
    elapsed = (job.completed_at - job.started_at).total_seconds() if job.completed_at and job.started_at else None
    report: dict[str, Any] = {
        "job_id": job.job_id,
        "table": str(job.table),
        "catalog_id": job.table.catalog_id,
        "status": job.status.value,
        "dry_run": job.dry_run,
        "priority": job.priority,
        "actions": list(job.actions),
        "results": [
            {
                "action": result.action,
                "outcome": result.outcome.value,
                "success": result.success,
                "message": result.message,
                "error": result.error,
                "metrics": dict(result.metrics),
                "elapsed_seconds": result.elapsed_seconds,
            }
            for result in job.results
        ],
        "attempt": job.attempt,
        "error": job.error,
        "elapsed_seconds": elapsed,
    }
    return report | ({"before": dict(before)} if before else {}) | ({"after": dict(after)} if after else {})
