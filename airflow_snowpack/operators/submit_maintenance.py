"""Submits a job for a worker to run, and goes on.

    submitted = SubmitMaintenanceOperator(task_id="submit", table="demo.flights", actions=["expire_snapshots"])
    done = MaintenanceJobSensor(task_id="done", job_id="{{ ti.xcom_pull('submit')['job_id'] }}")

A retry whose first try had submitted already finds that job again, instead of being refused by its own lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.links import MaintenanceJobLink, show_job
from airflow_snowpack.operators.arguments import read_flag, read_names, read_object, read_text
from airflow_snowpack.operators.waiting import WaitsForTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context


class SubmitMaintenanceOperator(WaitsForTable):
    """Locks a table and queues a job for it.

    The arguments are those of :class:`~airflow_snowpack.operators.MaintainTableOperator`, without what running it needs.
    Returns the job as a dictionary, with its ``job_id``.
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
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"actions": "json", "options": "json", "where": "sql"}
    ui_color = "#dff3fb"
    operator_extra_links = (MaintenanceJobLink(),)

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

    def attempt(self, context: Context) -> dict[str, Any]:
        """Submit, or raise ``TableLocked``."""
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.maintenance.submit import ALL_ACTIONS, MaintenanceRequest, dry_run, refuse_if_draining, submit_once
        from airflow_snowpack.operators.base import owner_of
        from airflow_snowpack.operators.report import job_report

        with SnowpackHook(self.store_conn_id) as hook:
            owner = owner_of(context)
            refuse_if_draining(hook.jobs(), owner=owner)
            catalog_hook = IcebergCatalogHook(self.catalog_conn_id)
            request = MaintenanceRequest.parse(
                self.table,
                ALL_ACTIONS if self.actions is None else read_names("actions", self.actions),
                catalog=hook.settings.catalog_name,
                catalog_id=catalog_hook.config.catalog_id,
                options=read_object("options", self.options),
                where=read_text(self.where),
                only_if_needed=read_flag("only_if_needed", self.only_if_needed),
                order=hook.settings.action_order,
            )
            catalog = catalog_hook.catalog
            if read_flag("dry_run", self.dry_run):
                job = dry_run(hook.jobs(), catalog, request, submitted_by=owner)
            else:
                job = submit_once(hook.jobs(), catalog, request, owner=owner, submitted_by=owner)
            show_job(self, context, job.job_id)
            return job_report(job)
