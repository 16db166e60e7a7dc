"""The line of runs that wait at gates for the same: who is to look next, told from the store alone.

    line = Line(store, place, constraints)
    if line.calls():                         # every few seconds, in a process that waits
        ...                                  # Gate.ask(), in a process that can ask Airflow

To look costs a process, and a hundred runs may wait for one place. The invariant: **when a place becomes free, as many are called
as there are places, those who came first**; and whoever is first is called now and then in any case, since not everything that
frees a place is told to the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import Snapshot
from airflow_snowpack.scheduling.constraints.constraint import RECHECK, Constraint
from airflow_snowpack.scheduling.pending_runs.gate_facts import GateFacts
from airflow_snowpack.scheduling.pending_runs.gated_runs import GatePlace, GateState, is_active
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import gated_runs

BEAT = timedelta(seconds=30)
GONE = 5 * BEAT
"""Whoever has not been seen for so long does not stand in the line any more: its task is gone, and its run goes on without it."""


class Line:
    """One run's place in the line.

    :param recheck: how often the first in the line is called when nothing was told.
    """

    def __init__(
        self, store: Store, place: GatePlace, constraints: Sequence[Constraint], *, recheck: timedelta = RECHECK
    ) -> None:
        self._store = store
        self._place = place
        self._constraints = tuple(constraints)
        self._recheck = recheck
        self._had_room = True

    def calls(self) -> bool:
        """Whether it is time for a look."""
        return self._store.read(self._judge)

    def _judge(self, conn: sa.Connection) -> bool:
        now = self._store.clock()
        row = conn.execute(sa.select(gated_runs).where(self._place.row)).first()
        if row is None or row.state != GateState.WAITING or row.ended_at is not None:
            return True  # whatever has happened, it is not waiting
        if row.not_before is not None:
            return bool(now >= row.not_before)
        if now - row.seen_at >= BEAT:
            conn.execute(sa.update(gated_runs).where(self._place.row).values(seen_at=now))
        ahead = self._count_ahead(conn, row)
        has_room, had_room = self._count_room(conn, row.waits_for) > ahead, self._had_room
        self._had_room = has_room
        return (has_room and not had_room) or (ahead == 0 and bool(now >= row.looked_at + self._recheck))

    def _count_ahead(self, conn: sa.Connection, row: sa.Row[tuple[object, ...]]) -> int:
        """How many came before it and wait for the same."""
        place = sa.tuple_(gated_runs.c.arrived_at, gated_runs.c.dag_id, gated_runs.c.run_id, gated_runs.c.task)
        mine = sa.tuple_(*(sa.bindparam(None, getattr(row, name), gated_runs.c[name].type) for name in _PLACE))
        there = (gated_runs.c.waits_for == row.waits_for, gated_runs.c.state == GateState.WAITING.value, is_active)
        alive = gated_runs.c.seen_at > self._store.clock() - GONE
        return conn.execute(sa.select(sa.func.count()).where(*there, alive, place < mine)).scalar_one()

    def _count_room(self, conn: sa.Connection, key: str | None) -> int:
        """How many places there are, as far as the store knows; one where it knows nothing."""
        now, place = self._store.clock(), self._place
        facts = GateFacts(conn, Snapshot(), now, place.dag_id, place.task, 0, triggered_at=now, place=place)
        room = [1]
        for each in self._constraints:
            if each.max_active is not None and each.wait_key(place.dag_id) == key:
                groups = each.required_facts(place.dag_id).groups
                counts = [facts.active_runs_of_group(group) for group in groups] or [facts.active_runs(place.dag_id)]
                room.append(each.max_active - max(counts))
        return min(room[1:] or room)


_PLACE = ("arrived_at", "dag_id", "run_id", "task")
