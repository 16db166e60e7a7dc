"""The removals in the store: write the list of a plan, decide on it, and record the outcome of each item.

    removals = Removals(store)
    removal = removals.plan(draft, items, needs_approval=lambda planned: planned.item_count > 1_000)
    removals.approve(removal.removal_id, actor=Actor("vera", "page"))
    removals.begin(removal.removal_id, job_id, attempt_id)          # in the job that deletes it

The invariant: after its plan, the list of a removal never changes, and only outcomes of its items are added. Only the attempt
that began a removal writes them: each write names the fence of its attempt.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.jobs.model import JobStatus
from airflow_snowpack.jobs.rows import table_from
from airflow_snowpack.maintenance.removals.errors import (
    NothingInQuarantine,
    RemovalNotFound,
    RemovalNotPossible,
    RemovalTakenOver,
)
from airflow_snowpack.maintenance.removals.model import COUNTED, ItemOutcome, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.store import Keyset, Page, row_mapper, storable, storable_error, upsert, write_audit
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.jobs import jobs
from airflow_snowpack.store.tables.removals import removal_parts, removals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.store import Actor, Store

PAGE_SIZE = 100
PART_SIZE = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

REMOVAL, PART = removals.c, removal_parts.c
NEWEST_FIRST = Keyset(REMOVAL.planned_at, REMOVAL.removal_id, descending=True)
NOW = sa.bindparam("b_now", type_=UtcDateTime)
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
IS_OPEN = sa.or_(REMOVAL.state == RemovalState.DELETING.value, REMOVAL.quarantined_until.is_not(None))
"""Whether its attempt may write to it."""

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
SUPERSEDED = "a newer plan replaces it: removal {}"


class Removals:
    def __init__(self, store: Store) -> None:
        self.store = store

    # --- reading ---

    def get(self, removal_id: str) -> Removal:
        """:raises RemovalNotFound: there is no such removal."""
        return _found(removal_id, self.store.first(_of_id(removal_id), {"b_now": self.store.clock()}))

    def list(
        self,
        *,
        limit: int = PAGE_SIZE,
        cursor: str | None = None,
        table: TableName | None = None,
        state: RemovalState | None = None,
    ) -> Page[Removal]:
        """List the removals, latest plan first.

        :param cursor: ``next`` of the page before.
        :param state: ``QUARANTINED`` also selects lists in other states with files in quarantine.
        :raises InvalidCursor: no page returned it.
        """
        query = REMOVALS.where(*NEWEST_FIRST.beyond(cursor)).order_by(*NEWEST_FIRST.order()).limit(limit + 1)
        query = query if table is None else query.where(REMOVAL.table_key == table.lock_key)
        if state is not None:
            held = REMOVAL.quarantined_until.is_not(None)
            query = query.where(held if state is RemovalState.QUARANTINED else sa.literal(state.value) == STATE)
        return NEWEST_FIRST.page(self.store.all(query, {"b_now": self.store.clock()}), limit, removal_from)

    def planned_by(self, job_id: str) -> Sequence[Removal]:
        """Return the removals that a job planned, in the order of its actions."""
        return self._oldest_first(REMOVAL.planned_by_job == storable(job_id))

    def ids_beginning(self, beginning: str, *, limit: int = 10) -> Sequence[str]:
        """Return the removal ids with this prefix."""
        return self.store.ids_beginning(REMOVAL.removal_id, beginning, limit)

    def part_numbers(self, removal_id: str) -> Sequence[int]:
        """Return the numbers of a list's parts, in order."""
        query = sa.select(PART.number).where(PART.removal_id == removal_id).order_by(PART.number)
        return [row.number for row in self.store.all(query)]

    def part(self, removal_id: str, number: int) -> Sequence[RemovalItem]:
        """Return one part of the list; empty beyond its end."""
        content = self.store.scalar(sa.select(PART.content).where(PART.removal_id == removal_id, PART.number == number))
        return [] if content is None else _unpack(content)

    def items(self, removal_id: str) -> Iterator[RemovalItem]:
        """Yield the whole list, with one part in memory at a time."""
        for number in self.part_numbers(removal_id):
            yield from self.part(removal_id, number)

    def some_items(self, removal_id: str, *, start: int = 0, limit: int = PAGE_SIZE) -> Sequence[RemovalItem]:
        """Return up to ``limit`` items of the list, from the position ``start`` on."""
        number, skipped = divmod(start, PART_SIZE)
        found = [*self.part(removal_id, number)][skipped:]
        while len(found) < limit and (part := self.part(removal_id, number := number + 1)):
            found += part
        return found[:limit]

    # --- planning ---

    def plan(self, draft: Removal, items: Iterable[RemovalItem], *, needs_approval: Callable[[Removal], bool]) -> Removal | None:
        """Write the list of a plan part by part, and return the removal; ``None`` for an empty list.

        A plan that awaits approval replaces earlier ones of the same table and kind that do. Any plan replaces lists that needed
        no approval and whose job ended without deleting all of them, and deletes unfinished plans of earlier attempts at the same
        job.

        :param needs_approval: called with the planned removal and its totals.
        :raises RemovalTakenOver: the draft's attempt has lost its job, or a later one is planning. No list is left.
        """
        rest = iter(items)
        part = list(islice(rest, PART_SIZE))
        if not part:
            return None
        self.store.transact(lambda conn: self._begin_plan(conn, draft))
        number, count = 0, 0
        size: int | None = 0
        while part:
            self.store.transact(partial(_write_part, removal_id=draft.removal_id, number=number, content=_pack(part)))
            number, count = number + 1, count + len(part)
            sizes = [item.bytes for item in part if item.bytes is not None]
            size = None if size is None or len(sizes) < len(part) else size + sum(sizes)
            part = list(islice(rest, PART_SIZE))
        planned = replace(draft, item_count=count, bytes=size if draft.bytes is None else draft.bytes)
        state = RemovalState.AWAITING_APPROVAL if needs_approval(planned) else RemovalState.PLANNED
        self.store.transact(lambda conn: self._end_plan(conn, planned, state))
        return self.get(draft.removal_id)

    def _begin_plan(self, conn: sa.Connection, draft: Removal) -> None:
        _refuse_lost(conn, draft)
        unfinished = sa.and_(
            REMOVAL.planned_by_job == draft.planned_by_job,
            REMOVAL.kind == draft.kind.value,
            REMOVAL.state == RemovalState.PLANNED.value,
        )
        if left := conn.execute(sa.select(REMOVAL.removal_id).where(unfinished)).scalars().all():
            # These rows first, because an attempt that still writes a list locks its row for each part.
            conn.execute(sa.delete(removals).where(REMOVAL.removal_id.in_(left)))
            conn.execute(sa.delete(removal_parts).where(PART.removal_id.in_(left)))
        conn.execute(sa.insert(removals), _new_row(draft))

    def _end_plan(self, conn: sa.Connection, planned: Removal, state: RemovalState) -> None:
        totals = {"item_count": planned.item_count, "bytes": planned.bytes, "state": state.value}
        own = REMOVAL.removal_id == planned.removal_id
        _refuse_lost(conn, planned)
        if conn.execute(sa.update(removals).where(own).values(**totals)).rowcount == 0:
            raise RemovalTakenOver(planned.removal_id)
        older = sa.and_(REMOVAL.table_key == planned.table.lock_key, REMOVAL.kind == planned.kind.value, ~own)
        ended = {"error": SUPERSEDED.format(planned.removal_id), "ended_at": self.store.clock()}
        if state is RemovalState.AWAITING_APPROVAL:
            waits = REMOVAL.state == RemovalState.AWAITING_APPROVAL.value
            conn.execute(sa.update(removals).where(older, waits).values(state=RemovalState.EXPIRED.value, **ended))
        unapproved = sa.and_(ABANDONED, REMOVAL.decided_by.is_(None))
        conn.execute(sa.update(removals).where(older, unapproved).values(state=RemovalState.FAILED.value, **ended))

    # --- deciding ---

    def approve(self, removal_id: str, *, actor: Actor, comment: str | None = None) -> Removal:
        """Approve a removal to be run. The same actor may repeat it.

        :raises RemovalNotFound: there is no such removal.
        :raises RemovalNotPossible: it does not await approval.
        """
        return self._decide(removal_id, RemovalState.APPROVED, actor, comment)

    def reject(self, removal_id: str, *, actor: Actor, comment: str | None = None) -> Removal:
        """Reject a removal for good, even if it was approved or its job was cancelled. The same actor may repeat it.

        :raises RemovalNotFound: there is no such removal.
        :raises RemovalNotPossible: a job deletes it, or it has ended.
        """
        return self._decide(removal_id, RemovalState.REJECTED, actor, comment)

    def _decide(self, removal_id: str, state: RemovalState, actor: Actor, comment: str | None) -> Removal:
        change = "approve_removal" if state is RemovalState.APPROVED else "reject_removal"

        def write(conn: sa.Connection) -> None:
            found = self._locked(conn, removal_id)
            if (found.state, found.decided_by) == (state, actor.name):
                return
            running = found.state is RemovalState.DELETING
            # Only an ending attempt returns a removal from DELETING to APPROVED.
            busy = running and (state is RemovalState.APPROVED or _is_live(conn, found.job_id, found.attempt_id))
            if busy or state not in found.state.successors:
                raise RemovalNotPossible(found, state.value)
            decision = {"state": state.value, "decided_at": self.store.clock(), "decided_by": actor.name}
            text = None if comment is None else storable(comment)
            conn.execute(sa.update(removals).where(REMOVAL.removal_id == found.removal_id).values(**decision, comment=text))
            detail = {"table": str(found.table), "kind": found.kind.value, "items": found.item_count, "bytes": found.bytes}
            write_audit(conn, self.store, actor, change, audit_subject(found.removal_id), **detail, comment=text)

        self.store.transact(write)
        return self.get(removal_id)

    # --- deleting, under the fence of a job's attempt ---

    def begin(self, removal_id: str, job_id: str, attempt_id: str) -> Removal:
        """Begin to delete a removal, or continue after an attempt that ended early. The fence moves to this attempt.

        :raises RemovalNotFound: there is no such removal.
        :raises RemovalNotPossible: it is not approved, has expired, or a live attempt of another job deletes it.
        :raises RemovalTakenOver: the attempt has lost its job.
        """

        def write(conn: sa.Connection) -> None:
            found, now = self._locked(conn, removal_id, job_id, attempt_id), self.store.clock()
            planned_here = found.state is RemovalState.PLANNED and found.planned_by_job == job_id
            if not planned_here and found.state not in (RemovalState.APPROVED, RemovalState.DELETING):
                raise RemovalNotPossible(found, "run")
            of_other = found.state is RemovalState.DELETING and found.job_id != job_id
            if of_other and _is_live(conn, found.job_id, found.attempt_id):
                raise RemovalNotPossible(found, "run")
            fence = {"state": RemovalState.DELETING.value, "job_id": job_id, "attempt_id": attempt_id, "error": None}
            started = {"started_at": found.started_at or now, "ended_at": None}
            conn.execute(sa.update(removals).where(REMOVAL.removal_id == found.removal_id).values(**fence, **started))

        self.store.transact(write)
        return self.get(removal_id)

    def record(self, removal: Removal, parts: Mapping[int, Sequence[RemovalItem]], counts: Mapping[ItemOutcome, int]) -> None:
        """Write the outcomes of some parts and the totals so far.

        :raises RemovalTakenOver: the fence has moved; nothing was written.
        """
        totals = {column: counts.get(outcome, 0) for outcome, column in COUNTED.items()}

        def write(conn: sa.Connection) -> None:
            _write(conn, removal, totals)
            for number, items in parts.items():
                part = sa.and_(PART.removal_id == removal.removal_id, PART.number == number)
                conn.execute(sa.update(removal_parts).where(part).values(content=_pack(items)))

        self.store.transact(write)

    def end(self, removal: Removal, state: RemovalState, error: str | None = None) -> Removal:
        """Write how an attempt ended: ``DELETED``, ``FAILED``, or ``APPROVED`` if another attempt may continue.

        :raises RemovalTakenOver: the fence has moved; nothing was written.
        """
        assert state in RemovalState.DELETING.successors, state
        values: dict[str, Any] = {"state": state.value, "ended_at": self.store.clock()}
        if state is RemovalState.DELETED and removal.quarantine is not None:
            values["quarantined_until"] = sa.case(
                (REMOVAL.quarantined_count > 0, sa.literal(self.store.clock() + removal.quarantine, UtcDateTime)), else_=None
            )
        text = None if error is None else storable_error(error)
        written = self.store.execute(sa.update(removals).where(_fenced(removal)).values(**values, error=text))
        ended = self.get(removal.removal_id)
        # The response to the first try may have been lost.
        if not written and (ended.state, ended.attempt_id) != (state, removal.attempt_id):
            raise RemovalTakenOver(removal.removal_id)
        return ended

    # --- in quarantine ---

    def in_quarantine(
        self, table: TableName, *, until: datetime | None = None, or_of_job: str | None = None
    ) -> Sequence[Removal]:
        """Return the removals of a table that have files in quarantine, oldest first.

        :param until: only those whose quarantine ends by then and that no job is processing.
        :param or_of_job: also those whose last file this job has restored.
        """
        held = sa.or_(REMOVAL.quarantined_until.is_not(None), sa.and_(REMOVAL.job_id == or_of_job, REMOVAL.restored_count > 0))
        which = [REMOVAL.table_key == table.lock_key, held]
        if until is not None:
            ended = sa.or_(sa.literal(RemovalState.QUARANTINED.value) == STATE, ABANDONED)
            which += [REMOVAL.quarantined_until <= until, ended]
        return self._oldest_first(*which)

    def tables_with_deleted_orphans(self, tables: Collection[TableName]) -> frozenset[str]:
        """Return the UUIDs of tables with these names that had orphan files deleted for good, in one statement."""
        query = sa.select(REMOVAL.table_uuid).where(
            REMOVAL.kind == RemovalKind.ORPHANS.value,
            REMOVAL.state == RemovalState.DELETED.value,
            REMOVAL.deleted_count > 0,
            REMOVAL.quarantined_until.is_(None),
        )
        keys = {table.lock_key for table in tables}
        return frozenset(row.table_uuid for row in self.store.all_by_key(query.distinct(), REMOVAL.table_key, keys))

    def begin_quarantine(self, removal: Removal) -> None:
        """Record that files of the list may be in quarantine from now on.

        :raises RemovalTakenOver: the fence has moved.
        """
        assert removal.quarantine is not None, removal
        until = {"quarantined_until": self.store.clock() + removal.quarantine}
        self.store.transact(lambda conn: _write(conn, removal, until))

    def reopen(self, removal_id: str, job_id: str, attempt_id: str) -> Removal:
        """Move the fence of a removal with files in quarantine to an attempt that restores or deletes them.

        If the list was not deleted completely, its deletion does not continue afterwards.

        :raises RemovalNotFound: there is no such removal.
        :raises NothingInQuarantine: no file of it is in quarantine.
        :raises RemovalNotPossible: a live attempt of another job deletes or restores it.
        :raises RemovalTakenOver: the attempt has lost its job.
        """

        def write(conn: sa.Connection) -> None:
            found = self._locked(conn, removal_id, job_id, attempt_id)
            if found.quarantined_until is None:
                raise NothingInQuarantine(found)
            if found.job_id != job_id and _is_live(conn, found.job_id, found.attempt_id):
                raise RemovalNotPossible(found, "restored")
            values: dict[str, Any] = {"job_id": job_id, "attempt_id": attempt_id}
            if found.state is not RemovalState.QUARANTINED:
                error = f"job {job_id} restored files of it, or deleted them for good, before all of it was taken away"
                values |= {"state": RemovalState.FAILED.value, "error": error, "ended_at": self.store.clock()}
            conn.execute(sa.update(removals).where(REMOVAL.removal_id == found.removal_id).values(**values))

        self.store.transact(write)
        return self.get(removal_id)

    def settle(self, removal: Removal, *, left: int, actor: Actor, change: str, files: int) -> Removal:
        """Record that files were restored or deleted for good.

        :param left: how many files of the list are still in quarantine.
        :param change: for the audit trail, with the number of ``files``.
        :raises RemovalTakenOver: the fence has moved; nothing was written.
        """
        restored = sa.and_(REMOVAL.deleted_count == 0, REMOVAL.restored_count > 0)
        state = sa.case((restored, sa.literal_column(f"'{RemovalState.RESTORED.value}'")), else_=REMOVAL.state)
        values = {"attempt_id": removal.attempt_id} if left else {"state": state, "quarantined_until": None}

        def write(conn: sa.Connection) -> None:
            _write(conn, removal, values)
            detail = {"table": str(removal.table), "files": files, "left": left, "job": removal.job_id}
            write_audit(conn, self.store, actor, change, audit_subject(removal.removal_id), **detail)

        self.store.transact(write)
        return self.get(removal.removal_id)

    def _oldest_first(self, *which: sa.ColumnElement[bool]) -> Sequence[Removal]:
        query = REMOVALS.where(*which).order_by(REMOVAL.planned_at, REMOVAL.removal_id)
        return [removal_from(row) for row in self.store.all(query, {"b_now": self.store.clock()})]

    def _locked(self, conn: sa.Connection, removal_id: str, job_id: str = "", attempt_id: str | None = None) -> Removal:
        """Return a removal and lock it until the transaction ends.

        :param attempt_id: of the attempt that locks it; ``None``: a person does.
        :raises RemovalTakenOver: the attempt has lost its job.
        """
        row = conn.execute(_of_id(removal_id).with_for_update(), {"b_now": self.store.clock()}).first()
        found = _found(removal_id, row)
        if attempt_id is not None and not _is_live(conn, job_id, attempt_id):
            raise RemovalTakenOver(removal_id)
        return found


def _of_id(removal_id: str) -> sa.Select[Any]:
    return REMOVALS.where(REMOVAL.removal_id == storable(removal_id))


def _found(removal_id: str, row: sa.Row[Any] | None) -> Removal:
    if row is None:
        raise RemovalNotFound(removal_id)
    return removal_from(row)


def _write_part(conn: sa.Connection, removal_id: str, number: int, content: bytes) -> None:
    """Write a part of a list, unless a later attempt at its job has deleted the plan."""
    own = sa.select(REMOVAL.removal_id).where(REMOVAL.removal_id == removal_id).with_for_update()
    if conn.execute(own).first() is None:
        raise RemovalTakenOver(removal_id)
    conn.execute(upsert(removal_parts, ["content"]), {"removal_id": removal_id, "number": number, "content": content})


def _refuse_lost(conn: sa.Connection, draft: Removal) -> None:
    if draft.attempt_id is not None and not _is_live(conn, draft.planned_by_job, draft.attempt_id):
        raise RemovalTakenOver(draft.removal_id)


def _is_live(conn: sa.Connection, job_id: str | None, attempt_id: str | None) -> bool:
    """Return whether this attempt still has its job."""
    live = sa.and_(jobs.c.job_id == job_id, jobs.c.attempt_id == attempt_id, jobs.c.status == JobStatus.RUNNING.value)
    return conn.execute(sa.select(sa.literal_column("1")).where(live)).first() is not None


def _fenced(removal: Removal) -> sa.ColumnElement[bool]:
    """Select a removal as long as the fence is that of its attempt."""
    return sa.and_(REMOVAL.removal_id == removal.removal_id, REMOVAL.attempt_id == (removal.attempt_id or ""), IS_OPEN)


def _write(conn: sa.Connection, removal: Removal, values: Mapping[str, Any]) -> None:
    """Write to a removal under the fence of its attempt.

    :raises RemovalTakenOver: the fence has moved.
    """
    if conn.execute(sa.update(removals).where(_fenced(removal)).values(**values)).rowcount == 0:
        raise RemovalTakenOver(removal.removal_id)


def audit_subject(removal_id: str) -> str:
    return f"removal:{removal_id}"


def _new_row(removal: Removal) -> dict[str, Any]:
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


def _pack(items: Iterable[RemovalItem]) -> bytes:
    """Return the content of a part. JSON escapes what databases refuse in text, so paths stay exact."""
    plain = [
        [item.name, item.bytes, None if item.at is None else (item.at - EPOCH) // MICROSECOND, item.outcome, item.reason]
        for item in items
    ]
    return zlib.compress(json.dumps(plain, separators=(",", ":")).encode("ascii"))


def _unpack(content: bytes) -> list[RemovalItem]:
    return [
        RemovalItem(name, size, None if at is None else EPOCH + at * MICROSECOND, outcome and ItemOutcome(outcome), reason)
        for name, size, at, outcome, reason in json.loads(zlib.decompress(content))
    ]
