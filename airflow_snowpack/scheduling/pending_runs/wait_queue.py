"""The lines of pending jobs that wait for the same: who is looked at when a place becomes free, and how often meanwhile.

    wake(conn, next_in_line(conn, ["group:compaction"], now), now)     # a place has become free
    fronts.has(row, "group:compaction")                                # whether to look at it every now and then
    elder_due(conn, row, keys, now)                                    # whether others are to be looked at before it

A look costs a question to Airflow and a transaction, and thousands may wait for one place. The invariant: **as many are woken as
there are places, those who came first, and the first of the line in any case**; and nobody takes a place while one is due who
came before it and waits for the same. Whoever leaves a line, for whatever reason, wakes the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import CONSTRAINTS, dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.launches.active_runs import runs_that_count
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.store.schedule_tables import pending_jobs, schedules

FRONT = 10
"""So many of a line are looked at as often as if they waited alone."""
SELDOM = timedelta(minutes=5)
"""How soon one further back is looked at when nobody wakes it, which is what it relies on."""
AT_ONCE = 20
"""So many of a line are woken together at most; each that leaves it wakes more."""
AS_FAR = 100
"""So far into a line it is looked for those who can use the places, where some allow for fewer runs than others."""

Place = tuple[int, datetime, str]
IN_LINE = (pending_jobs.c.priority.desc(), pending_jobs.c.created_at, pending_jobs.c.pending_id)


class Fronts:
    """The fronts of several lines, as they change while a batch of jobs is evaluated.

    What a transaction has not written yet is entered here, so that each job meets the line as it is behind those before it.
    """

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        self._known: dict[str, list[Place]] = {}

    def read(self, keys: Iterable[str]) -> None:
        """Read the fronts of these lines that are not known yet, in one statement."""
        new = sorted(set(keys) - self._known.keys())
        if not new:
            return
        self._known |= {key: [] for key in new}
        columns = [pending_jobs.c[name] for name in ("waits_for", "priority", "created_at", "pending_id")]
        place = sa.func.row_number().over(partition_by=pending_jobs.c.waits_for, order_by=IN_LINE)
        ranked = sa.select(*columns, place.label("place"))
        ranked_rows = ranked.where(pending_jobs.c.waits_for.in_(new), is_open).subquery()
        for row in self._conn.execute(sa.select(ranked_rows).where(ranked_rows.c.place <= AS_FAR)):
            self._known[row.waits_for].append(_place(row))
        for line in self._known.values():
            line.sort()

    def has(self, row: sa.Row[Any], key: str) -> bool:
        """Whether fewer than :data:`FRONT` are before it in the line.

        :param row: of the pending job.
        """
        return bisect_left(self._known[key], _place(row)) < FRONT

    def enter(self, row: sa.Row[Any], key: str) -> None:
        """It waits in the line from now on."""
        line, place = self._known[key], _place(row)
        at = bisect_left(line, place)
        if at < AS_FAR and (at == len(line) or line[at] != place):
            line.insert(at, place)

    def leave(self, row: sa.Row[Any], key: str) -> None:
        """It waits in the line no more."""
        if _place(row) in (line := self._known.get(key, [])):
            line.remove(_place(row))


def _place(row: sa.Row[Any]) -> Place:
    return -row.priority, row.created_at, row.pending_id


def elder_due(conn: sa.Connection, row: sa.Row[Any], keys: Collection[str], now: datetime) -> str | None:
    """What somebody waits for who is due and before it in line; ``None`` when nobody is.

    :param keys: what its own constraints count.
    """
    before = sa.or_(pending_jobs.c.priority > row.priority, pending_jobs.c.created_at < row.created_at)
    query = sa.select(pending_jobs.c.waits_for).where(pending_jobs.c.waits_for.in_(sorted(keys)), is_open)
    query = query.where(pending_jobs.c.priority >= row.priority, before, pending_jobs.c.next_check_at <= now).limit(1)
    key: str | None = conn.execute(query).scalar() if keys else None
    return key


def next_in_line(
    conn: sa.Connection, keys: Iterable[str], now: datetime, *, but: tuple[str, str] | None = None
) -> frozenset[str]:
    """Those to wake: as many of each line as there are places, as far as the store knows, and the first in any case.

    :param but: the DAG and the id of a run that is over, and takes no place.
    """
    return frozenset(pending_id for key in keys for pending_id in _next(conn, key, now, but))


def wake(conn: sa.Connection, pending_ids: Collection[str], now: datetime, *, skip_locked: bool = False) -> None:
    """Have them looked at now.

    :param skip_locked: leave out those whom somebody else has in hand, instead of waiting; for a caller who holds others.
    """
    if not pending_ids:
        return
    # In one order for everybody, as the subscriber locks them too.
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)
    late = sa.or_(pending_jobs.c.next_check_at.is_(None), pending_jobs.c.next_check_at > now)
    query = sa.select(pending_jobs.c.pending_id).where(pending_jobs.c.pending_id.in_(sorted(pending_ids)), is_open, late)
    held = conn.execute(query.order_by(*in_order).with_for_update(skip_locked=skip_locked)).scalars().all()
    if held:
        conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id.in_(held)).values(next_check_at=now))


def _next(conn: sa.Connection, key: str, now: datetime, but: tuple[str, str] | None) -> list[str]:
    line = _line(conn, key)
    # A pool, or a load, has room for one as far as the store knows.
    active = len(runs_that_count(conn, key) - {but}) if line and key.startswith((dag_wait_key(""), group_wait_key(""))) else 0
    woken: list[str] = []
    taken = 0
    for place, row in enumerate(line):
        has_room = _limit(row, key) - active > taken
        taken += has_room  # also by one that is due already: it is to be looked at before those behind it
        if (has_room or place == 0) and (row.next_check_at is None or row.next_check_at > now):
            woken.append(row.pending_id)
        if len(woken) == AT_ONCE:
            break
    return woken


def _line(conn: sa.Connection, key: str) -> list[sa.Row[Any]]:
    columns = [pending_jobs.c[name] for name in ("pending_id", "schedule", "dag_id", "priority", "created_at", "next_check_at")]
    first = sa.select(*columns).where(pending_jobs.c.waits_for == key, is_open).order_by(*IN_LINE).limit(AS_FAR).subquery()
    definition = sa.select(schedules.c.definition).where(schedules.c.name == first.c.schedule).scalar_subquery()
    query = sa.select(first, definition.label("definition"))
    return list(conn.execute(query.order_by(first.c.priority.desc(), first.c.created_at, first.c.pending_id)))


def _limit(row: sa.Row[Any], key: str) -> int:
    """How many may run at once for this one to be among them; one where nothing says."""
    declared = row.definition.get("constraints") if isinstance(row.definition, dict) else None
    limits = []
    for one in declared if isinstance(declared, list) else ():
        with suppress(InvalidSchedule):  # one of a newer version; its evaluation reports it
            constraint = CONSTRAINTS.parse(one)
            if constraint.max_active is not None and constraint.wait_key(row.dag_id) == key:
                limits.append(constraint.max_active)
    return min(limits, default=1)
