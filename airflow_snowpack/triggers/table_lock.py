"""Fires when a table is free, or when there was no time left to wait for it.

That a table *was* free is no promise: whoever waited tries to take the lock, and waits again when somebody was faster.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.triggers.event import event_of
from airflow_snowpack.triggers.settling import Settling
from airflow_snowpack.triggers.shared_reads import next_round
from airflow_snowpack.triggers.shared_store import StoreReads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.triggers.base import TriggerEvent

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import TableLock
    from airflow_snowpack.store import Store


class TableLockTrigger(BaseTrigger):
    """Looks at a table's lock until it is gone. A store that does not answer is looked at again, as long as there is time.

    :param table: ``database.table``.
    :param catalog_id: which catalog ``catalog`` is, as in :class:`TableName`.
    :param until: no longer than this, as ISO 8601 text; ``None`` for as long as it takes.
    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(
        self,
        table: str,
        catalog: str,
        until: str | None = None,
        store_conn_id: str | None = None,
        poll_seconds: float = 10.0,
        catalog_id: str = "",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.table = table
        self.catalog = catalog
        self.catalog_id = catalog_id
        self.until = until
        self.store_conn_id = store_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        arguments = {
            "table": self.table,
            "catalog": self.catalog,
            "catalog_id": self.catalog_id,
            "until": self.until,
            "store_conn_id": self.store_conn_id,
            "poll_seconds": self.poll_seconds,
        }
        return "airflow_snowpack.triggers.table_lock.TableLockTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``free``, or who holds the table still, or what kept the trigger from looking."""
        await Settling().rest()
        try:
            holder = await self._wait()
        except SnowpackError as problem:
            yield event_of({"table": self.table, "free": False, "problem": str(problem)})
        else:
            yield event_of({"table": self.table, "free": holder is None, "holder": holder})

    async def _wait(self) -> str | None:
        from airflow_snowpack.iceberg import TableName
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        name = TableName.parse(self.table, catalog=self.catalog, catalog_id=self.catalog_id)
        store = StoreReads(self.store_conn_id)
        while True:
            try:
                lock = await store.get(_read_locks, name)
            except (StoreUnreachable, StoreTooSlow):  # which is in the log
                if self._is_over():
                    raise
            else:
                if lock is None or self._is_over():
                    return None if lock is None else lock.holder
            await next_round(self.poll_seconds)

    def _is_over(self) -> bool:
        from airflow_snowpack.store import utc_now

        return self.until is not None and utc_now() >= datetime.fromisoformat(self.until)


def _read_locks(store: Store, tables: frozenset[TableName]) -> dict[TableName, TableLock | None]:
    from airflow_snowpack.jobs import TableLocks

    return TableLocks(store).blocking_each(tables)
