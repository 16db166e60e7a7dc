"""What every part of the registry shares: columns, the rows of DAG runs, and the pins of consumers.

    touch(conn, attempt.task, look_at=now + policy.first_look)            # with each write that adds something to a run
    nudge(conn, run_key("flights", "scheduled__2026…"), look_at=now)      # with each write that ends something in a run

Invariant: **a run that has anything is recorded, and awake**. A write that adds something locks the run's row until its commit
and increments ``touches``; the collector puts a run to sleep, or deletes it, only if ``touches`` has not changed since it read
the run. Locks are taken in one order: a slot, tables by id, pins, refs and names, and a run's row last.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.names import Producer, Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.store import Leases, storable
from airflow_snowpack.store.dialect import UtcDateTime, insert, upsert
from airflow_snowpack.store.prepared import PreparedStatement
from airflow_snowpack.store.tables.interim import (
    interim_names,
    interim_pins,
    interim_refs,
    interim_runs,
    interim_slots,
    interim_tables,
)

TABLE, SLOT, PIN, REF, NAME, RUN = (
    each.c for each in (interim_tables, interim_slots, interim_pins, interim_refs, interim_names, interim_runs)
)
TABLES = Leases(interim_tables, key=TABLE.table_id, order=[TABLE.created_at])
WRITING, READY, DROPPING = (TABLE.state == sa.literal_column(f"'{state}'") for state in ("writing", "ready", "dropping"))
FREED: dict[str, Any] = {"claimed_at": sa.null(), "claimed_by": sa.null(), "attempt_id": sa.null()}
"""No process holds the lease any more: the fence has moved."""
REF_COLUMNS = (
    *("table_id", "catalog", "database_name", "table_name", "snapshot_id", "rows"),
    *("dag_id", "run_id", "task_id", "map_index", "output"),
)
"""The columns that :func:`ref_from` reads."""


def moment(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(name, type_=UtcDateTime)


def ids(name: str = "b_ids") -> sa.BindParameter[Any]:
    return sa.bindparam(name, expanding=True)


LOOK_AT = moment("b_look")
SOONER = sa.or_(RUN.check_at.is_(None), RUN.check_at > LOOK_AT)


def _touch() -> Any:
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in ("run_key", "dag_id", "run_id")}
    return (
        insert(interim_runs)
        .values(values | {"check_at": LOOK_AT, "looks": 0, "touches": 1})
        .on_conflict_do_update(
            index_elements=[RUN.run_key],
            set_={"touches": RUN.touches + 1, "looks": 0, "check_at": sa.case((SOONER, LOOK_AT), else_=RUN.check_at)},
        )
    )


def _nudge(these: sa.ColumnElement[bool]) -> sa.Update:
    """Update runs that sleep or are due later; do not write to a run that is due by then anyway."""
    return sa.update(interim_runs).where(these, SOONER).values(check_at=LOOK_AT, looks=0, touches=RUN.touches + 1)


TOUCH = PreparedStatement(_touch())
"""Create or lock the run; it is due at that time, or earlier if it already was."""
NUDGE = PreparedStatement(_nudge(RUN.run_key == sa.bindparam("b_run_key")))
NUDGE_ALL = _nudge(RUN.run_key.in_(ids("b_run_keys")))
ADD_PINS = PreparedStatement(upsert(interim_pins, ["asked_by"]))
"""Keep an existing pin and erase a collector's mark on it: the consumer needs the table again."""


def run_key(dag_id: str, run_id: str) -> str:
    """Return the key of a DAG run in every table; all keys have the same length."""
    return blake2b(f"{storable(dag_id)}\0{storable(run_id)}".encode(), digest_size=16).hexdigest()


def touch(conn: sa.Connection, task: TaskRef, *, look_at: datetime) -> None:
    """Record that the task's run gets something, to be checked at ``look_at`` at the latest.

    Call it last: other writers of the run wait until the commit.
    """
    run = {"b_dag_id": storable(task.dag_id), "b_run_id": storable(task.run_id)}
    TOUCH.count(conn, run | {"b_run_key": run_key(task.dag_id, task.run_id), "b_look": look_at})


def nudge(conn: sa.Connection, *run_keys: str, look_at: datetime) -> int:
    """Record that something ended in these runs; return how many of them are now checked sooner."""
    if len(run_keys) == 1:
        return NUDGE.count(conn, {"b_run_key": run_keys[0], "b_look": look_at})
    return conn.execute(NUDGE_ALL, {"b_run_keys": sorted(run_keys), "b_look": look_at}).rowcount if run_keys else 0


def pin_values(table_ids: Iterable[str], consumers: Iterable[str], run: TaskRef) -> list[dict[str, Any]]:
    """Return a pin for each table and consumer; ``run`` is any task of the consumers' DAG run."""
    tasks = sorted({storable(consumer) for consumer in consumers})
    new = {"run_key": run_key(run.dag_id, run.run_id), "asked_by": None}
    return [new | {"table_id": table_id, "task_id": task_id} for table_id in sorted(table_ids) for task_id in tasks]


def name_from(row: Any) -> TableName:
    return TableName(row.catalog, row.database_name, row.table_name)


def producer_from(row: Any) -> Producer:
    return Producer(row.dag_id, row.run_id, row.task_id, row.map_index, row.output)


def ref_from(row: Any) -> TableRef:
    return TableRef(row.table_id, str(name_from(row)), row.snapshot_id, row.rows, producer_from(row))


def name_key(scope: Scope, dag_id: str, run_id: str) -> str:
    """Return the key of the run in which a name is valid; empty for a global name."""
    return "" if scope is Scope.GLOBAL else run_key(dag_id, run_id)
