"""Recording operations: which tables came from which, and who made them.

    note_operation(store, operation)                             # in a transaction of its own, after the work
    store.transact(lambda conn: (..., record_operation(conn, operation)))    # with the work, at no commit more

The invariant: a record never fails what it tells of. What the database refuses is undone to where the record began, logged, and
the transaction around it goes on; only a lost connection, or a conflict that the store repeats, leaves through here, since then
the work itself has to be repeated. An operation that is recorded twice is there once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.errors import StoreError
from airflow_snowpack.store.hot import Hot
from airflow_snowpack.store.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.store.operation_tables import operation_edges, operation_tables, operations
from airflow_snowpack.store.retry import is_transient
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.text import storable

__all__ = ["DatasetAt", "Operation", "OperationKind", "TableAt", "note_operation", "record_operation"]

log = logging.getLogger(__name__)

INPUT, OUTPUT = "input", "output"
LONGEST_NAME = 1_000
"""Longer than any table's name and any sane url; Postgres indexes no pair of names that takes a third of a page."""


def _add_edges() -> Any:
    """Each pair once; the newest operation wins, in whatever order they arrive."""
    statement = insert(operation_edges)
    new, old = statement.excluded, operation_edges.c
    newer = new.last_at >= old.last_at
    return statement.on_conflict_do_update(
        index_elements=["source", "target"],
        set_={
            "operation_id": sa.case((newer, new.operation_id), else_=old.operation_id),
            "operations": old.operations + new.operations,
            "first_at": sa.case((new.first_at < old.first_at, new.first_at), else_=old.first_at),
            "last_at": sa.case((newer, new.last_at), else_=old.last_at),
        },
    )


ADD_OPERATION = Hot(insert(operations).on_conflict_do_nothing().returning(operations.c.operation_id))
ADD_TABLES = Hot(sa.insert(operation_tables))
ADD_EDGES = Hot(_add_edges())


def note_operation(store: Store, operation: Operation) -> bool:
    """Record an operation in a transaction of its own.

    :returns: whether it stands there now; if not, the log says why.
    """
    try:
        return store.transact(lambda conn: record_operation(conn, operation))
    except (SQLAlchemyError, StoreError) as error:
        _log_loss(operation, error)
        return False


def record_operation(conn: sa.Connection, operation: Operation) -> bool:
    """Record an operation in the caller's transaction.

    :returns: whether it stands there now; if not, the log says why.
    :raises DBAPIError: the whole transaction is to be repeated, or has lost its connection.
    """
    try:
        with conn.begin_nested():
            _insert(conn, operation)
    except DBAPIError as error:
        if error.connection_invalidated or is_transient(error):
            raise
        _log_loss(operation, error)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the record must not reach the work
        _log_loss(operation, error)
    else:
        return True
    return False


def _log_loss(operation: Operation, error: BaseException) -> None:
    names = [table.name for table in operation.outputs]
    log.warning("operation_not_recorded: %s of %s is missing in the lineage: %s", operation.kind, names, error, exc_info=True)


def _insert(conn: sa.Connection, operation: Operation) -> None:
    is_new = ADD_OPERATION.first(conn, _operation_row(operation)) is not None
    touched = _table_rows(operation)
    if not is_new or not touched:
        return
    ADD_TABLES.each(conn, touched)
    if edges := _edge_rows(operation):
        ADD_EDGES.each(conn, edges)


def _operation_row(operation: Operation) -> dict[str, Any]:
    task = operation.task
    return {
        "operation_id": operation.operation_id,
        "kind": OperationKind(operation.kind).value,
        "at": operation.at,
        "rows": operation.rows,
        "dag_id": task and storable(task.dag_id),
        "run_id": task and storable(task.run_id),
        "task_id": task and storable(task.task_id),
        "map_index": task and task.map_index,
        "try_number": task and task.try_number,
        "job_id": operation.job_id,
        "detail": dict(operation.detail),
    }


def _table_rows(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "operation_id": operation.operation_id,
            "role": role,
            "ordinal": ordinal,
            "name": _checked(table.name),
            "snapshot_id": table.snapshot_id if isinstance(table, TableAt) else None,
            "build_run": table.run_id if isinstance(table, DatasetAt) else None,
            "location": table.location if isinstance(table, TableAt) else None,
            "at": operation.at,
        }
        for role, tables in ((INPUT, operation.inputs), (OUTPUT, operation.outputs))
        for ordinal, table in enumerate(_each_once(tables))
    ]


def _each_once(tables: Iterable[TableAt | DatasetAt]) -> Iterable[TableAt | DatasetAt]:
    """A table may be named by who handed it over and by who read it; the one that says where it lives says more."""
    found: dict[Any, TableAt | DatasetAt] = {}
    for table in tables:
        version = table.snapshot_id if isinstance(table, TableAt) else table.run_id
        known = found.get((table.name, version))
        if known is None or (isinstance(known, TableAt) and known.location is None):
            found[table.name, version] = table
    return found.values()


def _checked(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or storable(name) != name:
        raise ValueError(
            f"The name {name[:80]!r} of a table is empty, longer than {LONGEST_NAME}, or has characters no database takes."
        )
    return name


def _edge_rows(operation: Operation) -> list[dict[str, Any]]:
    # Sorted, so that two transactions that touch the same pairs wait for each other and never lock crosswise.
    pairs = sorted({(source.name, target.name) for source in operation.inputs for target in operation.outputs})
    at = operation.at.astimezone(UTC)
    return [
        {
            "source": source,
            "target": target,
            "operation_id": operation.operation_id,
            "operations": 1,
            "first_at": at,
            "last_at": at,
        }
        for source, target in pairs
        if source != target
    ]
