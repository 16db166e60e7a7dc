"""The queues of runs that wait for the same wait key: pending runs of schedules, and runs at a gate inside their DAG.

    wake_next(conn, ["group:compaction"], now)      # a place has become free
    fronts.enter(row, "group:compaction")           # whether to evaluate a pending run periodically, even if nothing wakes it
    elder_due(conn, row, keys, now)                 # whether another pending run must be evaluated first
    gate_is_due(store, place, recheck)              # whether to evaluate a run at its gate

An evaluation costs a request to Airflow and a transaction, for a gate even a process, and thousands of runs may wait for one
place. The invariant: **as many are woken as there are places, by priority and then in order of arrival**, and the first pending
run of the queue in any case. A pending run takes no place while an earlier one for the same key is due. Leaving wakes the next.

Any scheduler evaluates a woken pending run. A run at a gate is evaluated by its own task, without a scheduler. Because a task may
die while it waits, nothing waits for a gate: a gate that was not seen for :data:`GONE` is not in the queue, and the first of the
remaining gates is due again after its recheck interval.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key, usable_constraint
from airflow_snowpack.scheduling.launches.active_runs import runs_that_count
from airflow_snowpack.scheduling.pending_runs.gated_runs import AT_GATE, GATE_KEY, GatePlace, GateState
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import gated_runs, pending_jobs, schedules

FRONT_SIZE = 10
"""How many pending runs at the front of a queue are evaluated as often as if they waited alone."""
FALLBACK_CHECK_INTERVAL = timedelta(minutes=5)
"""How soon a pending run behind the front is evaluated if nothing wakes it."""
WAKE_LIMIT = 20
"""How many runs of a queue are woken together at most; each run that leaves it wakes more."""
QUEUE_DEPTH = 100
"""How many runs of a queue are read to find those that fit the free places, because some allow fewer active runs than others."""
BEAT = timedelta(seconds=30)
"""How often a run at a gate is marked as seen."""
GONE = 5 * BEAT
"""A run at a gate that was not seen for this long has left the queue: its task has died."""

QueuePlace = tuple[int, datetime, str]
IN_ORDER = (pending_jobs.c.priority.desc(), pending_jobs.c.created_at, pending_jobs.c.pending_id)


class Fronts:
    """The fronts of several queues, updated while a batch of pending runs is evaluated.

    They include what the transaction has not written yet, so that each run is queued behind those before it.
    """

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        self._known: dict[str, list[QueuePlace]] = {}

    def read(self, keys: Iterable[str]) -> None:
        """Read the fronts of these queues that are not known yet, in one statement."""
        new = sorted(set(keys) - self._known.keys())
        if not new:
            return
        self._known |= {key: [] for key in new}
        columns = [pending_jobs.c[name] for name in ("waits_for", "priority", "created_at", "pending_id")]
        place = sa.func.row_number().over(partition_by=pending_jobs.c.waits_for, order_by=IN_ORDER)
        ranked = sa.select(*columns, place.label("place"))
        ranked_rows = ranked.where(pending_jobs.c.waits_for.in_(new), is_open).subquery()
        for row in self._conn.execute(sa.select(ranked_rows).where(ranked_rows.c.place <= QUEUE_DEPTH)):
            self._known[row.waits_for].append(_place(row))
        for line in self._known.values():
            line.sort()

    def enter(self, row: sa.Row[Any], key: str) -> bool:
        """Enter a pending run in the queue; return whether fewer than :data:`FRONT_SIZE` are ahead of it."""
        line, place = self._known[key], _place(row)
        at = bisect_left(line, place)
        if at < QUEUE_DEPTH and (at == len(line) or line[at] != place):
            line.insert(at, place)
        return at < FRONT_SIZE

    def leave(self, row: sa.Row[Any], key: str) -> None:
        if _place(row) in (line := self._known.get(key, [])):
            line.remove(_place(row))


def _place(row: sa.Row[Any]) -> QueuePlace:
    return -row.priority, row.created_at, row.pending_id


def elder_due(conn: sa.Connection, row: sa.Row[Any], keys: Collection[str], now: datetime) -> str | None:
    """Return the key, of those that its constraints count, of a queue with a due pending run ahead of this one, or ``None``."""
    before = sa.or_(pending_jobs.c.priority > row.priority, pending_jobs.c.created_at < row.created_at)
    query = sa.select(pending_jobs.c.waits_for).where(pending_jobs.c.waits_for.in_(sorted(keys)), is_open)
    query = query.where(pending_jobs.c.priority >= row.priority, before, pending_jobs.c.next_check_at <= now).limit(1)
    key: str | None = conn.execute(query).scalar() if keys else None
    return key


def wake_next(
    conn: sa.Connection, keys: Iterable[str], now: datetime, *, ended: tuple[str, str] | None = None, skip_locked: bool = False
) -> None:
    """Make the next runs in these queues due: as many as there are places according to the store, and the first in any case.

    :param ended: the DAG and id of a run that has ended, and takes no place.
    :param skip_locked: skip pending runs that another transaction has locked, for a transaction that has locked others.
    """
    woken = [row for key in sorted(keys) for row in _next_in_queue(conn, key, now, ended)]
    _wake_pending(conn, {row.pending_id for row in woken if row.pending_id is not None}, now, skip_locked=skip_locked)
    _wake_gates(conn, {(row.dag_id, row.run_id, row.task) for row in woken if row.pending_id is None}, now)


def _wake_pending(conn: sa.Connection, pending_ids: Collection[str], now: datetime, *, skip_locked: bool) -> None:
    if not pending_ids:
        return
    # In the same order in every transaction, as the subscriber locks them too.
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)
    late = sa.or_(pending_jobs.c.next_check_at.is_(None), pending_jobs.c.next_check_at > now)
    query = sa.select(pending_jobs.c.pending_id).where(pending_jobs.c.pending_id.in_(sorted(pending_ids)), is_open, late)
    locked = conn.execute(query.order_by(*in_order).with_for_update(skip_locked=skip_locked)).scalars().all()
    if locked:
        conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id.in_(locked)).values(next_check_at=now))


def _wake_gates(conn: sa.Connection, places: Collection[tuple[str, str, str]], now: datetime) -> None:
    """Wake gates without waiting for their rows: an evaluation that has locked one may wait for a lock of this transaction."""
    if not places:
        return
    row = sa.tuple_(*GATE_KEY)
    sleeping = sa.select(*GATE_KEY).where(row.in_(sorted(places)), *AT_GATE, gated_runs.c.not_before.is_(None))
    locked = [tuple(found) for found in conn.execute(sleeping.with_for_update(skip_locked=True))]
    if locked:
        conn.execute(sa.update(gated_runs).where(row.in_(locked)).values(not_before=now))


def _next_in_queue(conn: sa.Connection, key: str, now: datetime, ended: tuple[str, str] | None) -> list[sa.Row[Any]]:
    counts_runs = key.startswith((dag_wait_key(""), group_wait_key("")))
    active: dict[str | None, frozenset[tuple[str, str]]] = {}
    woken: list[sa.Row[Any]] = []
    taken = 0
    queue = [row for row in _queue(conn, key, now) if (row.dag_id, row.run_id) != ended]
    for place, row in enumerate(queue):
        gate_of = None if row.pending_id is not None else row.dag_id
        if counts_runs and gate_of not in active:
            active[gate_of] = runs_that_count(conn, key, at_gate_of=gate_of)
        # A pool or a load has room for one, according to the store.
        counted = active.get(gate_of, frozenset()) - {ended, (row.dag_id, row.run_id)}
        has_room = _limit(row, key) - len(counted) > taken
        taken += has_room  # even if already due: it must be evaluated before those behind it
        first = place == 0 and gate_of is None  # the first gate is due periodically anyway, which costs a process
        if (has_room or first) and (row.next_check_at is None or row.next_check_at > now):
            woken.append(row)
        if len(woken) == WAKE_LIMIT:
            break
    return woken


def _queue(conn: sa.Connection, key: str, now: datetime) -> list[sa.Row[Any]]:
    """Return what waits for the key, in order; ``pending_id`` is null for a run at a gate."""
    columns = [pending_jobs.c[name] for name in ("pending_id", "schedule", "dag_id", "priority", "created_at", "next_check_at")]
    pending = (
        sa.select(*columns).where(pending_jobs.c.waits_for == key, is_open).order_by(*IN_ORDER).limit(QUEUE_DEPTH).subquery()
    )
    declared = sa.select(schedules.c.definition["constraints"]).where(schedules.c.name == pending.c.schedule).scalar_subquery()
    nothing = sa.null().cast(sa.Text)
    its_run = (pending.c.pending_id, pending.c.dag_id, nothing.label("run_id"), nothing.label("task"))
    its_place = (pending.c.priority, pending.c.created_at, pending.c.next_check_at)
    of_schedules = sa.select(*its_run, *its_place, declared.label("constraints"))
    alive = gated_runs.c.seen_at > now - GONE
    names = ("dag_id", "run_id", "task", "priority", "arrived_at", "not_before", "constraints")
    waiting = sa.select(*(gated_runs.c[name] for name in names)).where(gated_runs.c.waits_for == key, *AT_GATE, alive)
    gates = waiting.order_by(gated_runs.c.priority.desc(), gated_runs.c.arrived_at, *GATE_KEY).limit(QUEUE_DEPTH).subquery()
    at_gates = sa.select(nothing, *(gates.c[name] for name in names))
    found = conn.execute(sa.union_all(of_schedules, at_gates)).all()
    in_order = sorted(found, key=lambda row: (-row.priority, row.created_at, row.pending_id or row.run_id, row.task or ""))
    return in_order[:QUEUE_DEPTH]


def _limit(row: sa.Row[Any], key: str) -> int:
    """Return with how many active runs this one may run; 1 if no constraint sets a limit."""
    limits = []
    for declared in row.constraints if isinstance(row.constraints, list) else ():
        one = usable_constraint(declared, row.dag_id)
        if one is not None and one.max_active is not None and one.wait_key(row.dag_id) == key:
            limits.append(one.max_active)
    return min(limits, default=1)


def gate_is_due(store: Store, place: GatePlace, recheck: timedelta) -> bool:
    """Return whether to evaluate a run at its gate, and mark it as seen; the first in a queue is due at each ``recheck``."""

    def read(conn: sa.Connection) -> bool:
        now = store.clock()
        row = conn.execute(sa.select(gated_runs).where(place.row)).first()
        if row is None or row.state != GateState.WAITING or row.ended_at is not None:
            return True  # whatever has happened, it is not waiting
        if now - row.seen_at >= BEAT:
            conn.execute(sa.update(gated_runs).where(place.row).values(seen_at=now))
        if row.not_before is not None and now < row.not_before:
            return False
        if row.not_before is not None and row.evaluated_at <= row.not_before:
            return True
        if now < row.evaluated_at + recheck:
            return False
        # A woken or due run that could not be evaluated need not be the first of the queue.
        return row.not_before is not None or conn.execute(_ahead_at_gate(row, now)).first() is None

    return store.read(read)


def _ahead_at_gate(row: sa.Row[Any], now: datetime) -> sa.Select[Any]:
    """Select a run at a gate that is ahead of this one and waits for the same."""
    columns = (gated_runs.c.arrived_at, *GATE_KEY)
    came_before = sa.tuple_(*columns) < sa.tuple_(*(sa.literal(getattr(row, each.name), each.type) for each in columns))
    more_urgent = gated_runs.c.priority > row.priority
    before = sa.or_(more_urgent, sa.and_(gated_runs.c.priority == row.priority, came_before))
    same = gated_runs.c.waits_for == row.waits_for
    if row.waits_for is None:  # it waits for an answer from Airflow; others without a key wait for a time
        same = sa.and_(same, gated_runs.c.not_before.is_(None))
    return sa.select(gated_runs.c.run_id).where(same, before, *AT_GATE, gated_runs.c.seen_at > now - GONE).limit(1)
