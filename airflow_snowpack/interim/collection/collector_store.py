"""The collector's statements: which consumers have finished, and which tables no task needs any more.

    seem_finished = collector_store.mark(runs, states)   # runs with consumers that seem to have finished: query Airflow again
    for table in collector_store.settle(runs, states, limit=100):
        drop(table)
        collector_store.dropped(table)

Invariants: a table is marked for dropping in a transaction that locks its row and only then reads pins, refs and names, so no
task can have come to need it unseen; from then on it carries this collector's fence. Every statement is about a set, sent in
parts if it is large: the number of statements does not grow with the tables that stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.interim.collection.model import DagRunState, DueRun, States, TableToDrop
from airflow_snowpack.interim.model import InterimPolicy, TableState
from airflow_snowpack.interim.rows import (
    DROPPING,
    FREED,
    NAME,
    PIN,
    READY,
    REF,
    RUN,
    SLOT,
    TABLE,
    TABLES,
    WRITING,
    ids,
    moment,
    name_from,
    nudge,
    producer_from,
)
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import IdMaker, Store, new_id, storable, storable_error
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.tables.interim import interim_names, interim_pins, interim_refs, interim_slots, interim_tables

NOW = moment("b_now")
KEYS, IDS = ids("b_keys"), ids()
T = TypeVar("T")
VALUES_PER_STATEMENT = 5_000
"""Postgres allows 65,535; SQLite as few as 32,766."""
TERMS_PER_STATEMENT = 100
"""Terms of an OR; SQLite allows a thousand."""

LASTING = sa.or_(TABLE.expires_at.is_(None), TABLE.expires_at > NOW)
PRESERVED = sa.and_(TABLE.preservation == Preservation.FULL.value, LASTING)
NAMED = sa.exists().where(NAME.table_id == TABLE.table_id, sa.or_(NAME.run_key != "", LASTING))
KEPT = sa.and_(READY, sa.or_(PRESERVED, NAMED))
NEEDED = sa.or_(sa.exists().where(PIN.table_id == TABLE.table_id), sa.exists().where(REF.table_id == TABLE.table_id))
UNWRITTEN = sa.and_(WRITING, TABLE.attempt_id.is_(None), TABLE.visible_at <= NOW)
"""Written by an attempt that has lost the slot or was declared dead, and whose lease has expired."""
NEEDLESS = sa.or_(UNWRITTEN, sa.and_(READY, ~PRESERVED, ~NAMED, ~NEEDED))
LATE_WRITER = sa.and_(WRITING, TABLE.attempt_id.is_not(None), TABLE.visible_at <= NOW)
LATE_READER = REF.lease_until <= NOW

MARKED_NOW = PIN.asked_by == sa.bindparam("b_asked")
ALL_MARKED = (
    sa.select(PIN.table_id)
    .where(PIN.run_key.in_(KEYS))
    .group_by(PIN.table_id)
    .having(sa.func.count() == sa.func.count(sa.case((MARKED_NOW, 1))))
)
"""The pins of the runs on a table are deleted together: a consumer that has finished may still be cleared, and must find the
table that still exists for another consumer."""
MARKED_PINS = sa.and_(PIN.run_key.in_(KEYS), PIN.table_id.in_(IDS), MARKED_NOW)
PINNED_BY = sa.select(PIN.run_key, PIN.task_id).distinct().where(PIN.run_key.in_(KEYS))
LATE_READINGS = sa.select(REF.reading_id, REF.run_key, REF.task_id, REF.map_index).where(REF.run_key.in_(KEYS), LATE_READER)
LATE_WRITINGS = sa.select(TABLE.table_id, TABLE.run_key, TABLE.task_id, TABLE.map_index).where(
    TABLE.run_key.in_(KEYS), LATE_WRITER
)
# Both check the lease again: an attempt that renewed it meanwhile is not dead.
END_READINGS = sa.delete(interim_refs).where(REF.reading_id.in_(IDS), LATE_READER)
END_WRITINGS = sa.update(interim_tables).where(TABLE.table_id.in_(IDS), LATE_WRITER).values(FREED)
TOUCHES = sa.select(RUN.run_key, RUN.touches).where(RUN.run_key.in_(KEYS)).with_for_update()
END_NAMES = sa.delete(interim_names).where(NAME.run_key.in_(KEYS))
END_SLOTS = sa.delete(interim_slots).where(SLOT.run_key.in_(KEYS))

LIMIT = sa.bindparam("b_limit", type_=sa.Integer)
LOCK_NEEDLESS = sa.select(TABLE.table_id).where(TABLE.run_key.in_(KEYS), NEEDLESS).limit(LIMIT).with_for_update(skip_locked=True)
LEFT_OVER = sa.select(TABLE.table_id).where(DROPPING, TABLE.visible_at <= NOW).order_by(TABLE.visible_at).limit(LIMIT)
LOCK_LEFT = LEFT_OVER.with_for_update(skip_locked=True)
"""Drops that failed, or whose collector is dead."""
TAKE = (
    sa.update(interim_tables)
    .where(TABLE.table_id.in_(IDS), sa.or_(DROPPING, NEEDLESS))
    .values(
        state=TableState.DROPPING.value,
        attempt_id=sa.bindparam("b_attempt"),
        claimed_by=sa.bindparam("b_holder"),
        claimed_at=NOW,
        visible_at=moment("b_until"),
        attempt_count=TABLE.attempt_count + 1,
    )
    .returning(interim_tables)
)
"""A separate statement after the lock: it sees what a reader committed before it released the row."""
FENCED = sa.and_(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"))
RENEW = (
    sa.update(interim_tables)
    .where(TABLE.table_id.in_(IDS), DROPPING, TABLE.attempt_id == sa.bindparam("b_attempt"))
    .values(visible_at=moment("b_until"))
    .returning(TABLE.table_id)
)
UNNAME = sa.delete(interim_names).where(NAME.table_id.in_(IDS))
FAIL = sa.update(interim_tables).where(FENCED).values(FREED | {"error": sa.bindparam("b_error"), "visible_at": moment("b_again")})
LOCATE = sa.update(interim_tables).where(FENCED).values(location=sa.bindparam("b_location"))
table_to_drop = row_mapper(
    TableToDrop,
    table=name_from,
    producer=producer_from,
    drops="attempt_count",
    committed=lambda row: row.ready_at is not None,
)


class CollectorStore:
    """Reads and writes what the collector needs; ``holder`` is the collector's name, for people."""

    def __init__(self, store: Store, policy: InterimPolicy, *, holder: str, make_id: IdMaker = new_id) -> None:
        self.store = store
        self._policy = policy
        self._holder = storable(holder)
        self._make_id = make_id
        self._mark_id: str | None = None
        self._marked: list[tuple[str, str]] = []
        self._seem_finished: set[str] = set()

    def mark(self, runs: Sequence[DueRun], states: States) -> list[DueRun]:
        """Mark the pins of consumers that seem to have finished; return their runs, for which Airflow must be queried again.

        A consumer may be cleared and start between Airflow's answer and the deletion of its pin. A task that needs a table erases
        the mark, so a pin is deleted only if it was marked, then reported as finished, and not needed since.
        """
        known = _known_states(runs, states)
        self._mark_id = self._make_id()
        self.store.transact(lambda conn: self._mark(conn, known))
        return [run for run in runs if run.run_key in self._seem_finished]

    def settle(self, runs: Sequence[DueRun], states: States, limit: int) -> list[TableToDrop]:
        """Delete the records of finished and dead tasks, by the states after :meth:`mark`; take the tables no task needs then."""

        def write(conn: sa.Connection) -> list[TableToDrop]:
            self._release(conn, runs, states)
            return self._take(conn, LOCK_NEEDLESS, keys_of(runs), limit)

        return self.store.transact(write)

    def preview(self, runs: Sequence[DueRun], states: States, limit: int) -> list[TableToDrop]:
        """Return what :meth:`settle` would take, and what was taken before, without writing."""
        found: list[TableToDrop] = []

        def write(conn: sa.Connection) -> None:
            self._mark_id = self._make_id()
            self._mark(conn, _known_states(runs, states))
            self._release(conn, runs, states)
            found[:] = self._take(conn, LOCK_LEFT, {}, limit)
            found.extend(self._take(conn, LOCK_NEEDLESS, keys_of(runs), limit))
            raise _RolledBack

        with suppress(_RolledBack):
            self.store.transact(write)
        return found

    def take(self, limit: int, runs: Sequence[DueRun] | None = None) -> list[TableToDrop]:
        """Take tables of these runs that no task needs; without runs, those whose drop failed or was never finished."""
        lock, where = (LOCK_LEFT, {}) if runs is None else (LOCK_NEEDLESS, keys_of(runs))
        return self.store.transact(lambda conn: self._take(conn, lock, where, limit))

    def renew(self, tables: Sequence[TableToDrop]) -> set[str]:
        """Renew the leases of these tables of one batch; return the ids of those that this collector still holds."""
        until = self.store.clock() + self._policy.drop_lease
        values = {"b_ids": [each.table_id for each in tables], "b_attempt": tables[0].attempt_id, "b_until": until}
        return self.store.transact(lambda conn: set(conn.execute(RENEW, values).scalars()))

    def locate(self, table: TableToDrop, location: str) -> None:
        """Record the folder before the catalog forgets it: its files can then be found after a kill."""
        self.store.execute(LOCATE, _fence(table) | {"b_location": storable(location)})

    def dropped(self, table: TableToDrop) -> None:
        """Delete the row of a dropped table."""
        self.store.execute(TABLES.release, {"b_key": table.table_id, "b_attempt": table.attempt_id})

    def failed(self, table: TableToDrop, error: str) -> None:
        """Record the error, and when to retry."""
        again = backoff(self._policy.drop_again, table.drops - 1, self._policy.longest_look)
        self.store.execute(FAIL, _fence(table) | {"b_error": storable_error(error), "b_again": self.store.clock() + again})

    def _mark(self, conn: sa.Connection, known: Mapping[str, DagRunState]) -> None:
        if not known:
            self._marked, self._seem_finished = [], set()
            return
        pins = conn.execute(PINNED_BY, {"b_keys": sorted(known)}).all()
        self._marked = [(key, task) for key, task in pins if known[key].is_finished(task)]
        for theirs in _pins_of(self._marked, known):
            conn.execute(sa.update(interim_pins).where(theirs).values(asked_by=self._mark_id))
        seem = sa.select(PIN.run_key).distinct().where(MARKED_PINS)
        self._seem_finished = {key for marked in self._all_marked(conn, known) for key in conn.execute(seem, marked).scalars()}

    def _all_marked(self, conn: sa.Connection, run_keys: Iterable[str]) -> list[dict[str, Any]]:
        """Return the tables whose pins of these runs are all marked, as the values of :data:`MARKED_PINS`."""
        runs = {"b_keys": sorted(run_keys), "b_asked": self._mark_id}
        tables = conn.execute(ALL_MARKED, runs).scalars().all()
        return [runs | {"b_ids": part} for part in _chunks(tables)]

    def _take(self, conn: sa.Connection, lock: sa.Select[Any], where: Mapping[str, Any], limit: int) -> list[TableToDrop]:
        now = self.store.clock()
        locked = conn.execute(lock, {**where, "b_now": now, "b_limit": limit}).scalars().all()
        if not locked:
            return []
        ours = {"b_attempt": self._make_id(), "b_holder": self._holder, "b_until": now + self._policy.drop_lease}
        rows = conn.execute(TAKE, {"b_ids": sorted(locked), "b_now": now, **ours}).all()
        if rows:
            conn.execute(UNNAME, {"b_ids": [row.table_id for row in rows]})
        return [table_to_drop(row) for row in rows]

    def _release(self, conn: sa.Connection, runs: Sequence[DueRun], states: States) -> None:
        """Delete the pins of finished consumers, the readings and leases of dead attempts, and the names of ended runs."""
        known = _known_states(runs, states)
        values = {"b_keys": sorted(known), "b_now": self.store.clock()}
        if not known:
            return
        cleared = [(key, task) for key, task in self._marked if key in known and not known[key].is_finished(task)]
        for theirs in _pins_of(cleared, known):
            conn.execute(sa.update(interim_pins).where(theirs).values(asked_by=sa.null()))
        for marked in self._all_marked(conn, known.keys() & self._seem_finished):
            self._wake_others(conn, MARKED_PINS, interim_pins, marked)
            conn.execute(sa.delete(interim_pins).where(MARKED_PINS), marked)
        readings = [row.reading_id for row in conn.execute(LATE_READINGS, values) if _has_ended(known, row)]
        for part in _chunks(readings):
            self._wake_others(conn, REF.reading_id.in_(part), interim_refs)
            conn.execute(END_READINGS, {"b_ids": part, "b_now": values["b_now"]})
        writings = [row.table_id for row in conn.execute(LATE_WRITINGS, values) if _has_ended(known, row)]
        for part in _chunks(writings):
            conn.execute(END_WRITINGS, {"b_ids": part, "b_now": values["b_now"]})
        if over := [key for key, state in known.items() if not state.is_active]:
            self._end(conn, over, {run.run_key: run.touches for run in runs})

    def _end(self, conn: sa.Connection, over: list[str], touches: Mapping[str, int]) -> None:
        """Delete names and slots of ended runs, except of a run that was created again since it was taken."""
        now = conn.execute(TOUCHES, {"b_keys": over}).all()
        if same := [row.run_key for row in now if row.touches == touches[row.run_key]]:
            conn.execute(END_NAMES, {"b_keys": same})
            conn.execute(END_SLOTS, {"b_keys": same})

    def _wake_others(
        self, conn: sa.Connection, theirs: sa.ColumnElement[bool], needing: sa.Table, values: Mapping[str, Any] | None = None
    ) -> None:
        """Make other runs due whose tables may no longer be needed after this."""
        others = sa.select(TABLE.run_key).distinct().join(needing, needing.c.table_id == TABLE.table_id)
        found = conn.execute(others.where(theirs, TABLE.run_key != needing.c.run_key), values or {}).scalars().all()
        for part in _chunks(found):
            nudge(conn, *part, look_at=self.store.clock())


class _RolledBack(Exception):
    """Rolls a transaction back."""


def keys_of(runs: Sequence[DueRun]) -> dict[str, Any]:
    return {"b_keys": sorted(run.run_key for run in runs)}


def _fence(table: TableToDrop) -> dict[str, Any]:
    return {"b_table": table.table_id, "b_attempt": table.attempt_id}


def _chunks(values: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """Divide values into parts that fit a statement; none for no values."""
    size = size or VALUES_PER_STATEMENT
    return (values[start : start + size] for start in range(0, len(values), size))


def _known_states(runs: Sequence[DueRun], states: States) -> dict[str, DagRunState]:
    return {run.run_key: states[run.dag_id, run.run_id] for run in runs if (run.dag_id, run.run_id) in states}


def _pins_of(consumers: Sequence[tuple[str, str]], known: Mapping[str, DagRunState]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield conditions for the pins of these consumers; in an ended run all consumers have finished, and its key suffices."""
    over = sorted({key for key, _ in consumers if not known[key].is_active})
    for keys in _chunks(over):
        yield PIN.run_key.in_(keys)
    for some in _chunks(sorted((key, task) for key, task in consumers if known[key].is_active)):
        # Run by run: for pairs, SQLite uses no index, and Postgres compares each row with each pair.
        of_runs = [(key, [task for _, task in pairs]) for key, pairs in groupby(some, key=itemgetter(0))]
        for part in _chunks(of_runs, TERMS_PER_STATEMENT):
            yield sa.or_(*(sa.and_(PIN.run_key == key, PIN.task_id.in_(tasks)) for key, tasks in part))


def _has_ended(known: Mapping[str, DagRunState], row: Any) -> bool:
    return known[row.run_key].has_ended(row.task_id, row.map_index)
