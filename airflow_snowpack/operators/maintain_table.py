"""Maintains one table in the task itself: submit, claim and run. The operator that most DAGs need.

    MaintainTableOperator(
        task_id="maintain",
        table="demo.flights",
        actions=["rewrite_data_files", "expire_snapshots"],
        options={"expire_snapshots": {"retain_last": 10}},
    )

A retry, or a clear, of the same task instance takes its own job over at once, even if the process of the try before is still
alive: the store's fence keeps that one from counting.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.assets import is_started_by, maintained_tables, maintenance_outlet, record_maintenance
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.links import show_job
from airflow_snowpack.operators.arguments import read_flag, read_names, read_object, read_text
from airflow_snowpack.operators.running import RunsJob
from airflow_snowpack.operators.waiting import WaitsForTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Job
    from airflow_snowpack.maintenance.submit import MaintenanceRequest


class MaintainTableOperator(WaitsForTable, RunsJob):
    """Makes one table healthy, under its lock.

    :param table: ``database.table``.
    :param actions: names of actions, in any order: a list, a JSON array, or text with commas; ``None`` for all five.
    :param options: per action, a dictionary or a JSON object.
    :param where: a Spark predicate that narrows the rewrites, such as ``month = 3``.
    :param only_if_needed: skip, without Spark, each action that has nothing to do by the table's metadata; ``False`` runs all.
    :param dry_run: only tell, from metadata, what each action would do; no lock and no JVM.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id`` and
        ``spark_conn_id``.
    :param if_locked: what to do when somebody else holds the table: ``fail``, ``skip`` or ``wait`` (in the triggerer).
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the pause between two looks while waiting.
    :param continue_on_error: go on after an action that failed; ``None`` for what ``[snowpack] continue_on_error`` says.

    Returns the job as a dictionary: ``job_id``, ``status``, ``results`` with messages and metrics, ``before`` and ``after``.
    After a real run it leaves an event on the asset of the table (see :func:`~airflow_snowpack.assets.iceberg_asset`) with the
    same numbers, unless that asset is what its DAG is scheduled on.
    """

    template_fields: Sequence[str] = (
        "table",
        "actions",
        "options",
        "where",
        "only_if_needed",
        "dry_run",
        "store_conn_id",
        "catalog_conn_id",
        "spark_conn_id",
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
        catalog_conn_id: str | None = None,
        spark_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.actions = actions
        self.options = options
        self.where = where
        self.only_if_needed = only_if_needed
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name
        self.catalog_conn_id = catalog_conn_id
        self.spark_conn_id = spark_conn_id
        alias = maintained_tables()  # declared by the caller: a mapped task, which Airflow makes only when it runs
        self._outlet = (
            alias if alias in self.outlets else maintenance_outlet(table, dry_run=dry_run, catalog_conn_id=catalog_conn_id)
        )
        if self._outlet is not None and self._outlet not in self.outlets:
            if self.has_dag() and is_started_by(self.dag, self._outlet):  # type: ignore[no-untyped-call]  # Airflow's is untyped
                self._outlet = None
            else:
                self.outlets.append(self._outlet)

    def attempt(self, context: Context) -> dict[str, Any]:
        """Maintain the table, or raise ``TableLocked``."""
        from airflow_snowpack.hooks.store import SnowpackHook

        with SnowpackHook(self.store_conn_id) as hook:
            return self._maintain(context, hook)

    def _maintain(self, context: Context, hook: SnowpackHook) -> dict[str, Any]:
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook
        from airflow_snowpack.maintenance.submit import claim_own, dry_run, refuse_if_draining
        from airflow_snowpack.operators.base import owner_of, worker_of
        from airflow_snowpack.operators.report import job_report

        jobs, owner = hook.jobs(), owner_of(context)
        refuse_if_draining(jobs, owner=owner)
        catalog_hook = IcebergCatalogHook(self.catalog_conn_id)
        request = self._request(hook, catalog_hook.config.catalog_id)
        catalog = catalog_hook.catalog
        if read_flag("dry_run", self.dry_run):
            job = dry_run(jobs, catalog, request, submitted_by=owner)
            show_job(self, context, job.job_id)
            self._tell_plan(job)
            return job_report(job)
        before = _numbers(catalog, request.table)
        spark = IcebergSparkHook(self.spark_conn_id, self.catalog_conn_id)
        take = partial(claim_own, jobs, catalog, request, worker_of(context), owner=owner, submitted_by=owner)
        job = self.run_claim(jobs, take, spark, catalog, context)
        report = job_report(job, before, self._numbers_after(catalog, request.table))
        if self._outlet is not None:
            event: dict[str, Any] = {
                key: report[key] for key in ("job_id", "catalog_id", "actions", "before", "after") if key in report
            }
            record_maintenance(context, self._outlet, request.table, event, catalog_conn_id=self.catalog_conn_id)
        return report

    def _request(self, hook: SnowpackHook, catalog_id: str) -> MaintenanceRequest:
        from airflow_snowpack.maintenance.submit import ALL_ACTIONS, MaintenanceRequest

        settings = hook.settings
        return MaintenanceRequest.parse(
            self.table,
            ALL_ACTIONS if self.actions is None else read_names("actions", self.actions),
            catalog=settings.catalog_name,
            catalog_id=catalog_id,
            options=read_object("options", self.options),
            where=read_text(self.where),
            only_if_needed=read_flag("only_if_needed", self.only_if_needed),
            order=settings.action_order,
        )

    def _numbers_after(self, catalog: Catalog, table: TableName) -> Mapping[str, int] | None:
        try:
            return _numbers(catalog, table)
        except SnowpackError:
            # The work is done and recorded; a retry for the sake of some numbers would do it all again.
            self.log.warning("The numbers of %s after the maintenance could not be read", table, exc_info=True)
            return None

    def _tell_plan(self, job: Job) -> None:
        for result in job.results:
            self.log.info("%s: %s", result.action, result.message)


def _numbers(catalog: Catalog, table: TableName) -> Mapping[str, int]:
    from airflow_snowpack.iceberg import load_table, read_numbers

    return read_numbers(load_table(catalog, table)).to_metrics()
