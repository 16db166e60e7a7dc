"""Maintain one table, in the task itself or by a job that a worker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.assets import declare_outlet, maintained_tables, maintenance_outlet, record_maintenance
from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.arguments import read_flag, read_names, read_number, read_object, read_text
from airflow_snowpack.operators.base import WaitsForTable, is_retry, owner_of, worker_of
from airflow_snowpack.operators.jobs import job_report
from airflow_snowpack.operators.queued import QueuesJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow.sdk import Asset, AssetAlias, Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Job
    from airflow_snowpack.maintenance.submit import MaintenanceRequest

EVENT = ("job_id", "catalog_id", "actions", "before", "after")


class RequestsMaintenance(WaitsForTable):
    """Base of the operators that request maintenance of one table. The arguments are those of :class:`MaintainTableOperator`."""

    template_fields: Sequence[str] = (
        "table",
        "actions",
        "options",
        "where",
        "only_if_needed",
        "dry_run",
        "priority",
        "store_conn_id",
        "catalog_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"actions": "json", "options": "json", "where": "sql"}
    ui_color = "#dff3fb"

    def __init__(
        self,
        *,
        table: str,
        actions: Sequence[str] | str | None = None,
        options: Mapping[str, Mapping[str, Any]] | str | None = None,
        where: str | None = None,
        only_if_needed: bool | str = True,
        dry_run: bool | str = False,
        priority: int | str = 0,
        policies: str | Path | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.actions = actions
        self.options = options
        self.where = where
        self.only_if_needed = only_if_needed
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name
        self.priority = priority
        self.policies = policies
        self._outlet = self.declare_events()

    def declare_events(self) -> Asset | AssetAlias | None:
        """Declare the asset on which the task emits events."""
        return None

    def attempt(self, context: Context) -> dict[str, Any]:
        from airflow_snowpack.maintenance.submit import dry_run, refuse_if_draining

        with self.installation() as hook:
            jobs, owner = hook.jobs(), owner_of(context)
            refuse_if_draining(jobs, owner=owner)
            catalog_hook = self.catalog_hook()
            request = self._request(hook, catalog_hook.config.catalog_id)
            if request.is_auto:
                request = self._planned(context, hook, catalog_hook.catalog, request)
            elif request.orphan_age is not None:
                request = self._sparing_uncommitted_files(context, hook, request)
            if not read_flag("dry_run", self.dry_run):
                return self.request(context, hook, catalog_hook.catalog, request)
            job = dry_run(jobs, catalog_hook.catalog, request, submitted_by=owner)
            show_job(self, context, job.job_id)
            for result in job.results:
                self.log.info("%s: %s", result.action, result.message)
            return job_report(job)

    def _planned(self, context: Context, hook: SnowpackHook, catalog: Catalog, request: MaintenanceRequest) -> MaintenanceRequest:
        from airflow_snowpack.hooks.dag_files import bundle_folder
        from airflow_snowpack.iceberg import load_table
        from airflow_snowpack.maintenance.writers import RecentDags

        planner = hook.installation.planner(hook.settings.action_order, hook.policies(bundle_folder(context), self.policies))
        dags = RecentDags(self.dags_of_tables(context, hook, request.table), hook.installation.store.clock)
        planned = planner.planned(request, load_table(catalog, request.table), writers=lambda: dags().writers(request.table))
        if not read_flag("dry_run", self.dry_run):
            for decision in (planned.plan or {})["decisions"]:
                self.log.info("%s: %s, %s", decision["action"], decision["verdict"], decision["evidence"])
        return planned

    def _sparing_uncommitted_files(self, context: Context, hook: SnowpackHook, request: MaintenanceRequest) -> MaintenanceRequest:
        """Return the request without orphan files that a DAG run may still commit."""
        writers = self.dags_of_tables(context, hook, request.table)().writers(request.table)
        age, why = writers.protected_age(hook.installation.store.clock())
        sparing = request.without_orphans_below(age)
        if sparing is not request:
            self.log.info("remove_orphan_files: %s", why)
        return sparing

    def request(self, context: Context, hook: SnowpackHook, catalog: Catalog, request: MaintenanceRequest) -> dict[str, Any]:
        """Submit the request, and return its job."""
        raise NotImplementedError

    def _request(self, hook: SnowpackHook, catalog_id: str) -> MaintenanceRequest:
        from airflow_snowpack.connections.spark import known_iceberg
        from airflow_snowpack.maintenance import DEFAULT_ORDER
        from airflow_snowpack.maintenance.submit import MaintenanceRequest

        return MaintenanceRequest.parse(
            self.table,
            DEFAULT_ORDER if self.actions is None else read_names("actions", self.actions),
            catalog=hook.settings.catalog_name,
            catalog_id=catalog_id,
            options=read_object("options", self.options),
            where=read_text(self.where),
            only_if_needed=read_flag("only_if_needed", self.only_if_needed),
            priority=read_number("priority", self.priority) or 0,
            order=hook.settings.action_order,
            iceberg=known_iceberg(hook.settings, getattr(self, "spark_conn_id", None)),
        )


class MaintainTableOperator(RequestsMaintenance, QueuesJob):
    """Maintains one table under its lock, in the task itself or in a worker. Most DAGs need only this operator.

        MaintainTableOperator(
            task_id="maintain",
            table="demo.flights",
            actions=["rewrite_data_files", "expire_snapshots"],
            options={"expire_snapshots": {"retain_last": 10}},
        )

    A retry, or a clear, of the task instance takes over its job at once, even if the process of the try before is still alive:
    what that process writes no longer counts. If the job was completed, and the table has not changed since, a retry returns its
    result; a clear repeats the work. With ``execution="queued"``, the retry waits for its job again. If the task is killed,
    marked or cleared while it waits, or exceeds its ``execution_timeout``, its job is cancelled.

    :param table: ``database.table``.
    :param actions: names of actions, in any order: a list, a JSON array, or text with commas; ``None`` for the first five.
        ``"auto"``: those that the plan of the table runs now, with the options of its policy.
    :param options: per action, a dictionary or a JSON object.
    :param where: a Spark predicate that limits the rewrites, such as ``month = 3``.
    :param only_if_needed: skip, without Spark, each action that has nothing to do by the table's metadata; ``False`` runs all.
    :param dry_run: report, from metadata, what each action would do; no lock and no JVM.
    :param priority: from -1000 to 1000; waiting jobs with the highest priority run first.
    :param policies: the file for ``actions="auto"``, absolute or relative to the DAG bundle; ``None`` for ``[snowpack]
        policies``.
    :param store_conn_id, catalog_conn_id, spark_conn_id: Airflow connections; ``None`` for the installation's.
    :param if_locked: what to do when another process has locked the table: ``fail``, ``skip``, or ``wait`` in the triggerer.
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the time between two checks while waiting.
    :param execution: ``inline``: run the job in the task. ``queued``: queue it for a worker and wait in the triggerer, which uses
        no worker slot; the worker has its own ``spark_conn_id`` and ``continue_on_error``. ``None``: ``[snowpack] execution``.
    :param continue_on_error: run the remaining actions after one that failed; ``None``: ``[snowpack] continue_on_error``.

    Returns the job as a dictionary: ``job_id``, ``status``, ``results`` with messages and metrics, ``before`` and ``after``. If
    runs failed while the job rewrote the table that they write to, ``failed_writers`` has the DAG of each. After maintenance, but
    not after a dry run, the task emits an event with the same numbers on the asset of the table (see
    :func:`~airflow_snowpack.assets.iceberg_asset`), unless its DAG is scheduled on that asset.
    """

    template_fields: Sequence[str] = (*RequestsMaintenance.template_fields, "spark_conn_id", "execution")

    def declare_events(self) -> Asset | AssetAlias | None:
        """Declare the asset of the table, unless the task never maintains it."""
        dry_run: Any = self.dry_run
        outlet = maintenance_outlet(self.table, dry_run=dry_run, catalog_conn_id=self.catalog_conn_id)
        return declare_outlet(self, outlet, maintained_tables())

    def request(self, context: Context, hook: SnowpackHook, catalog: Catalog, request: MaintenanceRequest) -> dict[str, Any]:
        """Run the job, or queue it for a worker; a retry returns the job that an earlier try has completed."""
        from airflow_snowpack.maintenance.submit import completed_own

        if is_retry(context):
            done = completed_own(hook.jobs(), catalog, request, owner=owner_of(context))
            if done is not None:
                self.log.info("An earlier try of this task completed job %s, and the table has not changed since.", done.job_id)
                show_job(self, context, done.job_id)
                return self.report(context, done, {}, catalog)
        queued, before = self.is_queued(hook.settings), _numbers(catalog, request.table)
        if queued:
            self.queue_job(context, hook.jobs(), catalog, request, before)
        return self.report(context, self._run(context, hook, catalog, request), before, catalog)

    def report(self, context: Context, job: Job, before: Mapping[str, int], catalog: Catalog | None = None) -> dict[str, Any]:
        """Emit the event of the table, and return the job with the table's numbers."""
        report = job_report(job, before, self._numbers_after(job.table, catalog))
        if failed := self._failed_writers(context, job):
            report["failed_writers"] = failed
        if self._outlet is not None:
            event = {key: report[key] for key in EVENT if key in report}
            record_maintenance(context, self._outlet, job.table, event, catalog_conn_id=self.catalog_conn_id)
        return report

    def _failed_writers(self, context: Context, job: Job) -> list[str]:
        """Return the DAG of each run that failed while the job rewrote the table that it writes to."""
        from airflow_snowpack.jobs.model import ActionOutcome
        from airflow_snowpack.maintenance.options import rewrites_files

        rewrote = rewrites_files(each.action for each in job.results if each.outcome is not ActionOutcome.SKIPPED)
        if not rewrote or job.started_at is None or job.completed_at is None:
            return []
        try:
            with self.installation() as hook:
                dags = self.dags_of_tables(context, hook, job.table)()
            failed = [run.dag_id for run in dags.failed_beside(job.table, job.started_at, job.completed_at)]
        except Exception:
            self.log.warning("The runs that failed beside the maintenance of %s could not be read", job.table, exc_info=True)
            return []
        if failed:
            what = "Runs of these DAGs failed while the table was rewritten, which may have refused their commits"
            self.log.warning("%s: %s", what, ", ".join(failed))
        return failed

    def _run(self, context: Context, hook: SnowpackHook, catalog: Catalog, request: MaintenanceRequest) -> Job:
        from airflow_snowpack.maintenance.submit import claim_own

        owner, engine = owner_of(context), self.engine(hook, catalog)
        with self.kill_postponed():
            claim = claim_own(hook.jobs(), catalog, request, worker_of(context), owner=owner, submitted_by=owner)
            self.begin(hook, claim, engine)
        return self.run_attempt(context, claim)

    def _numbers_after(self, table: TableName, catalog: Catalog | None) -> Mapping[str, int] | None:
        try:
            return _numbers(catalog or self.catalog_hook().catalog, table)
        except Exception:
            self.log.warning("The numbers of %s after the maintenance could not be read", table, exc_info=True)
            return None


class SubmitMaintenanceOperator(RequestsMaintenance):
    """Locks a table and queues a job for it, which a worker runs.

        submitted = SubmitMaintenanceOperator(task_id="submit", table="demo.flights", actions=["expire_snapshots"])
        done = MaintenanceJobSensor(task_id="done", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")

    A retry after a try that submitted the job returns that job. The arguments are those of :class:`MaintainTableOperator`,
    without ``execution``, ``spark_conn_id`` and ``continue_on_error``.

    Returns the job as a dictionary, with its ``job_id``.
    """

    operator_extra_links = (MaintenanceJobLink(),)

    def request(self, context: Context, hook: SnowpackHook, catalog: Catalog, request: MaintenanceRequest) -> dict[str, Any]:
        from airflow_snowpack.maintenance.submit import submit_once

        owner = owner_of(context)
        job = submit_once(hook.jobs(), catalog, request, owner=owner, submitted_by=owner)
        show_job(self, context, job.job_id)
        return job_report(job)


def _numbers(catalog: Catalog, table: TableName) -> Mapping[str, int]:
    from airflow_snowpack.iceberg import load_table, read_numbers

    return read_numbers(load_table(catalog, table)).to_metrics()
