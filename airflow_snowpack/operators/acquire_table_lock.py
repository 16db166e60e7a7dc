"""Keeps maintenance away from a table while a DAG writes to it, with the lock that maintenance itself uses.

acquire = AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait")
release = ReleaseTableLockOperator(task_id="release", table="demo.flights", trigger_rule="all_done")
acquire >> write >> release
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.waiting import WaitsForTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

RUN_HOLDER = "{{ dag.dag_id }}/{{ run_id }}"


class AcquireTableLockOperator(WaitsForTable):
    """Takes the lock of one table.

    :param table: ``database.table``.
    :param holder: who holds it; by default the DAG run, so that any task of the run can release it. The same holder gets it
        again.
    :param ttl: after this long the lock is free by itself. Choose it longer than the guarded work may take.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's. Likewise ``catalog_conn_id``.
    :param if_locked: what to do when somebody else holds the table: ``fail``, ``skip`` or ``wait`` (in the triggerer).
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the pause between two looks while waiting.

    Returns ``table``, ``holder`` and ``expires_at``.
    """

    template_fields: Sequence[str] = ("table", "holder", "store_conn_id", "catalog_conn_id")
    ui_color = "#f3ecd8"

    def __init__(
        self,
        *,
        table: str,
        holder: str = RUN_HOLDER,
        ttl: timedelta = timedelta(hours=1),
        catalog_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder
        self.ttl = ttl
        self.catalog_conn_id = catalog_conn_id

    def attempt(self, context: Context) -> dict[str, Any]:
        """Take the lock, or raise ``TableLocked``."""
        from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
        from airflow_snowpack.hooks.store import SnowpackHook

        with SnowpackHook(self.store_conn_id) as hook:
            name = IcebergCatalogHook(self.catalog_conn_id).identified(self.table)
            lock = hook.locks().acquire(name, self.holder, ttl=self.ttl)
        return {"table": str(lock.table), "holder": lock.holder, "expires_at": lock.expires_at.isoformat()}
