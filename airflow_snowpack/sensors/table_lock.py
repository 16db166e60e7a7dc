"""Waits until nobody holds a table.

    TableLockSensor(task_id="free", table="demo.flights")

Free now is no promise for the next task. To keep others away, take the lock: ``AcquireTableLockOperator(if_locked="wait")``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException

from airflow_snowpack.operators.refusals import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_snowpack.iceberg import TableName


class TableLockSensor(BaseSensorOperator):
    """Waits for one table.

    :param table: ``database.table``.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id``.
    :param deferrable: wait in the triggerer, without a worker's slot; the default.
    """

    template_fields: Sequence[str] = ("table", "store_conn_id", "catalog_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        table: str,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        deferrable: bool = True,
        poke_interval: timedelta | float = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.table = table
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Look once, and wait in the triggerer if the table is held."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            from airflow_snowpack.triggers.table_lock import TableLockTrigger

            name = self._name()
            trigger = TableLockTrigger(
                self.table, name.catalog, None, self.store_conn_id, self.poke_interval, catalog_id=name.catalog_id
            )
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self.timeout))
        return None

    def poke(self, context: Context) -> bool:
        """Look at the lock."""
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            lock = hook.locks().blocking(self._name())
        if lock:
            self.log.info("The table %s is held by %s", self.table, lock.holder)
        return lock is None

    def _name(self) -> TableName:
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

        return IcebergCatalogHook(self.catalog_conn_id).identified(self.table)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """The trigger saw a free table."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
