"""Rows of the store to values of the room, and back.

values = table_values(slot, holder, …)          # what ``begin`` inserts
TABLES.renew(conn, table_id, attempt_id, until)  # the lease of a writer, or of a collector
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.model import InterimTable, TableState, Writing
from airflow_snowpack.interim.names import Producer, Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Leases, storable
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.prepared import Prepared
from airflow_snowpack.store.tables.interim import (
    interim_names,
    interim_pins,
    interim_refs,
    interim_runs,
    interim_slots,
    interim_tables,
)

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


RUN = interim_runs.c
LOOK_AT = sa.bindparam("b_look", type_=UtcDateTime)
SOONER = sa.or_(RUN.check_at.is_(None), RUN.check_at > LOOK_AT)


def run_key(dag_id: str, run_id: str) -> str:
    """What every table names the run by; it is as long for all."""
    return blake2b(f"{storable(dag_id)}\0{storable(run_id)}".encode(), digest_size=16).hexdigest()


def _touch(insert: Any) -> Any:
    """Make the run, or lock it; look at it at that moment, or when that was to be before."""
    values: dict[str, Any] = {name: sa.bindparam(f"b_{name}") for name in ("run_key", "dag_id", "run_id")}
    first = insert(interim_runs).values(values | {"check_at": LOOK_AT, "looks": 0, "touches": 1})
    return first.on_conflict_do_update(
        index_elements=[RUN.run_key],
        set_={"touches": RUN.touches + 1, "looks": 0, "check_at": sa.case((SOONER, LOOK_AT), else_=RUN.check_at)},
    )


TOUCH = Prepared({"postgresql": _touch(postgresql.insert), "sqlite": _touch(sqlite.insert)})


def _nudge(these: sa.ColumnElement[bool]) -> sa.Update:
    """A run that is asleep, or would be looked at later. What is due by then anyway is not written to."""
    return sa.update(interim_runs).where(these, SOONER).values(check_at=LOOK_AT, looks=0, touches=RUN.touches + 1)


NUDGE = Prepared(_nudge(RUN.run_key == sa.bindparam("b_run_key")))
NUDGE_ALL = _nudge(RUN.run_key.in_(sa.bindparam("b_run_keys", expanding=True)))


def touch(conn: sa.Connection, dag_id: str, run_id: str, *, look_at: datetime) -> None:
    """The run is about to have something. Call it last: it keeps others of the same run waiting until the commit."""
    values = {"b_run_key": run_key(dag_id, run_id), "b_dag_id": storable(dag_id), "b_run_id": storable(run_id)}
    TOUCH.count(conn, values | {"b_look": look_at})


def nudge(conn: sa.Connection, *run_keys: str, look_at: datetime) -> int:
    """Something ended in these runs; how many of them are looked at sooner than they would have been."""
    if len(run_keys) == 1:
        return NUDGE.count(conn, {"b_run_key": run_keys[0], "b_look": look_at})
    return conn.execute(NUDGE_ALL, {"b_run_keys": sorted(run_keys), "b_look": look_at}).rowcount if run_keys else 0


SLOT = interim_slots.c
PIN = interim_pins.c
REF = interim_refs.c
NAME = interim_names.c
CLOCKS_APART = timedelta(minutes=1)
"""By how much the clocks of two workers may differ."""
INSERTS: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def moment(name: str) -> sa.BindParameter[Any]:
    """A parameter that is a moment."""
    return sa.bindparam(name, type_=UtcDateTime)


def started(at: datetime) -> dict[str, datetime]:
    """What :data:`TAKE_SLOT` is to know of an attempt's start."""
    return {"started_at": at, "b_long_before": at - CLOCKS_APART, "b_not_long_after": at + CLOCKS_APART}


def _take_slot(dialect: str) -> Any:
    """The slot is the newest attempt's; no row comes back when a newer one has it. Its row lock puts attempts in line.

    Tries alone do not order attempts: they are counted anew in a run that is deleted and made again under its id, and a zombie
    of its first life may have a higher number than its successor. Nor do their starts: each is told by a worker's own clock.
    So the try decides between attempts that started at about the same time, and the start between others.
    """
    insert = INSERTS[dialect](interim_slots)
    newest = insert.excluded
    is_newer = sa.or_(
        SLOT.started_at.is_(None),
        SLOT.started_at < moment("b_long_before"),
        sa.and_(SLOT.started_at < moment("b_not_long_after"), SLOT.try_number <= newest.try_number),
    )
    return insert.on_conflict_do_update(
        index_elements=[SLOT.run_key, SLOT.task_id, SLOT.map_index, SLOT.output],
        set_={name: newest[name] for name in ("try_number", "table_id", "started_at")},
        where=is_newer,
    ).returning(SLOT.table_id)


def _point(dialect: str) -> Any:
    """The name points here; the last one who hands on has it."""
    insert = INSERTS[dialect](interim_names)
    here = {"table_id": insert.excluded.table_id, "moved_at": insert.excluded.moved_at}
    return insert.on_conflict_do_update(index_elements=[NAME.name, NAME.run_key], set_=here)


def _add_pins(dialect: str) -> Any:
    """A pin that is there is kept, whatever a collector has heard of its consumer before."""
    keys = [PIN.table_id, PIN.run_key, PIN.task_id]
    return INSERTS[dialect](interim_pins).on_conflict_do_update(index_elements=keys, set_={"asked_by": sa.null()})


TAKE_SLOT = Prepared({dialect: _take_slot(dialect) for dialect in INSERTS})
POINT = Prepared({dialect: _point(dialect) for dialect in INSERTS})
ADD_PINS = Prepared({dialect: _add_pins(dialect) for dialect in INSERTS})
ADD_TABLE = Prepared(sa.insert(interim_tables))
ADD_REFS = Prepared(sa.insert(interim_refs))


def _keep_pins(these: sa.ColumnElement[bool]) -> sa.Update:
    """The pins of one consumer, whatever a collector has heard of it before."""
    consumer = sa.and_(PIN.run_key == sa.bindparam("b_run_key"), PIN.task_id == sa.bindparam("b_task"))
    return sa.update(interim_pins).where(these, consumer).values(asked_by=sa.null())


KEEP_PIN = Prepared(_keep_pins(PIN.table_id == sa.bindparam("b_table")))
KEEP_PINS = _keep_pins(PIN.table_id.in_(sa.bindparam("b_ids", expanding=True)))

SUPERSEDE = Prepared(
    sa.update(interim_tables)
    .where(
        *(TABLE[name] == sa.bindparam(f"b_{name}") for name in ("run_key", "task_id", "map_index", "output")),
        WRITING,
        TABLE.attempt_id.is_not(None),
    )
    .values(FREED)
)
"""Whatever earlier attempts were writing in this slot: their fence moves, and the end of their lease stays on record."""

HELD = sa.and_(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"), WRITING)

HAND_ON = Prepared(
    sa.update(interim_tables)
    .where(HELD)
    .values(
        FREED
        | {"state": TableState.READY.value}
        | {
            name: sa.bindparam(f"b_{name}", type_=TABLE[name].type)
            for name in ("ready_at", "snapshot_id", "rows", "location", "expires_at", "visible_at")
        }
    )
)
"""Fenced: an attempt that was superseded, or that a collector gave up, matches nothing."""

ABANDON = (
    sa.update(interim_tables).where(HELD).values(FREED | {"state": TableState.DROPPING.value, "visible_at": moment("b_now")})
)


def _lock_ready(these: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """A shared lock: readers do not wait for each other, and no collector can doom the table before they have committed."""
    told = sa.select(*(TABLE[name] for name in REF_COLUMNS))
    return told.where(these, READY).order_by(TABLE.table_id).with_for_update(read=True)


LOCK_READY_TABLE = Prepared(_lock_ready(TABLE.table_id == sa.bindparam("b_table")))
LOCK_READY = _lock_ready(TABLE.table_id.in_(sa.bindparam("b_ids", expanding=True)))

RENEW_READING = sa.update(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")).values(lease_until=moment("b_until"))
RELEASE_READING = Prepared(sa.delete(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")))

NAMED_BEFORE = Prepared(
    sa.select(TABLE.run_key)
    .join(interim_names, NAME.table_id == TABLE.table_id)
    .where(NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"))
)
"""Whose table the name points to so far; its run is looked at when the name has moved."""

IS_ON_RECORD = sa.select(TABLE.table_id).where(TABLE.table_id == sa.bindparam("b_table"))
WAS_HANDED_ON = IS_ON_RECORD.where(TABLE.ready_at.is_not(None))
HELD_BY = (
    sa.select(*(TABLE[name] for name in REF_COLUMNS))
    .join(interim_refs, REF.table_id == TABLE.table_id)
    .where(REF.reading_id == sa.bindparam("b_reading"))
)
"""These three find the effect of a transaction whose answer was lost: nobody else could have drawn the id."""
