"""What the registry says to the store, each statement whole, and why it is safe beside all the others.

    HAND_ON.count(conn, {"b_table": …, "b_attempt": …, …}) == 1 or refuse()

What every handover says is hot; the rest goes through SQLAlchemy. Locks are taken in one order: a slot, tables by their id, pins,
refs and names, and a run's row last.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.rows import FREED, READY, REF_COLUMNS, TABLE, WRITING
from airflow_snowpack.store.hot import Hot
from airflow_snowpack.store.interim_tables import interim_names, interim_pins, interim_refs, interim_slots, interim_tables
from airflow_snowpack.store.types import UtcDateTime

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


TAKE_SLOT = Hot({dialect: _take_slot(dialect) for dialect in INSERTS})
POINT = Hot({dialect: _point(dialect) for dialect in INSERTS})
ADD_PINS = Hot({dialect: _add_pins(dialect) for dialect in INSERTS})
ADD_TABLE = Hot(sa.insert(interim_tables))
ADD_REFS = Hot(sa.insert(interim_refs))


def _keep_pins(these: sa.ColumnElement[bool]) -> sa.Update:
    """The pins of one consumer, whatever a collector has heard of it before."""
    consumer = sa.and_(PIN.run_key == sa.bindparam("b_run_key"), PIN.task_id == sa.bindparam("b_task"))
    return sa.update(interim_pins).where(these, consumer).values(asked_by=sa.null())


KEEP_PIN = Hot(_keep_pins(PIN.table_id == sa.bindparam("b_table")))
KEEP_PINS = _keep_pins(PIN.table_id.in_(sa.bindparam("b_ids", expanding=True)))

SUPERSEDE = Hot(
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

HAND_ON = Hot(
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


LOCK_READY_TABLE = Hot(_lock_ready(TABLE.table_id == sa.bindparam("b_table")))
LOCK_READY = _lock_ready(TABLE.table_id.in_(sa.bindparam("b_ids", expanding=True)))

RENEW_READING = sa.update(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")).values(lease_until=moment("b_until"))
RELEASE_READING = Hot(sa.delete(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")))

NAMED_BEFORE = Hot(
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
