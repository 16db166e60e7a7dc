"""Reads operations: of one table, newest first, and of one try of a task.

    log = OperationLog(store)
    page = log.of_table("lake.shop.orders", limit=50)
    page.operations, page.after              # and on with of_table(…, after=page.after)
    log.of_task("orders", "manual__1", "clean")

The invariant: what is read is what is shown; no look-up goes over the other operations of a table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.store.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.store.operation_tables import operation_tables, operations
from airflow_snowpack.store.operations import INPUT, OUTPUT
from airflow_snowpack.store.store import Store
from airflow_snowpack.store.text import storable

Place = tuple[datetime, str]
"""Where a page ends: the moment and the id of its last operation."""

CHUNK = 100
MOST_OF_A_TASK = 1_000


@dataclass(frozen=True, slots=True)
class OperationPage:
    """Some operations, the newest first.

    :param after: where the next page begins; ``None`` for the last one.
    """

    operations: tuple[Operation, ...]
    after: Place | None


class OperationLog:
    """Reads what was recorded."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_table(self, name: str, *, limit: int = 50, after: Place | None = None) -> OperationPage:
        """What read or wrote a table.

        :param name: the table's, with its catalog, or a dataset's url.
        :param after: only what is older than this place.
        """
        # One walk down the index for each of the two roles: the newest of both are among the newest of each.
        queries = [_newest(storable(name), role, limit + 1, after) for role in (INPUT, OUTPUT)]
        return self._page(self._store.all(sa.union_all(*queries)), limit)

    def latest(self, *, limit: int = 50, after: Place | None = None) -> OperationPage:
        """What was done to any table."""
        o = operations.c
        query = sa.select(o.at, o.operation_id)
        if after is not None:
            query = query.where(o.at <= after[0], sa.or_(o.at < after[0], o.operation_id < after[1]))
        newest = query.order_by(o.at.desc(), o.operation_id.desc()).limit(limit + 1)
        return self._page(self._store.all(newest), limit)

    def knows(self, name: str) -> bool:
        """Whether anything read or wrote a table."""
        t = operation_tables.c
        return bool(self._store.all(sa.select(t.at).where(t.name == storable(name)).limit(1)))

    def full_name(self, given: str, catalog: str) -> str:
        """The name that lineage knows what people call without its catalog, if it knows it at all.

        ``shop.orders`` and ``lake.shop.orders`` are ``lake.shop.orders``; a dataset's url, and a table of another catalog of
        which something is known, are what they are.

        :param catalog: the installation's.
        """
        given = given.rstrip("/")
        if is_dataset(given):
            return given
        within = f"{catalog}.{given}"
        whole = given.startswith(f"{catalog}.") and given.count(".") > 1
        candidates = [given, within] if whole else [within, given]
        return next((name for name in candidates if self.knows(name)), candidates[0])

    def _page(self, rows: Sequence[Any], limit: int) -> OperationPage:
        places: list[Place] = sorted({(row.at, row.operation_id) for row in rows}, reverse=True)
        shown = places[:limit]
        found = self.named(operation_id for _, operation_id in shown)
        kept = tuple(found[operation_id] for _, operation_id in shown if operation_id in found)
        return OperationPage(kept, shown[-1] if len(places) > limit else None)

    def of_task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[Operation]:
        """What all tries of a task instance did, the oldest first; at most the newest thousand."""
        o = operations.c
        same = (
            o.dag_id == storable(dag_id),
            o.run_id == storable(run_id),
            o.task_id == storable(task_id),
            o.map_index == map_index,
        )
        query = sa.select(o.operation_id, o.at).where(*same).order_by(o.at.desc(), o.operation_id.desc()).limit(MOST_OF_A_TASK)
        ids = [row.operation_id for row in self._store.all(query)]
        found = self.named(ids)
        return [found[operation_id] for operation_id in reversed(ids) if operation_id in found]

    def last_written(self, names: Collection[str]) -> dict[str, Operation]:
        """For each of the tables the newest operation that wrote it, where there is one."""
        ids: dict[str, str] = {}
        for chunk in chunks(list(names)):
            newest = sa.union_all(*(_newest(name, OUTPUT, 1, None) for name in chunk))
            for row in self._store.all(newest):
                ids[row.name] = row.operation_id
        found = self.named(ids.values())
        return {name: found[operation_id] for name, operation_id in ids.items() if operation_id in found}

    def named(self, operation_ids: Any) -> dict[str, Operation]:
        """Operations by their ids."""
        found: dict[str, Operation] = {}
        for chunk in chunks(sorted(set(operation_ids))):
            whole = sa.select(operations).where(operations.c.operation_id.in_(chunk))
            t = operation_tables.c
            touched = sa.select(operation_tables).where(t.operation_id.in_(chunk)).order_by(t.operation_id, t.role, t.ordinal)
            found |= _operations_from(self._store.all(whole), self._store.all(touched))
        return found


def _newest(name: str, role: str, limit: int, after: Place | None) -> sa.Select[Any]:
    t = operation_tables.c
    query = sa.select(t.name, t.at, t.operation_id).where(t.name == name, t.role == role)
    if after is not None:
        # The first condition says no more than the second; by it the index is entered at the right place.
        older = sa.or_(t.at < after[0], t.operation_id < after[1])
        query = query.where(t.at <= after[0], older)
    # As a subquery, since only there each part of a union may have an order and a limit of its own on SQLite.
    return sa.select(query.order_by(t.at.desc(), t.operation_id.desc()).limit(limit).subquery())


def _operations_from(rows: Collection[Any], tables: Collection[Any]) -> dict[str, Operation]:
    touched: Mapping[tuple[str, str], list[TableAt | DatasetAt]] = defaultdict(list)
    for row in tables:
        touched[row.operation_id, row.role].append(_table_from(row))
    return {
        row.operation_id: Operation(
            kind=OperationKind(row.kind),
            at=row.at,
            inputs=tuple(touched[row.operation_id, INPUT]),
            outputs=tuple(touched[row.operation_id, OUTPUT]),
            task=None if row.dag_id is None else TaskRef(row.dag_id, row.run_id, row.task_id, row.map_index, row.try_number),
            job_id=row.job_id,
            rows=row.rows,
            detail=row.detail,
            operation_id=row.operation_id,
        )
        for row in rows
    }


def _table_from(row: Any) -> TableAt | DatasetAt:
    return DatasetAt(row.name, row.build_run) if is_dataset(row.name) else TableAt(row.name, row.snapshot_id, row.location)


def is_dataset(name: str) -> bool:
    """Whether a name is a dataset's url; a table's name has no colon and no slash."""
    return "/" in name or ":" in name


def chunks(values: list[str]) -> list[list[str]]:
    """The values in parts that one statement takes."""
    return [values[start : start + CHUNK] for start in range(0, len(values), CHUNK)]
