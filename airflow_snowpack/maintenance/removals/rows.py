"""Removals as rows of the store, and back."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.jobs.model import JobStatus
from airflow_snowpack.jobs.rows import table_from
from airflow_snowpack.maintenance.removals.model import ItemOutcome, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.store import Keyset, row_mapper, storable
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.jobs import jobs
from airflow_snowpack.store.tables.removals import removal_parts, removals

if TYPE_CHECKING:
    from collections.abc import Iterable

PART_SIZE = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

REMOVAL, PART = removals.c, removal_parts.c
NEWEST_FIRST = Keyset(REMOVAL.planned_at, REMOVAL.removal_id, descending=True)
NOW = sa.bindparam("b_now", type_=UtcDateTime)
KEY = sa.bindparam("b_removal", type_=sa.Text)
ATTEMPT = sa.bindparam("b_attempt", type_=sa.Text)
EXPIRES = tuple(state.value for state in RemovalState if RemovalState.EXPIRED in state.successors)
"""The states that can expire."""

ENDED = tuple(state.value for state in RemovalState if state.is_terminal)
HAS_EXPIRED = sa.and_(REMOVAL.state.in_(EXPIRES), REMOVAL.expires_at <= NOW)
STATE = sa.case(
    (
        sa.and_(REMOVAL.quarantined_until.is_not(None), sa.or_(REMOVAL.state.in_(ENDED), HAS_EXPIRED)),
        sa.literal_column(f"'{RemovalState.QUARANTINED.value}'"),
    ),
    (HAS_EXPIRED, sa.literal_column(f"'{RemovalState.EXPIRED.value}'")),
    else_=REMOVAL.state,
)
"""The current state. Expired and restorable removals are derived, so no process has to write these states."""

REMOVALS = sa.select(*(column for column in removals.columns if column.name != "state"), STATE.label("state"))
BY_KEY = REMOVALS.where(REMOVAL.removal_id == KEY)
IS_OPEN = sa.or_(REMOVAL.state == RemovalState.DELETING.value, REMOVAL.quarantined_until.is_not(None))
FENCED = sa.and_(REMOVAL.removal_id == KEY, REMOVAL.attempt_id == ATTEMPT, IS_OPEN)
PART_NUMBERS = sa.select(PART.number).where(PART.removal_id == KEY).order_by(PART.number)

IS_ACTIVE = jobs.c.status.in_([status.value for status in JobStatus if not status.is_terminal])
ABANDONED = sa.and_(REMOVAL.state == RemovalState.DELETING.value, ~sa.exists().where(jobs.c.job_id == REMOVAL.job_id, IS_ACTIVE))
"""It was being deleted, and its job has ended."""

KINDS = (
    RetainedRows(
        removals,
        age=REMOVAL.planned_at,
        order=(REMOVAL.planned_at, REMOVAL.removal_id),
        # Files in quarantine can only be found by their list.
        unneeded=sa.and_(REMOVAL.quarantined_until.is_(None), sa.or_(REMOVAL.state != RemovalState.DELETING.value, ABANDONED)),
        at_least=timedelta(days=30),
        belongings=(PART.removal_id,),
    ),
)
"""Removals are kept as long as jobs, and at least a month."""


removal_from = row_mapper(Removal, {"kind": RemovalKind, "state": RemovalState}, table=table_from)


def new_row(removal: Removal) -> dict[str, Any]:
    """Return the row of a removal whose list is about to be written."""
    return {
        "removal_id": removal.removal_id,
        "catalog": removal.table.catalog,
        "catalog_id": removal.table.catalog_id,
        "database_name": removal.table.database,
        "table_name": removal.table.table,
        "table_key": removal.table.lock_key,
        "kind": removal.kind.value,
        "state": RemovalState.PLANNED.value,
        "planned_at": removal.planned_at,
        "expires_at": removal.expires_at,
        "planned_by_job": removal.planned_by_job,
        "requested_by": removal.requested_by and storable(removal.requested_by),
        "table_uuid": removal.table_uuid,
        "metadata_location": storable(removal.metadata_location),
        "location": storable(removal.location),
        "settings": dict(removal.settings),
        "item_count": 0,
        "deleted_count": 0,
        "gone_count": 0,
        "left_out_count": 0,
    }


def pack(items: Iterable[RemovalItem]) -> bytes:
    """Return the content of a part. JSON escapes what databases refuse in text, so paths stay exact."""
    plain = [
        [item.name, item.bytes, None if item.at is None else (item.at - EPOCH) // MICROSECOND, item.outcome, item.reason]
        for item in items
    ]
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode("ascii"))


def unpack(content: bytes) -> list[RemovalItem]:
    return [
        RemovalItem(name, size, None if at is None else EPOCH + at * MICROSECOND, outcome and ItemOutcome(outcome), reason)
        for name, size, at, outcome, reason in json.loads(zlib.decompress(content))
    ]
