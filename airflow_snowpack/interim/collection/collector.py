"""The collector: the only process that drops interim tables, once no task needs them.

    collector = Collector(registry, run_states, open_catalog)
    collector.run(dry_run=True).dropped      # the tables that it would drop
    collector.run()

A pass finishes what earlier passes left, then checks the DAG runs that are due: it queries Airflow for their consumers, deletes
the pins of those that have finished for good, and drops the tables that no task needs. Invariants: **a table that a task needs is
never dropped**, because it is marked for dropping under a lock that its readers take, too. Nothing is forgotten: a failed drop,
and a pass killed anywhere, leave a row that the next pass finds. A run is put to sleep or deleted only if no process has written
about it since it was taken. Any number of passes may run concurrently.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.interim.collection.collector_store import (
    KEPT,
    KEYS,
    LATE_READER,
    LATE_WRITER,
    LIMIT,
    NOW,
    CollectorStore,
    keys_of,
)
from airflow_snowpack.interim.collection.dropping import Dropper, OpenCatalog
from airflow_snowpack.interim.collection.model import Collected, DueRun, NotDropped, RunQuery, RunStates, States, TableToDrop
from airflow_snowpack.interim.model import InterimPolicy
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.interim.rows import PIN, REF, RUN, TABLE, moment, nudge
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store import Actor, Store, write_audit
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.store.tables.interim import interim_runs

log = logging.getLogger(__name__)

RUNS_PER_BATCH = 100
DROPS_PER_BATCH = 100
AUDIT_SUBJECT = "interim"
"""The audit trail's name for a pass over all tables."""

DUE_RUNS = sa.select(RUN.run_key, RUN.dag_id, RUN.run_id, RUN.looks, RUN.touches).where(RUN.check_at <= NOW)
DUE = DUE_RUNS.order_by(RUN.check_at).limit(LIMIT)
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
IN_USE = sa.union(*(sa.select(column.run_key).where(column.run_key.in_(KEYS)) for column in (PIN, REF)))
# Only if no process has written about the run since it was taken; otherwise it is due again soon enough.
SAME = sa.and_(RUN.run_key == sa.bindparam("b_key"), RUN.touches == sa.bindparam("b_touches"))
FORGET = sa.delete(interim_runs).where(SAME)
LATER = sa.update(interim_runs).where(SAME).values(check_at=moment("b_check"), checked_at=NOW, looks=sa.bindparam("b_looks"))


class Collector:
    """Drops the tables that no task needs.

    :param run_states: queries Airflow for runs and tasks.
    :param open_catalog: opens a catalog by this installation's name for it.
    :param holder: the collector's name in the store, for people; ``None``: this process.
    :param sign: the sign of life to report at the end and before each drop; ``None`` to report none.
    """

    def __init__(
        self,
        registry: InterimRegistry,
        run_states: RunStates,
        open_catalog: OpenCatalog,
        *,
        holder: str | None = None,
        sign: SignOfLife | None = None,
    ) -> None:
        self._run_states = run_states
        self._open_catalog = open_catalog
        holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self._store = registry.store
        self._sign = sign
        self._renew_after = registry.policy.drop_lease / 3
        self._due = DueRuns(registry.store, registry.policy)
        self._collector_store = CollectorStore(registry.store, registry.policy, holder=holder, make_id=registry.make_id)

    def run(self, *, dry_run: bool = False, limit: int | None = None, actor: Actor | None = None) -> Collected:
        """Make one pass over everything that is due now.

        :param dry_run: write and drop nothing; ``dropped`` is what a pass would drop.
        :param limit: the maximum number of drops to start; the next pass continues.
        :param actor: the user who requested the pass, for the audit trail; the entry is written before the first drop.
        :raises SnowpackError: Airflow does not answer. What needs no answer was done; the rest is retried soon.
        """
        if dry_run:
            return self._preview(limit)
        if actor is not None:
            self._store.transact(lambda conn: write_audit(conn, self._store, actor, "collect_interim", AUDIT_SUBJECT))
        dropper = Dropper(self._open_catalog, self._collector_store)
        collected = self._finish_left(dropper, limit)
        while _drops_left(collected, limit) and (runs := self._due.take(RUNS_PER_BATCH)):
            collected += self._check(runs, dropper, None if limit is None else limit - collected.drops)
        self._beat()
        return collected

    def _preview(self, limit: int | None) -> Collected:
        runs = self._due.peek(RUNS_PER_BATCH * 10)
        states = self._run_states.read(self._due.queries(runs)) if runs else {}
        found = self._collector_store.preview(runs, states, RUNS_PER_BATCH * 100)
        return Collected(runs=len(runs), dropped=tuple(found[:limit]))

    def _finish_left(self, dropper: Dropper, limit: int | None) -> Collected:
        """Retry drops that failed, or whose collector is dead."""
        collected = Collected()
        while room := _drops_left(collected, limit):
            left = self._collector_store.take(room)
            if not left:
                break
            dropped = self._drop(left, dropper)
            self._due.wake(dropped.changed_runs)
            collected += dropped
        return collected

    def _check(self, runs: Sequence[DueRun], dropper: Dropper, limit: int | None) -> Collected:
        try:
            states = self._read_states(runs)
        except SnowpackError:
            self._due.checked(runs, {})
            raise
        room = _drops_left(Collected(), limit)
        tables = self._collector_store.settle(runs, states, room)
        collected = self._drop(tables, dropper)
        while len(tables) == room and (room := _drops_left(collected, limit)):
            tables = self._collector_store.take(room, runs)
            collected += self._drop(tables, dropper)
        kept, again = self._due.checked(runs, states, changed=collected.changed_runs)
        return collected + Collected(runs=len(runs), kept=kept, next_check_at=again)

    def _read_states(self, runs: Sequence[DueRun]) -> States:
        """Query Airflow, twice for runs where a consumer seems to have finished; the second answer counts."""
        states = dict(self._run_states.read(self._due.queries(runs)))
        if seem_finished := self._collector_store.mark(runs, states):
            second = self._run_states.read(self._due.queries(seem_finished))
            for run in seem_finished:
                states.pop((run.dag_id, run.run_id), None)
            states |= second
        return states

    def _drop(self, tables: Sequence[TableToDrop], dropper: Dropper) -> Collected:
        dropped, failed, missing, problem = [], [], [], Recurring(log)
        for table in self._still_leased(tables):
            try:
                why_not = dropper.drop(table)
            except Exception as error:  # noqa: BLE001 - whatever a storage raises: the row stays, and the others go on
                problem.failed(error, "interim_drop_failed: %s, made by %s", table.table, table.producer)
                self._collector_store.failed(table, str(error))
                failed.append(NotDropped(table, str(error)))
            else:
                self._collector_store.dropped(table)
                if why_not is None:
                    log.info("interim_dropped: %s, made by %s", table.table, table.producer)
                    dropped.append(table)
                else:
                    log.warning("interim_not_found: %s, made by %s: %s", table.table, table.producer, why_not)
                    missing.append(NotDropped(table, why_not))
        return Collected(dropped=tuple(dropped), failed=tuple(failed), missing=tuple(missing))

    def _still_leased(self, tables: Sequence[TableToDrop]) -> Iterator[TableToDrop]:
        """Yield each table whose lease this collector still holds; before it expires, renew the lease of all remaining tables."""
        renewed_at, leased = self._store.clock(), {each.table_id for each in tables}
        for place, table in enumerate(tables):
            self._beat()
            if self._store.clock() - renewed_at >= self._renew_after:
                renewed_at, leased = self._store.clock(), self._collector_store.renew(tables[place:])
            if table.table_id in leased:
                yield table
            else:
                log.warning("fence_moved: another collector drops %s", table.table)

    def _beat(self) -> None:
        if self._sign is not None:
            self._sign.beat()


def _drops_left(collected: Collected, limit: int | None) -> int:
    """Return how many drops the next step may start."""
    return DROPS_PER_BATCH if limit is None else max(0, min(DROPS_PER_BATCH, limit - collected.drops))


class DueRuns:
    """Finds the runs that are due, and sets when they are due again."""

    def __init__(self, store: Store, policy: InterimPolicy) -> None:
        self._store = store
        self._policy = policy

    def take(self, limit: int) -> list[DueRun]:
        """Take the runs that are due, longest waiting first; other collectors do not get them meanwhile."""
        now = self._store.clock()

        def take(conn: sa.Connection) -> list[DueRun]:
            rows = conn.execute(DUE.with_for_update(skip_locked=True), {"b_now": now, "b_limit": limit}).all()
            if rows:
                until = now + self._policy.drop_lease
                conn.execute(TAKE, {"b_keys": [row.run_key for row in rows], "b_until": until})
            return [DueRun(*row) for row in rows]

        return self._store.transact(take)

    def peek(self, limit: int) -> list[DueRun]:
        rows: Sequence[Any] = self._store.all(DUE, {"b_now": self._store.clock(), "b_limit": limit})
        return [DueRun(*row) for row in rows]

    def queries(self, runs: Sequence[DueRun]) -> list[RunQuery]:
        """Return what to query Airflow for: the tasks of these runs that tables wait for."""
        tasks: dict[str, set[str]] = {run.run_key: set() for run in runs}
        for row in self._store.all(QUERIED, keys_of(runs) | {"b_now": self._store.clock()}):
            tasks[row.run_key].add(row.task_id)
        return [RunQuery(run.dag_id, run.run_id, frozenset(tasks[run.run_key])) for run in runs]

    def wake(self, run_keys: Collection[str]) -> None:
        """Make runs due whose tables were dropped: they may have nothing left."""
        self._store.transact(lambda conn: nudge(conn, *run_keys, look_at=self._store.clock()))

    def checked(self, runs: Sequence[DueRun], states: States, *, changed: Collection[str] = ()) -> tuple[int, datetime | None]:
        """Set when each run is due again, and delete those with nothing left.

        :param changed: the keys of runs in which something was dropped; these are due again soon.
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
                check_at = now + backoff(self._policy.first_look, looks - 1, self._policy.longest_look)
                if idle and row is not None and not row.unkept:  # asleep: only preserved or named tables are left
                    check_at = row.expires_at
                later.append(same | {"b_check": check_at, "b_looks": looks, "b_now": now})
            if forget:
                conn.execute(FORGET, forget)
            if later:
                conn.execute(LATER, later)
            next_checks: list[datetime] = [each["b_check"] for each in later if each["b_check"] is not None]
            return sum(row.tables for row in left.values()), min(next_checks, default=None)

        return self._store.transact(write)
