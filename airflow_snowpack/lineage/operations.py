"""Records operations, reads them back, and deletes old ones.

    note_operation(store, operation)                             # in a transaction of its own, after the work
    store.transact(lambda conn: (..., record_operation(conn, operation)))    # with the work, at no commit more

    log = OperationLog(store)
    page = log.of_table("lake.shop.orders", limit=50)
    log.of_task("orders", "manual__1", "clean")

The invariant: a record never fails the work that it describes, and recording an operation twice stores it once. What the database
refuses is rolled back to where the record began and logged, and the transaction around it continues; only a lost connection, or a
conflict that the store retries, is raised, since the work itself must then be repeated.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.store.dialect import insert, row_mapper, storable
from airflow_snowpack.store.errors import StoreError
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.prepared import PreparedStatement
from airflow_snowpack.store.retention import RetainedRows, age_limit, prune_batch
from airflow_snowpack.store.retry import is_transient
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.tables.lineage import operation_edges, operation_tables, operations

log = logging.getLogger(__name__)

INPUT, OUTPUT = "input", "output"
LONGEST_NAME = 1_000
"""Longer than the name of any table and any reasonable URL; Postgres indexes no pair of names that takes a third of a page."""


def _add_edges() -> Any:
    """Return the statement that keeps each pair once, with its newest operation, in whatever order they arrive."""
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


ADD_OPERATION = PreparedStatement(insert(operations).on_conflict_do_nothing().returning(operations.c.operation_id))
ADD_TABLES = PreparedStatement(sa.insert(operation_tables))
ADD_EDGES = PreparedStatement(_add_edges())


def note_operation(store: Store, operation: Operation) -> bool:
    """Record an operation in a separate transaction; return whether it is recorded now. If not, the log has the reason."""
    try:
        return store.transact(lambda conn: record_operation(conn, operation))
    except (SQLAlchemyError, StoreError) as error:
        _log_loss(operation, error)
        return False


def record_operation(conn: sa.Connection, operation: Operation) -> bool:
    """Record an operation in the caller's transaction.

    :returns: whether it is recorded now; if not, the log has the reason.
    :raises DBAPIError: the whole transaction must be repeated, or has lost its connection.
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
    if is_new and (touched := _table_rows(operation)):
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
    """Drop duplicates: a table's producer and its reader may both name it; the one with a location is kept."""
    found: dict[Any, TableAt | DatasetAt] = {}
    for table in tables:
        version = table.snapshot_id if isinstance(table, TableAt) else table.run_id
        known = found.get((table.name, version))
        if known is None or (isinstance(known, TableAt) and known.location is None):
            found[table.name, version] = table
    return found.values()


def _checked(name: str) -> str:
    if not name or len(name) > LONGEST_NAME or storable(name) != name:
        wrong = f"is empty, longer than {LONGEST_NAME}, or has characters no database takes"
        raise ValueError(f"The name {name[:80]!r} of a table {wrong}.")
    return name


def _edge_rows(operation: Operation) -> list[dict[str, Any]]:
    # Sorted: two transactions that touch the same pairs wait for each other and cannot deadlock.
    pairs = sorted({(source.name, target.name) for source in operation.inputs for target in operation.outputs})
    at = operation.at.astimezone(UTC)
    newest = {"operation_id": operation.operation_id, "operations": 1, "first_at": at, "last_at": at}
    return [newest | {"source": source, "target": target} for source, target in pairs if source != target]


NEWEST_FIRST = Keyset(operations.c.at, operations.c.operation_id, descending=True)
NEWEST_OF_TABLE_FIRST = Keyset(operation_tables.c.at, operation_tables.c.operation_id, descending=True)
MAX_NAMES_PER_STATEMENT = 100
MAX_OPERATIONS_OF_TASK = 1_000


class OperationLog:
    """Reads the operations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_table(self, name: str, *, limit: int = 50, after: str | None = None) -> Page[Operation]:
        """Return a page of the operations that read or wrote a table, the newest first.

        :param name: the table's, with its catalog, or a dataset's URL.
        :param after: the ``next`` of the page before.
        :raises InvalidCursor: ``after`` is not the cursor of a page.
        """
        # One index scan for each role: the newest of both roles are among the newest of each.
        queries = [_newest(storable(name), role, limit + 1, after) for role in (INPUT, OUTPUT)]
        return self._page(self._store.all(sa.union_all(*queries)), limit)

    def latest(self, *, limit: int = 50, after: str | None = None) -> Page[Operation]:
        """Return a page of the operations on any table; otherwise as :meth:`of_table`."""
        newest = sa.select(*NEWEST_FIRST.columns).where(*NEWEST_FIRST.beyond(after)).order_by(*NEWEST_FIRST.order())
        return self._page(self._store.all(newest.limit(limit + 1)), limit)

    def knows(self, name: str) -> bool:
        """Return whether any operation read or wrote a table."""
        t = operation_tables.c
        return self._store.first(sa.select(t.at).where(t.name == storable(name)).limit(1)) is not None

    def full_name(self, given: str, catalog: str) -> str:
        """Return the name with its catalog in the lineage, for a name that may lack one.

        ``shop.orders`` and ``lake.shop.orders`` become ``lake.shop.orders``; a dataset's URL, and a recorded table of another
        catalog, stay as they are.

        :param catalog: the installation's.
        """
        given = given.rstrip("/")
        if is_dataset(given):
            return given
        within = f"{catalog}.{given}"
        is_whole = given.startswith(f"{catalog}.") and given.count(".") > 1
        candidates = [given, within] if is_whole else [within, given]
        return next((name for name in candidates if self.knows(name)), candidates[0])

    def _page(self, rows: Sequence[Any], limit: int) -> Page[Operation]:
        newest = sorted({(row.at, row.operation_id): row for row in rows}.items(), reverse=True)
        places = NEWEST_FIRST.page([row for _, row in newest], limit, lambda row: str(row.operation_id))
        found = self.named(places.items)
        return Page(tuple(found[operation_id] for operation_id in places.items if operation_id in found), places.next)

    def of_task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[Operation]:
        """Return the operations of all tries of a task instance, the oldest first; at most the newest thousand."""
        o = operations.c
        same_run = (o.dag_id == storable(dag_id), o.run_id == storable(run_id))
        same = (*same_run, o.task_id == storable(task_id), o.map_index == map_index)
        newest = sa.select(o.operation_id).where(*same).order_by(*NEWEST_FIRST.order())
        ids = self._store.scalars(newest.limit(MAX_OPERATIONS_OF_TASK))
        found = self.named(ids)
        return [found[operation_id] for operation_id in reversed(ids) if operation_id in found]

    def last_written(self, names: Collection[str]) -> dict[str, Operation]:
        """Return the newest operation that wrote each of the tables, if any."""
        ids: dict[str, str] = {}
        for chunk in chunks(list(names)):
            newest = sa.union_all(*(_newest(name, OUTPUT, 1, None) for name in chunk))
            for row in self._store.all(newest):
                ids[row.name] = row.operation_id
        found = self.named(ids.values())
        return {name: found[operation_id] for name, operation_id in ids.items() if operation_id in found}

    def named(self, operation_ids: Any) -> dict[str, Operation]:
        t, ids = operation_tables.c, list(operation_ids)
        in_order = sa.select(operation_tables).order_by(t.operation_id, t.role, t.ordinal)
        rows = self._store.all_by_key(sa.select(operations), operations.c.operation_id, ids)
        return _operations_from(rows, self._store.all_by_key(in_order, t.operation_id, ids))


def _newest(name: str, role: str, limit: int, after: str | None) -> sa.Select[Any]:
    t, order = operation_tables.c, NEWEST_OF_TABLE_FIRST
    query = sa.select(t.name, t.at, t.operation_id).where(t.name == name, t.role == role, *order.beyond(after))
    # In SQLite, only a subquery gives each part of a union its own order and limit.
    return sa.select(query.order_by(*order.order()).limit(limit).subquery())


def _operations_from(rows: Collection[Any], tables: Collection[Any]) -> dict[str, Operation]:
    touched: Mapping[tuple[str, str], list[TableAt | DatasetAt]] = defaultdict(list)
    for row in tables:
        touched[row.operation_id, row.role].append(_table_from(row))
    operation_from = row_mapper(
        Operation,
        {"kind": OperationKind},
        inputs=lambda row: tuple(touched[row.operation_id, INPUT]),
        outputs=lambda row: tuple(touched[row.operation_id, OUTPUT]),
        task=_task_from,
    )
    return {row.operation_id: operation_from(row) for row in rows}


def _task_from(row: Any) -> TaskRef | None:
    return None if row.dag_id is None else TaskRef(row.dag_id, row.run_id, row.task_id, row.map_index, row.try_number)


def _table_from(row: Any) -> TableAt | DatasetAt:
    return DatasetAt(row.name, row.build_run) if is_dataset(row.name) else TableAt(row.name, row.snapshot_id, row.location)


def is_dataset(name: str) -> bool:
    """Return whether a name is a dataset's URL; a table's name has no colon and no slash."""
    return "/" in name or ":" in name


def chunks(values: list[str]) -> list[list[str]]:
    """Split values into parts that fit into one statement."""
    return [values[start : start + MAX_NAMES_PER_STATEMENT] for start in range(0, len(values), MAX_NAMES_PER_STATEMENT)]


KEEP = timedelta(days=90)
OPERATIONS = RetainedRows(
    operations,
    age=operations.c.at,
    order=(operations.c.at, operations.c.operation_id),
    belongings=(operation_tables.c.operation_id,),
)
EDGES = RetainedRows(
    operation_edges,
    age=operation_edges.c.last_at,
    order=(operation_edges.c.last_at, operation_edges.c.source, operation_edges.c.target),
)


def forget_operations(store: Store, *, keep: timedelta = KEEP) -> int:
    """Delete at most one batch of older operations, as this is called repeatedly; return how many were deleted."""
    before = age_limit(store.clock(), keep)
    gone = prune_batch(store, OPERATIONS, before).rows[operations.name]
    prune_batch(store, EDGES, before)
    return gone
