"""Lock a table while a DAG writes to it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.base import UsesCatalog, WaitsForTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

RUN_HOLDER = "{{ dag.dag_id }}/{{ run_id }}"


class AcquireTableLockOperator(WaitsForTable):
    """Locks one table: no maintenance runs on it while a DAG writes to it.

        acquire = AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait")
        release = ReleaseTableLockOperator(task_id="release", table="demo.flights", trigger_rule="all_done")
        acquire >> write >> release

    :param table: ``database.table``.
    :param holder: the holder of the lock; by default the DAG run, whose tasks can all release it. The holder may lock again.
    :param ttl: the lock expires after this time. Choose more than the work can take; the sweep releases the lock of an ended DAG
        run.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.
    :param if_locked: what to do when another process has locked the table: ``fail``, ``skip``, or ``wait`` in the triggerer.
    :param wait_timeout: how long to wait at most.
    :param poll_interval: the time between two checks while waiting.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder
        self.ttl = ttl

    def attempt(self, context: Context) -> dict[str, Any]:
        with self.installation() as hook:
            name = self.catalog_hook().identified(self.table)
            lock = hook.locks().acquire(name, self.holder, ttl=self.ttl)
        return {"table": str(lock.table), "holder": lock.holder, "expires_at": lock.expires_at.isoformat()}


class ReleaseTableLockOperator(UsesCatalog):
    """Releases a lock of :class:`AcquireTableLockOperator`. If this holder does not have the lock, nothing happens.

    Set ``trigger_rule="all_done"`` to run the task after a failed write, too.

    :param table: ``database.table``.
    :param holder: the holder of the lock; by default the DAG run.
    :param store_conn_id, catalog_conn_id: the Airflow connections of the store and the catalog; ``None`` for the installation's.

    Returns whether the holder had the lock.
    """

    template_fields: Sequence[str] = ("table", "holder", "store_conn_id", "catalog_conn_id")
    ui_color = "#f3ecd8"

    def __init__(
        self,
        *,
        table: str,
        holder: str = RUN_HOLDER,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.holder = holder

    def execute(self, context: Context) -> bool:
        with self.installation() as hook:
            name = self.catalog_hook().identified(self.table)
            released = hook.locks().release(name, self.holder)
        if not released:
            self.log.warning("%s had no lock on the table %s; nothing was released", self.holder, name)
        return released
