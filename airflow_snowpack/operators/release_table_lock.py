"""Lets go of a lock that :class:`~airflow_snowpack.operators.AcquireTableLockOperator` took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_snowpack.operators.acquire_table_lock import RUN_HOLDER
from airflow_snowpack.operators.base import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


class ReleaseTableLockOperator(BaseOperator):
    """Frees one table, if this holder has it; otherwise nothing happens.

    :param table: ``database.table``.
    :param holder: who took the lock; by default the DAG run.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id``.

    Returns whether the holder had the lock. Give the task ``trigger_rule="all_done"``, so that it runs after a failed write too.
    """

    template_fields: Sequence[str] = ("table", "holder", "store_conn_id", "catalog_conn_id")
    ui_color = "#f3ecd8"

    def __init__(
        self,
        *,
        table: str,
        holder: str = RUN_HOLDER,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id

    def execute(self, context: Context) -> bool:
        """Release."""
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            name = IcebergCatalogHook(self.catalog_conn_id).identified(self.table)
            released = hook.locks().release(name, self.holder)
        if not released:
            self.log.warning("%s does not hold the table %s; nothing was released", self.holder, name)
        return released
