"""The DAG runs that the collector is to look at: which are due, what to ask Airflow about them, and when to look again.

    runs = due.take(limit=100)
    standings = run_states.standings(due.asked(runs))
    ...
    due.looked_at(runs, standings)

The invariants: a run is put to sleep or forgotten only if nobody has touched it since it was taken; one that is taken comes back
by itself when its collector dies; and every statement is about a set of runs, found by an index.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.collection.collector_store import KEPT, KEYS, LATE_READER, LATE_WRITER, NOW, Standings, keys_of
from airflow_snowpack.interim.collection.model import DueRun, RunAsked
from airflow_snowpack.interim.model import InterimPolicy
from airflow_snowpack.interim.rows import PIN, REF, RUN, TABLE, moment, nudge
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.interim import interim_runs

DUE = (
    sa.select(RUN.run_key, RUN.dag_id, RUN.run_id, RUN.looks, RUN.touches)
    .where(RUN.check_at <= NOW)
    .order_by(RUN.check_at)
    .limit(sa.bindparam("b_limit", type_=sa.Integer))
)
TAKE = sa.update(interim_runs).where(RUN.run_key.in_(KEYS)).values(check_at=moment("b_until"))
ASKED = sa.union(
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
# Only what nobody has touched since it was taken; otherwise it is due again soon enough.
SAME = sa.and_(RUN.run_key == sa.bindparam("b_key"), RUN.touches == sa.bindparam("b_touches"))
FORGET = sa.delete(interim_runs).where(SAME)
LATER = sa.update(interim_runs).where(SAME).values(check_at=moment("b_check"), checked_at=NOW, looks=sa.bindparam("b_looks"))


class DueRuns:
    """Finds the runs that are due, and says when they are due again."""

    def __init__(self, store: Store, policy: InterimPolicy) -> None:
        self._store = store
        self._policy = policy

    def take(self, limit: int) -> list[DueRun]:
        """The runs whose time has come, the longest waiting first; others that collect do not get them meanwhile."""
        now = self._store.clock()
        until = now + self._policy.drop_lease

        def take(conn: sa.Connection) -> list[DueRun]:
            rows = conn.execute(DUE.with_for_update(skip_locked=True), {"b_now": now, "b_limit": limit}).all()
            if rows:
                conn.execute(TAKE, {"b_keys": [row.run_key for row in rows], "b_until": until})
            return [DueRun(*row) for row in rows]

        return self._store.transact(take)

    def see(self, limit: int) -> list[DueRun]:
        """The same, without taking them."""
        now = self._store.clock()
        return self._store.read(lambda conn: [DueRun(*row) for row in conn.execute(DUE, {"b_now": now, "b_limit": limit})])

    def asked(self, runs: Sequence[DueRun]) -> list[RunAsked]:
        """What Airflow has to be asked about these runs."""
        values = keys_of(runs) | {"b_now": self._store.clock()}
        tasks: dict[str, set[str]] = {run.run_key: set() for run in runs}
        for row in self._store.read(lambda conn: conn.execute(ASKED, values).all()):
            tasks[row.run_key].add(row.task_id)
        return [RunAsked(run.dag_id, run.run_id, frozenset(tasks[run.run_key])) for run in runs]

    def wake(self, run_keys: Collection[str]) -> None:
        """Something went in these runs: they may have nothing left."""
        now = self._store.clock()
        self._store.transact(lambda conn: nudge(conn, *run_keys, look_at=now))

    def looked_at(
        self, runs: Sequence[DueRun], standings: Standings, *, changed: Collection[str] = ()
    ) -> tuple[int, datetime | None]:
        """Put each run to sleep for as long as it makes sense, or away; how many tables stay, and when the first is due again.

        :param changed: the runs in which something went, by ``run_key``: they are looked at again soon.
        """
        now, values = self._store.clock(), keys_of(runs)

        def write(conn: sa.Connection) -> tuple[int, datetime | None]:
            left = {row.run_key: row for row in conn.execute(LEFT, values | {"b_now": now})}
            in_use = set(conn.execute(IN_USE, values).scalars())
            forget: list[dict[str, Any]] = []
            later: list[dict[str, Any]] = []
            for run in runs:
                standing = standings.get((run.dag_id, run.run_id))
                over = standing is not None and not standing.is_active
                same = {"b_key": run.run_key, "b_touches": run.touches}
                row = left.get(run.run_key)
                if over and row is None and run.run_key not in in_use:
                    forget.append(same)
                    continue
                asleep = over and row is not None and not row.unkept and run.run_key not in in_use
                looks = 0 if run.run_key in changed else run.looks + 1
                check_at = row.expires_at if asleep and row is not None else now + self._pause(looks)
                later.append(same | {"b_check": check_at, "b_looks": looks, "b_now": now})
            if forget:
                conn.execute(FORGET, forget)
            if later:
                conn.execute(LATER, later)
            next_looks: list[datetime] = [each["b_check"] for each in later if each["b_check"] is not None]
            return sum(row.tables for row in left.values()), min(next_looks, default=None)

        return self._store.transact(write)

    def _pause(self, looks: int) -> timedelta:
        doubled: timedelta = self._policy.first_look * 2 ** min(max(0, looks - 1), 16)
        return min(doubled, self._policy.longest_look)
