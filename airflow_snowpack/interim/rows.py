"""Rows of the store to values of the room, and back.

values = table_values(slot, holder, …)          # what ``begin`` inserts
TABLES.renew(conn, table_id, attempt_id, until)  # the lease of a writer, or of a collector
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.model import InterimTable, TableState, Writing
from airflow_snowpack.interim.refs import Producer, TableRef
from airflow_snowpack.interim.runs import run_key
from airflow_snowpack.interim.scope import Scope
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Leases, storable
from airflow_snowpack.store.interim_tables import interim_tables

TABLE = interim_tables.c
TABLES = Leases(interim_tables, key=TABLE.table_id, order=TABLE.created_at)

WRITING = TABLE.state == sa.literal_column("'writing'")
READY = TABLE.state == sa.literal_column("'ready'")
DROPPING = TABLE.state == sa.literal_column("'dropping'")

REF_COLUMNS = (
    *("table_id", "catalog", "database_name", "table_name", "snapshot_id", "rows"),
    *("dag_id", "run_id", "task_id", "map_index", "output"),
)
"""What a reference says of its table."""

FREED: dict[str, Any] = {"claimed_at": sa.null(), "claimed_by": sa.null(), "attempt_id": sa.null()}
"""Nobody holds the lease any more, so that the fence has moved."""

NOT_YET = dict.fromkeys(("ready_at", "snapshot_id", "rows", "location", "expires_at", "error"))
"""What a table that is about to be made has no value for."""


def slot_values(writing: Writing) -> dict[str, Any]:
    """What names a slot in every table."""
    task = writing.slot.task
    return {
        "run_key": run_key(task.dag_id, task.run_id),
        "task_id": storable(task.task_id),
        "map_index": task.map_index,
        "output": storable(writing.slot.output),
    }


def table_values(writing: Writing, now: datetime) -> dict[str, Any]:
    """The row of a table that is about to be made."""
    task = writing.slot.task
    return slot_values(writing) | {
        "table_id": writing.table_id,
        "catalog": writing.table.catalog,
        "database_name": writing.table.database,
        "table_name": writing.table.table,
        "dag_id": storable(task.dag_id),
        "run_id": storable(task.run_id),
        "try_number": writing.holder.try_number,
        "state": TableState.WRITING.value,
        "created_at": now,
        "preservation": writing.preservation.value,
        "name": writing.name,
        "scope": writing.scope.value if writing.name is not None else None,
        "visible_at": writing.lease_until,
        "claimed_at": now,
        "claimed_by": storable(writing.holder.attempt),
        "attempt_id": writing.attempt_id,
        "attempt_count": 0,
        **NOT_YET,
    }


def name_from(row: Any) -> TableName:
    """The whole name of a table."""
    return TableName(row.catalog, row.database_name, row.table_name)


def producer_from(row: Any) -> Producer:
    """Who made it."""
    return Producer(row.dag_id, row.run_id, row.task_id, row.map_index, row.output)


def ref_from(row: Any) -> TableRef:
    """The reference as its producer handed it on."""
    return TableRef(row.table_id, str(name_from(row)), row.snapshot_id, row.rows, producer_from(row))


def table_from(
    row: Any,
    *,
    pins: Collection[str] = (),
    readers: int = 0,
    silent_readers: int = 0,
    is_named: bool = False,
    check_at: datetime | None = None,
) -> InterimTable:
    """A table, from its row and from what others say of it."""
    return InterimTable(
        table_id=row.table_id,
        table=name_from(row),
        state=TableState(row.state),
        producer=producer_from(row),
        try_number=row.try_number,
        created_at=row.created_at,
        ready_at=row.ready_at,
        snapshot_id=row.snapshot_id,
        rows=row.rows,
        location=row.location,
        preservation=Preservation(row.preservation),
        name=row.name,
        scope=None if row.scope is None else Scope(row.scope),
        is_named=is_named,
        expires_at=row.expires_at,
        pins=tuple(sorted(pins)),
        readers=readers,
        silent_readers=silent_readers,
        lease_until=row.visible_at if row.attempt_id is not None else None,
        check_at=check_at,
        drops=row.attempt_count,
        error=row.error,
    )
