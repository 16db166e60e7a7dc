"""Drops the interim tables that nobody needs any more: collector and sweeper as one task, to be scheduled every few minutes.

    CollectInterimTablesOperator(task_id="collect")
    CollectInterimTablesOperator(task_id="look", dry_run=True)          # only tells what would go

Who has finished it hears from Airflow itself, with the task's own identity. One table that cannot be dropped does not keep the
others: it is in the report, and the next pass tries it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_snowpack.operators.arguments import UnreadableArgument, read_flag, read_period, read_text
from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from airflow.sdk import Context

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.interim.collection.model import Collected
    from airflow_snowpack.interim.collection.sweeper import SweepAction


class CollectInterimTablesOperator(BaseOperator):
    """Makes one pass of the collector, and one of the sweeper.

    :param sweep: whether tables and files go too that are called like interim tables and that no record has.
    :param sweep_after: from which age on: a ``timedelta``, or text such as ``2d``; ``None`` for what
        ``[snowpack] interim_sweep_after`` says.
    :param dry_run: only tell what would go.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id``.

    Returns what was dropped, what could not be and why, what stays and why, and what the sweeper found; of each the first fifty.
    """

    template_fields: Sequence[str] = ("sweep", "sweep_after", "dry_run", "store_conn_id", "catalog_conn_id")
    ui_color = "#f2ecdf"

    def __init__(
        self,
        *,
        sweep: bool | str = True,
        sweep_after: timedelta | str | None = None,
        dry_run: bool | str = False,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sweep = sweep
        self.sweep_after = sweep_after
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Collect, then sweep."""
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.interim import open_collector
        from airflow_snowpack.hooks.run_states import TaskRunStates
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.operators.base import worker_of
        from airflow_snowpack.operators.interim_report import SHOWN, collection_report
        from airflow_snowpack.operators.sign_of_life import sign_of_task
        from airflow_snowpack.store.signs_of_life import Role

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            dry_run, catalog_hook = read_flag("dry_run", self.dry_run), IcebergCatalogHook(self.catalog_conn_id)
            sweep_after = self._sweep_after(hook)
            sign = None if dry_run else sign_of_task(hook.store(), Role.COLLECTOR, context)
            collector = open_collector(hook, TaskRunStates(), catalog_hook, holder=worker_of(context), sign=sign)
            collected = collector.run(dry_run=dry_run)
            self._tell_collected(collected, dry_run=dry_run)
            swept, not_swept = self._sweep(hook, catalog_hook, sweep_after, dry_run=dry_run)
            stays, now = hook.interim().tables(limit=SHOWN), hook.store().clock()
        report = collection_report(collected, stays, swept, now=now, dry_run=dry_run, not_swept=not_swept)
        for each in report["stays"]:
            self.log.info("%s stays: %s", each["table"], each["because"])
        return report

    def _sweep_after(self, hook: SnowpackHook) -> timedelta | None:
        """``None``: nothing is swept."""
        if not read_flag("sweep", self.sweep):
            return None
        if read_text(self.sweep_after) is None:
            return hook.settings.interim_sweep_after
        period = read_period("sweep_after", self.sweep_after)
        if period.total_seconds() <= 0:
            raise UnreadableArgument("sweep_after", self.sweep_after, "a duration that is longer than nothing, such as 1d")
        return period

    def _sweep(
        self, hook: SnowpackHook, catalog_hook: IcebergCatalogHook, older_than: timedelta | None, *, dry_run: bool
    ) -> tuple[list[SweepAction], str | None]:
        """What was swept; and why nothing was looked at, where that is refused."""
        from airflow_snowpack.interim.collection.sweeper import sweep
        from airflow_snowpack.interim.errors import ForeignNamespace

        if older_than is None:
            return [], None
        name = catalog_hook.settings.catalog_name
        try:
            swept = sweep(hook.interim(), catalog_hook.catalog, name, older_than=older_than, dry_run=dry_run)
        except ForeignNamespace as refused:  # what this store has on record was collected all the same
            self.log.error("Nothing was swept: %s", refused)
            return [], str(refused)
        done = "would be swept" if dry_run else "was swept"
        for action in swept:
            since = action.since.isoformat(timespec="seconds")
            if action.error is None:
                self.log.info("The %s %s, in no record and last written at %s, %s", action.kind, action.name, since, done)
            else:
                self.log.warning("The %s %s, in no record, could not be swept: %s", action.kind, action.name, action.error)
        return swept, None

    def _tell_collected(self, collected: Collected, *, dry_run: bool) -> None:
        for doomed in collected.dropped if dry_run else ():  # what is dropped, the collector has told already
            self.log.info("%s, made by %s, would be dropped: nobody needs it any more", doomed.table, doomed.producer)
        for each in collected.failed:
            self.log.warning("%s could not be dropped, and is tried again: %s", each.table.table, each.error)
        self.log.info(
            "DAG runs that were due: %s. Of their interim tables %s %s, %s could not be dropped, and %s stay",
            collected.runs,
            len(collected.dropped),
            "would go" if dry_run else "went",
            len(collected.failed),
            collected.kept,
        )
