"""Table locks, for jobs and for other writers that keep maintenance away while they write.

    locks = TableLocks(store)
    lock = locks.acquire(table, holder="etl/2026-11-21", ttl=timedelta(hours=4))
    ...
    locks.release(table, holder="etl/2026-11-21")

The invariant: a table has at most one holder, and only the holder releases it. An expired lock is free unless its job is queued.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs import statements
from airflow_snowpack.jobs.errors import TableLocked
from airflow_snowpack.jobs.model import TableLock
from airflow_snowpack.jobs.rows import catalog_detail, lock_from, lock_parameters
from airflow_snowpack.store import Actor, Store, write_audit
from airflow_snowpack.store.tables.jobs import table_locks

ACQUIRE = statements.lock_table(for_job=False)


class TableLocks:
    def __init__(self, store: Store) -> None:
        self._store = store

    def acquire(self, table: TableName, holder: str, *, ttl: timedelta) -> TableLock:
        """Acquire the lock, or renew it if this holder already has it.

        :param holder: a name of your choice; the same name releases.
        :param ttl: how long the lock lasts without renewal.
        :raises TableLocked: another holder has it.
        :raises ValueError: the holder is empty, or ``ttl`` is not positive.
        """
        if not holder.strip():
            raise ValueError("The holder of a lock is empty. Pass a name, such as the DAG's and the task's.")
        if ttl <= timedelta(0):
            raise ValueError(f"The ttl of a lock is {ttl}. Pass a period longer than zero.")
        while True:
            now = self._store.clock()
            acquired = self._store.first(ACQUIRE, lock_parameters(table, holder, now, now + ttl)) is not None
            lock = self.get(table)
            if lock is not None and not acquired:
                raise TableLocked(lock)
            if lock is not None and lock.holder == holder:
                return lock  # otherwise it was released in between

    def release(
        self,
        table: TableName,
        holder: str,
        *,
        actor: Actor | None = None,
        force: bool = False,
        expires_at: datetime | None = None,
    ) -> bool:
        """Release the lock; return ``False`` if this holder does not have it.

        :param actor: who releases another holder's lock; ``None`` for the holder itself.
        :param force: for the audit trail.
        :param expires_at: release the lock only if it still expires then, i.e. was not renewed since it was read.
        """
        mine = sa.delete(table_locks).where(table_locks.c.table_key == table.lock_key, table_locks.c.holder == holder)
        if expires_at is not None:
            mine = mine.where(table_locks.c.expires_at == expires_at)

        def write(conn: sa.Connection) -> bool:
            released = conn.execute(mine).rowcount == 1
            if released:
                detail = {"holder": holder, "force": force, **catalog_detail(table)}
                write_audit(conn, self._store, actor, "release_lock", str(table), **detail)
            return released

        return self._store.transact(write)

    def get(self, table: TableName) -> TableLock | None:
        """Return the lock of a table; ``None`` for no lock."""
        query = sa.select(table_locks).where(table_locks.c.table_key == table.lock_key)
        row = self._store.first(query)
        return None if row is None else lock_from(row)

    def blocking(self, table: TableName) -> TableLock | None:
        """Return the lock that blocks other holders now; ``None`` for no lock or an abandoned one."""
        return self.blocking_each([table])[table]

    def blocking_each(self, tables: Collection[TableName]) -> dict[TableName, TableLock | None]:
        """Return the :meth:`blocking` lock of each table, in one statement."""
        query = sa.select(table_locks).where(~statements.abandoned_lock).params(b_now=self._store.clock())
        keys = {table.lock_key for table in tables}
        rows = {row.table_key: row for row in self._store.all_by_key(query, table_locks.c.table_key, keys)}
        return {table: lock_from(row) if (row := rows.get(table.lock_key)) is not None else None for table in tables}

    def list(self) -> list[TableLock]:
        """Return all locks, oldest first."""
        query = sa.select(table_locks).order_by(table_locks.c.acquired_at, table_locks.c.table_key)
        return [lock_from(row) for row in self._store.all(query)]
