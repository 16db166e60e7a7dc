"""The DAG runs that the collector has to check: which are due, what to query Airflow for, and when to check again.

    runs = due.take(limit=100)
    states = run_states.read(due.queries(runs))
    ...
    due.checked(runs, states)

The invariants: a run is put to sleep or deleted only if no process has written about it since it was taken; a run that is taken
is due again by itself when its collector dies; and every statement is about a set of runs, found by an index.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.collection.collector_store import KEPT, KEYS, LATE_READER, LATE_WRITER, LIMIT, NOW, keys_of
from airflow_snowpack.interim.collection.model import DueRun, RunQuery, States
from airflow_snowpack.interim.model import InterimPolicy
from airflow_snowpack.interim.rows import PIN, REF, RUN, TABLE, moment, nudge
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.interim import interim_runs

DUE = (
    sa.select(RUN.run_key, RUN.dag_id, RUN.run_id, RUN.looks, RUN.touches)
    .where(RUN.check_at <= NOW)
    .order_by(RUN.check_at)
    .limit(LIMIT)
)
TAKE = sa.update(interim_runs).where(RUN.run_key.in_(KEYS)).values(check_at=moment("b_until"))
QUERIED = sa.union(
    sa.select(PIN.run_key, PIN.task_id).where(PIN.run_key.in_(KEYS)),
    sa.select(REF.run_key, REF.task_id).where(REF.run_key.in_(KEYS), LATE_READER),
    sa.select(TABLE.run_key, TABLE.task_id).where(TABLE.run_key.in_(KEYS), LATE_WRITER),
)
LEFT = (
    sa.select(
        TABLE.run_key,
        sa.func.count().label("tables"),
        sa.func.sum(sa.case((KEPT, 0), else_=1)).label("unkept"),
        sa.func.min(TABLE.expires_at).label("expires_at"),
    )
    .where(TABLE.run_key.in_(KEYS))
    .group_by(TABLE.run_key)
)
IN_USE = sa.union(
    sa.select(PIN.run_key).where(PIN.run_key.in_(KEYS)),
    sa.select(REF.run_key).where(REF.run_key.in_(KEYS)),
)
# Only if no process has written about the run since it was taken; otherwise it is due again soon enough.
SAME = sa.and_(RUN.run_key == sa.bindparam("b_key"), RUN.touches == sa.bindparam("b_touches"))
FORGET = sa.delete(interim_runs).where(SAME)
LATER = sa.update(interim_runs).where(SAME).values(check_at=moment("b_check"), checked_at=NOW, looks=sa.bindparam("b_looks"))


class DueRuns:
    """Finds the runs that are due, and sets when they are due again."""

    def __init__(self, store: Store, policy: InterimPolicy) -> None:
        self._store = store
        self._policy = policy

    def take(self, limit: int) -> list[DueRun]:
        """Take the runs that are due, the longest waiting first; other collectors do not get them meanwhile."""
        now = self._store.clock()
        until = now + self._policy.drop_lease

        def take(conn: sa.Connection) -> list[DueRun]:
            rows = conn.execute(DUE.with_for_update(skip_locked=True), {"b_now": now, "b_limit": limit}).all()
            if rows:
                conn.execute(TAKE, {"b_keys": [row.run_key for row in rows], "b_until": until})
            return [DueRun(*row) for row in rows]

        return self._store.transact(take)

    def peek(self, limit: int) -> list[DueRun]:
        """Return the runs that are due without taking them."""
        rows: Sequence[Any] = self._store.all(DUE, {"b_now": self._store.clock(), "b_limit": limit})
        return [DueRun(*row) for row in rows]

    def queries(self, runs: Sequence[DueRun]) -> list[RunQuery]:
        """Return what Airflow has to be queried for: the tasks of these runs that tables wait for."""
        tasks: dict[str, set[str]] = {run.run_key: set() for run in runs}
        for row in self._store.all(QUERIED, keys_of(runs) | {"b_now": self._store.clock()}):
            tasks[row.run_key].add(row.task_id)
        return [RunQuery(run.dag_id, run.run_id, frozenset(tasks[run.run_key])) for run in runs]

    def wake(self, run_keys: Collection[str]) -> None:
        """Make runs due whose tables were dropped: they may have nothing left."""
        now = self._store.clock()
        self._store.transact(lambda conn: nudge(conn, *run_keys, look_at=now))

    def checked(self, runs: Sequence[DueRun], states: States, *, changed: Collection[str] = ()) -> tuple[int, datetime | None]:
        """Set when each run is due again, and delete those with nothing left.

        :param changed: the runs in which something was dropped, by ``run_key``: they are due again soon.
        :returns: how many tables stay, and when the first run is due again.
        """
        now, values = self._store.clock(), keys_of(runs)

        def write(conn: sa.Connection) -> tuple[int, datetime | None]:
            left = {row.run_key: row for row in conn.execute(LEFT, values | {"b_now": now})}
            in_use = set(conn.execute(IN_USE, values).scalars())
            forget: list[dict[str, Any]] = []
            later: list[dict[str, Any]] = []
            for run in runs:
                state, row = states.get((run.dag_id, run.run_id)), left.get(run.run_key)
                idle = state is not None and not state.is_active and run.run_key not in in_use
                same = {"b_key": run.run_key, "b_touches": run.touches}
                if idle and row is None:
                    forget.append(same)
                    continue
                looks = 0 if run.run_key in changed else run.looks + 1
                asleep = idle and row is not None and not row.unkept  # nothing but preserved or named tables is left
                check_at = row.expires_at if asleep and row is not None else now + self._pause(looks)
                later.append(same | {"b_check": check_at, "b_looks": looks, "b_now": now})
            if forget:
                conn.execute(FORGET, forget)
            if later:
                conn.execute(LATER, later)
            next_checks: list[datetime] = [each["b_check"] for each in later if each["b_check"] is not None]
            return sum(row.tables for row in left.values()), min(next_checks, default=None)

        return self._store.transact(write)

    def _pause(self, looks: int) -> timedelta:
        doubled: timedelta = self._policy.first_look * 2 ** min(max(0, looks - 1), 16)
        return min(doubled, self._policy.longest_look)
