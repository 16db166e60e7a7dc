"""The collector's side of the record: who is through with what, and which tables nobody needs any more.

    seem = collector_store.mark(runs, standings)         # runs with consumers that seem to be finished: ask Airflow again
    for doomed in collector_store.settle(runs, standings, limit=100):
        drop(doomed)
        collector_store.dropped(doomed)

The invariants: a table is doomed in a transaction that holds its row and only then looks for pins, refs and names, so that nobody
can have come to need it unseen; from then on it carries this collector's fence. Every statement is about a set, so that their
number does not grow with the tables that stay; a set is told in parts, since a database takes so many values at once and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.interim.collection.model import Doomed, DueRun, RunStanding
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
    moment,
    name_from,
    nudge,
    producer_from,
)
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import IdMaker, Store, new_id, storable
from airflow_snowpack.store.tables.interim import (
    interim_names,
    interim_pins,
    interim_refs,
    interim_slots,
    interim_tables,
)

NOW = moment("b_now")
KEYS: sa.BindParameter[Any] = sa.bindparam("b_keys", expanding=True)
IDS: sa.BindParameter[Any] = sa.bindparam("b_ids", expanding=True)
T = TypeVar("T")
AT_ONCE = 5_000
"""Values of a statement. Postgres takes 65,535, and SQLite as few as 32,766."""
RUNS_AT_ONCE = 100
"""Alternatives of a statement. SQLite takes a thousand."""
Standings = Mapping[tuple[str, str], RunStanding]

LASTING = sa.or_(TABLE.expires_at.is_(None), TABLE.expires_at > NOW)
PRESERVED = sa.and_(TABLE.preservation == Preservation.FULL.value, LASTING)
NAMED = sa.exists().where(NAME.table_id == TABLE.table_id, sa.or_(NAME.run_key != "", LASTING))
KEPT = sa.and_(READY, sa.or_(PRESERVED, NAMED))
NEEDED = sa.or_(sa.exists().where(PIN.table_id == TABLE.table_id), sa.exists().where(REF.table_id == TABLE.table_id))
UNWRITTEN = sa.and_(WRITING, TABLE.attempt_id.is_(None), TABLE.visible_at <= NOW)
"""Being written by an attempt that has lost the slot, or was given up, and whose lease is over."""
NEEDLESS = sa.or_(UNWRITTEN, sa.and_(READY, ~PRESERVED, ~NAMED, ~NEEDED))
LATE_WRITER = sa.and_(WRITING, TABLE.attempt_id.is_not(None), TABLE.visible_at <= NOW)
LATE_READER = REF.lease_until <= NOW

ASKED_NOW = PIN.asked_by == sa.bindparam("b_asked")
ALL_ASKED = (
    sa.select(PIN.table_id)
    .where(PIN.run_key.in_(KEYS))
    .group_by(PIN.table_id)
    .having(sa.func.count() == sa.func.count(sa.case((ASKED_NOW, 1))))
)
"""The pins that the runs have on a table go together: one consumer that is finished may yet be cleared, and is to find the table
that is there for another one."""
ASKED_PINS = sa.and_(PIN.run_key.in_(KEYS), PIN.table_id.in_(IDS), ASKED_NOW)
PINNED_BY = sa.select(PIN.run_key, PIN.task_id).distinct().where(PIN.run_key.in_(KEYS))
LATE_READINGS = sa.select(REF.reading_id, REF.run_key, REF.task_id, REF.map_index).where(REF.run_key.in_(KEYS), LATE_READER)
LATE_WRITINGS = sa.select(TABLE.table_id, TABLE.run_key, TABLE.task_id, TABLE.map_index).where(
    TABLE.run_key.in_(KEYS), LATE_WRITER
)
# Both look at the lease again: who renewed it meanwhile is not dead.
BURY_READINGS = sa.delete(interim_refs).where(REF.reading_id.in_(IDS), LATE_READER)
BURY_WRITINGS = sa.update(interim_tables).where(TABLE.table_id.in_(IDS), LATE_WRITER).values(FREED)
TOUCHES = sa.select(RUN.run_key, RUN.touches).where(RUN.run_key.in_(KEYS)).with_for_update()
END_NAMES = sa.delete(interim_names).where(NAME.run_key.in_(KEYS))
END_SLOTS = sa.delete(interim_slots).where(SLOT.run_key.in_(KEYS))

LOCK_NEEDLESS = (
    sa.select(TABLE.table_id)
    .where(TABLE.run_key.in_(KEYS), NEEDLESS)
    .limit(sa.bindparam("b_limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
LOCK_LEFT = (
    sa.select(TABLE.table_id)
    .where(DROPPING, TABLE.visible_at <= NOW)
    .order_by(TABLE.visible_at)
    .limit(sa.bindparam("b_limit", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
"""Drops that failed, or whose collector is dead."""
DOOM = (
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
"""A statement of its own after the lock: what a reader committed before he let go of the row is seen by now."""
RENEW = (
    sa.update(interim_tables)
    .where(TABLE.table_id.in_(IDS), DROPPING, TABLE.attempt_id == sa.bindparam("b_attempt"))
    .values(visible_at=moment("b_until"))
    .returning(TABLE.table_id)
)
UNNAME = sa.delete(interim_names).where(NAME.table_id.in_(IDS))
FAIL = (
    sa.update(interim_tables)
    .where(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"))
    .values(FREED | {"error": sa.bindparam("b_error"), "visible_at": moment("b_again")})
)
LOCATE = (
    sa.update(interim_tables)
    .where(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"))
    .values(location=sa.bindparam("b_location"))
)


class CollectorStore:
    """Reads and writes what the collector needs.

    :param holder: who collects, for people who look.
    """

    def __init__(self, store: Store, policy: InterimPolicy, *, holder: str, make_id: IdMaker = new_id) -> None:
        self._store = store
        self._policy = policy
        self._holder = storable(holder)
        self._make_id = make_id
        self._look: str | None = None
        self._marked: list[tuple[str, str]] = []
        self._seem: set[str] = set()

    def mark(self, runs: Sequence[DueRun], standings: Standings) -> list[DueRun]:
        """Mark the pins of consumers that seem to be finished; the runs that these are of have to be asked about again.

        A consumer may be cleared, and start, between Airflow's answer and the moment at which its pin goes. Whoever comes to need
        a table wipes the mark out; so a pin goes only if it was marked, then heard to be finished, and not needed anew since.
        """
        known = _known(runs, standings)
        self._look = self._make_id()
        self._store.transact(lambda conn: self._mark(conn, known))
        return [run for run in runs if run.run_key in self._seem]

    def _mark(self, conn: sa.Connection, known: Mapping[str, RunStanding]) -> None:
        if not known:
            self._marked, self._seem = [], set()
            return
        pins = conn.execute(PINNED_BY, {"b_keys": sorted(known)}).all()
        self._marked = [(key, task) for key, task in pins if known[key].is_finished(task)]
        for theirs in _pins_of(self._marked, known):
            conn.execute(sa.update(interim_pins).where(theirs).values(asked_by=self._look))
        seem = sa.select(PIN.run_key).distinct().where(ASKED_PINS)
        self._seem = {key for asked in self._all_asked(conn, known) for key in conn.execute(seem, asked).scalars()}

    def _all_asked(self, conn: sa.Connection, run_keys: Iterable[str]) -> list[dict[str, Any]]:
        """The tables on which all of the runs' pins are marked, as the values of :data:`ASKED_PINS`."""
        runs = {"b_keys": sorted(run_keys), "b_asked": self._look}
        tables = conn.execute(ALL_ASKED, runs).scalars().all()
        return [runs | {"b_ids": part} for part in _parts(tables)]

    def settle(self, runs: Sequence[DueRun], standings: Standings, limit: int) -> list[Doomed]:
        """Let go of what those held who are finished or dead, and doom what nobody needs any more then.

        :param standings: as Airflow has told them after :meth:`mark`.
        """

        def write(conn: sa.Connection) -> list[Doomed]:
            self._let_go(conn, runs, standings)
            return self._doom(conn, LOCK_NEEDLESS, keys_of(runs), limit)

        return self._store.transact(write)

    def foresee(self, runs: Sequence[DueRun], standings: Standings, limit: int) -> list[Doomed]:
        """What :meth:`settle` would doom, and what was doomed before. Nothing of it is kept."""
        found: list[Doomed] = []

        def write(conn: sa.Connection) -> None:
            self._look = self._make_id()
            self._mark(conn, _known(runs, standings))
            self._let_go(conn, runs, standings)
            found[:] = self._doom(conn, LOCK_LEFT, {}, limit)
            found.extend(self._doom(conn, LOCK_NEEDLESS, keys_of(runs), limit))
            raise _Undone

        with suppress(_Undone):
            self._store.transact(write)
        return found

    def doom(self, runs: Sequence[DueRun], limit: int) -> list[Doomed]:
        """More that nobody needs."""
        return self._store.transact(lambda conn: self._doom(conn, LOCK_NEEDLESS, keys_of(runs), limit))

    def take_left(self, limit: int) -> list[Doomed]:
        """What was doomed before, and whose drop failed or was never finished."""
        return self._store.transact(lambda conn: self._doom(conn, LOCK_LEFT, {}, limit))

    def _doom(self, conn: sa.Connection, lock: sa.Select[Any], where: Mapping[str, Any], limit: int) -> list[Doomed]:
        now = self._store.clock()
        locked = conn.execute(lock, {**where, "b_now": now, "b_limit": limit}).scalars().all()
        if not locked:
            return []
        ours = {"b_attempt": self._make_id(), "b_holder": self._holder, "b_until": now + self._policy.drop_lease}
        rows = conn.execute(DOOM, {"b_ids": sorted(locked), "b_now": now, **ours}).all()
        if rows:
            conn.execute(UNNAME, {"b_ids": [row.table_id for row in rows]})
        return [_doomed(row) for row in rows]

    def _let_go(self, conn: sa.Connection, runs: Sequence[DueRun], standings: Standings) -> None:
        known = _known(runs, standings)
        values = {"b_keys": sorted(known), "b_now": self._store.clock()}
        if not known:
            return
        cleared = [(key, task) for key, task in self._marked if key in known and not known[key].is_finished(task)]
        for theirs in _pins_of(cleared, known):
            conn.execute(sa.update(interim_pins).where(theirs).values(asked_by=sa.null()))
        for asked in self._all_asked(conn, known.keys() & self._seem):
            self._wake_others(conn, ASKED_PINS, interim_pins, asked)
            conn.execute(sa.delete(interim_pins).where(ASKED_PINS), asked)
        readings = [row.reading_id for row in conn.execute(LATE_READINGS, values) if _has_ended(known, row)]
        for part in _parts(readings):
            self._wake_others(conn, REF.reading_id.in_(part), interim_refs)
            conn.execute(BURY_READINGS, {"b_ids": part, "b_now": values["b_now"]})
        writings = [row.table_id for row in conn.execute(LATE_WRITINGS, values) if _has_ended(known, row)]
        for part in _parts(writings):
            conn.execute(BURY_WRITINGS, {"b_ids": part, "b_now": values["b_now"]})
        if over := [key for key, standing in known.items() if not standing.is_active]:
            self._end(conn, over, {run.run_key: run.touches for run in runs})

    def _end(self, conn: sa.Connection, over: list[str], touches: Mapping[str, int]) -> None:
        """Names and slots of runs that are over, unless one has begun anew since it was taken."""
        now = conn.execute(TOUCHES, {"b_keys": over}).all()
        if same := [row.run_key for row in now if row.touches == touches[row.run_key]]:
            conn.execute(END_NAMES, {"b_keys": same})
            conn.execute(END_SLOTS, {"b_keys": same})

    def _wake_others(
        self, conn: sa.Connection, theirs: sa.ColumnElement[bool], held: sa.Table, values: Mapping[str, Any] | None = None
    ) -> None:
        """Tables of other runs may go by this: their own runs are looked at next."""
        others = sa.select(TABLE.run_key).distinct().join(held, held.c.table_id == TABLE.table_id)
        found = conn.execute(others.where(theirs, TABLE.run_key != held.c.run_key), values or {}).scalars().all()
        for part in _parts(found):
            nudge(conn, *part, look_at=self._store.clock())

    def renew(self, tables: Sequence[Doomed]) -> set[str]:
        """Begin the lease of these tables of one batch again; return the ids of those that this collector still holds."""
        until = self._store.clock() + self._policy.drop_lease
        values = {"b_ids": [each.table_id for each in tables], "b_attempt": tables[0].attempt_id, "b_until": until}
        return self._store.transact(lambda conn: set(conn.execute(RENEW, values).scalars()))

    def locate(self, doomed: Doomed, location: str) -> None:
        """Note the folder before the catalog forgets it: a kill after that leaves files that can still be found."""
        values = {"b_table": doomed.table_id, "b_attempt": doomed.attempt_id, "b_location": storable(location)}
        self._store.transact(lambda conn: conn.execute(LOCATE, values))

    def dropped(self, doomed: Doomed) -> None:
        """It is gone, and so is its row."""
        values = {"b_key": doomed.table_id, "b_attempt": doomed.attempt_id}
        self._store.single(lambda conn: conn.execute(TABLES.release, values))

    def failed(self, doomed: Doomed, error: str) -> None:
        """It may still be there: it is tried again."""
        again = min(self._policy.drop_again * 2 ** min(doomed.drops - 1, 16), self._policy.longest_look)
        values = {"b_error": storable(error), "b_again": self._store.clock() + again}
        fence = {"b_table": doomed.table_id, "b_attempt": doomed.attempt_id}
        self._store.single(lambda conn: conn.execute(FAIL, values | fence))


def _parts(values: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """None for no values."""
    size = size or AT_ONCE
    return (values[start : start + size] for start in range(0, len(values), size))


class _Undone(Exception):
    """Ends a transaction of which nothing is to stay."""


def _known(runs: Sequence[DueRun], standings: Standings) -> dict[str, RunStanding]:
    return {run.run_key: standings[run.dag_id, run.run_id] for run in runs if (run.dag_id, run.run_id) in standings}


def _pins_of(consumers: Sequence[tuple[str, str]], known: Mapping[str, RunStanding]) -> Iterator[sa.ColumnElement[bool]]:
    """The pins of these, so many at a time: of a run that is over those of all, for which its key is enough."""
    over = sorted({key for key, _ in consumers if not known[key].is_active})
    for keys in _parts(over):
        yield PIN.run_key.in_(keys)
    for some in _parts(sorted((key, task) for key, task in consumers if known[key].is_active)):
        # Run by run: for pairs SQLite looks nothing up, and Postgres compares each row with each pair.
        of_runs = [(key, [task for _, task in pairs]) for key, pairs in groupby(some, key=itemgetter(0))]
        for part in _parts(of_runs, RUNS_AT_ONCE):
            yield sa.or_(*(sa.and_(PIN.run_key == key, PIN.task_id.in_(tasks)) for key, tasks in part))


def keys_of(runs: Sequence[DueRun]) -> dict[str, Any]:
    return {"b_keys": sorted(run.run_key for run in runs)}


def _has_ended(known: Mapping[str, RunStanding], row: Any) -> bool:
    return known[row.run_key].has_ended(row.task_id, row.map_index)


def _doomed(row: Any) -> Doomed:
    return Doomed(
        table_id=row.table_id,
        table=name_from(row),
        producer=producer_from(row),
        rows=row.rows,
        location=row.location,
        run_key=row.run_key,
        attempt_id=row.attempt_id,
        drops=row.attempt_count,
        handed_on=row.ready_at is not None,
    )
