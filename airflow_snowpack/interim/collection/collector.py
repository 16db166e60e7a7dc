"""The collector: the only process that drops interim tables, when no task needs them any more.

    collector = Collector(registry, run_states, open_catalog)
    collector.run(dry_run=True).dropped      # the tables that it would drop
    collector.run()

A pass finishes what earlier passes left, then checks the DAG runs that are due, queries Airflow for their consumers, deletes the
pins of those that have finished for good, and drops the tables that no task needs. The invariants: **a table that a task needs is
never dropped**, since it is marked for dropping under a lock that its readers take too; and nothing is forgotten: a drop that
fails, and a pass that is killed anywhere, leave a row that the next pass finds. Any number of passes may run at once.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.interim.collection.collector_store import CollectorStore
from airflow_snowpack.interim.collection.dropping import Dropper, OpenCatalog
from airflow_snowpack.interim.collection.due_runs import DueRuns
from airflow_snowpack.interim.collection.model import Collected, DueRun, NotDropped, RunStates, States, TableToDrop
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store import Actor, write_audit
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)

RUNS_PER_BATCH = 100
DROPS_PER_BATCH = 100
AUDIT_SUBJECT = "interim"
"""The audit trail's name for a pass over all tables."""


class Collector:
    """Drops the tables that no task needs.

    :param run_states: queries Airflow for its runs and tasks.
    :param open_catalog: opens a catalog by the name that this installation uses for it.
    :param holder: the collector's name in the store, for people; ``None``: this process.
    :param sign: its sign of life, reported at the end and before each drop; ``None``: it reports none.
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

        :param dry_run: write nothing and drop nothing; ``dropped`` is what a pass would drop.
        :param limit: start no more drops than this; the others are left to the next pass.
        :param actor: the user who requested the pass, for the audit trail; its entry is written before the first drop.
        :raises SnowpackError: Airflow does not answer. What needs no answer was done, and the rest is retried soon.
        """
        if dry_run:
            return self._preview(limit)
        if actor is not None:
            self._store.transact(lambda conn: write_audit(conn, self._store, actor, "collect_interim", AUDIT_SUBJECT))
        dropper = Dropper(self._open_catalog, self._collector_store)
        collected = self._finish_left(dropper, limit)
        while _room(collected, limit) and (runs := self._due.take(RUNS_PER_BATCH)):
            collected += self._check(runs, dropper, None if limit is None else limit - collected.drops)
        self._beat()
        return collected

    def _preview(self, limit: int | None) -> Collected:
        runs = self._due.peek(RUNS_PER_BATCH * 10)
        states = self._run_states.read(self._due.queries(runs)) if runs else {}
        found = self._collector_store.preview(runs, states, RUNS_PER_BATCH * 100)
        return Collected(runs=len(runs), dropped=tuple(found[:limit]))

    def _finish_left(self, dropper: Dropper, limit: int | None) -> Collected:
        """Retry the drops that failed, or whose collector is dead."""
        collected = Collected()
        while room := _room(collected, limit):
            left = self._collector_store.take_left(room)
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
        room = _room(Collected(), limit)
        tables = self._collector_store.settle(runs, states, room)
        collected = self._drop(tables, dropper)
        while len(tables) == room and (room := _room(collected, limit)):
            tables = self._collector_store.take_unneeded(runs, room)
            collected += self._drop(tables, dropper)
        kept, again = self._due.checked(runs, states, changed=collected.changed_runs)
        return collected + Collected(runs=len(runs), kept=kept, looks_again_at=again)

    def _read_states(self, runs: Sequence[DueRun]) -> States:
        """Query Airflow, twice for runs where a consumer seems to have finished: then the second answer counts."""
        states = dict(self._run_states.read(self._due.queries(runs)))
        if seem_finished := self._collector_store.mark(runs, states):
            second = self._run_states.read(self._due.queries(seem_finished))
            for run in seem_finished:
                states.pop((run.dag_id, run.run_id), None)
            states |= second
        return states

    def _drop(self, tables: Sequence[TableToDrop], dropper: Dropper) -> Collected:
        dropped, failed, missing, problem = [], [], [], Recurring(log)
        for table in self._leased(tables):
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

    def _leased(self, tables: Sequence[TableToDrop]) -> Iterator[TableToDrop]:
        """Yield each table whose lease this collector still has. Before it expires, the lease of all that are left is renewed."""
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


def _room(collected: Collected, limit: int | None) -> int:
    """Return how many drops may be started in the next step."""
    return DROPS_PER_BATCH if limit is None else max(0, min(DROPS_PER_BATCH, limit - collected.drops))
