"""The collector: the one authority that drops interim tables, when nobody needs them any more.

    collector = Collector(registry, run_states, open_catalog)
    collector.run(dry_run=True).dropped      # what would go
    collector.run()

A pass finishes what earlier ones left, then looks at the DAG runs that are due, asks Airflow who of their consumers is finished
for good, lets go of what those held, and drops what nobody holds. The invariants: **a table that somebody needs is never
dropped**, since it is doomed under a lock that its readers take too; and nothing is forgotten: a drop that fails, and a pass that
is killed anywhere, leave a row that the next pass finds. Any number of passes may run at once.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.interim.collection.collector_store import CollectorStore
from airflow_snowpack.interim.collection.dropping import Dropper, OpenCatalog
from airflow_snowpack.interim.collection.due_runs import DueRuns
from airflow_snowpack.interim.collection.model import Collected, Doomed, DueRun, NotDropped, NotFound, RunStanding, RunStates
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)

RUNS_AT_ONCE = 100
DROPS_AT_ONCE = 100


class Collector:
    """Drops what nobody needs.

    :param run_states: asks Airflow how its runs and tasks stand.
    :param open_catalog: opens a catalog by the name that this installation has for it.
    :param holder: who collects, for people who look; ``None``: this process.
    :param sign: its sign of life, reported at the end and before each drop; ``None``: it leaves none.
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

    def run(self, *, dry_run: bool = False, limit: int | None = None) -> Collected:
        """One pass: everything that is due now.

        :param dry_run: write nothing and drop nothing; ``dropped`` is what would go.
        :param limit: begin no more drops than this; the others are left to the next pass.
        :raises SnowpackError: Airflow does not answer. What it is not needed for was done, and the rest is looked at again soon.
        """
        if dry_run:
            return self._foresee(limit)
        dropper = Dropper(self._open_catalog, lambda: self._store.identity)
        collected = self._finish_left(dropper, limit)
        while _room(collected, limit) and (runs := self._due.take(RUNS_AT_ONCE)):
            collected += self._look_at(runs, dropper, None if limit is None else limit - _begun(collected))
        self._beat()
        return collected

    def _foresee(self, limit: int | None) -> Collected:
        runs = self._due.see(RUNS_AT_ONCE * 10)
        standings = self._run_states.standings(self._due.asked(runs)) if runs else {}
        doomed = self._collector_store.foresee(runs, standings, RUNS_AT_ONCE * 100)
        return Collected(runs=len(runs), dropped=tuple(doomed[:limit]))

    def _finish_left(self, dropper: Dropper, limit: int | None) -> Collected:
        collected = Collected()
        while room := _room(collected, limit):
            left = self._collector_store.take_left(room)
            if not left:
                break
            dropped = self._drop(left, dropper)
            self._due.wake(_changed(dropped))
            collected += dropped
        return collected

    def _look_at(self, runs: Sequence[DueRun], dropper: Dropper, limit: int | None) -> Collected:
        try:
            standings = self._ask(runs)
        except SnowpackError:
            self._due.looked_at(runs, {})
            raise
        room = _room(Collected(), limit)
        doomed = self._collector_store.settle(runs, standings, room)
        collected = self._drop(doomed, dropper)
        while len(doomed) == room and (room := _room(collected, limit)):
            doomed = self._collector_store.doom(runs, room)
            collected += self._drop(doomed, dropper)
        kept, again = self._due.looked_at(runs, standings, changed=_changed(collected))
        return collected + Collected(runs=len(runs), kept=kept, looks_again_at=again)

    def _ask(self, runs: Sequence[DueRun]) -> Mapping[tuple[str, str], RunStanding]:
        """How the runs stand. Where a consumer seems to be finished Airflow is asked twice, and the second answer counts."""
        standings = dict(self._run_states.standings(self._due.asked(runs)))
        if seem := self._collector_store.mark(runs, standings):
            told = self._run_states.standings(self._due.asked(seem))
            for run in seem:
                standings.pop((run.dag_id, run.run_id), None)
            standings |= told
        return standings

    def _drop(self, tables: Sequence[Doomed], dropper: Dropper) -> Collected:
        dropped, failed, missing, problem = [], [], [], Recurring(log)
        for doomed in self._held(tables):
            try:
                why_not = dropper.drop(doomed, partial(self._collector_store.locate, doomed))
            except Exception as error:  # noqa: BLE001 - whatever a storage raises: the row stays, and the others go on
                problem.failed(error, "interim_drop_failed: %s, made by %s", doomed.table, doomed.producer)
                self._collector_store.failed(doomed, str(error))
                failed.append(NotDropped(doomed, str(error)))
            else:
                self._collector_store.dropped(doomed)
                if why_not is None:
                    log.info("interim_dropped: %s, made by %s", doomed.table, doomed.producer)
                    dropped.append(doomed)
                else:
                    log.warning("interim_not_found: %s, made by %s: %s", doomed.table, doomed.producer, why_not)
                    missing.append(NotFound(doomed, why_not))
        return Collected(dropped=tuple(dropped), failed=tuple(failed), missing=tuple(missing))

    def _held(self, tables: Sequence[Doomed]) -> Iterator[Doomed]:
        """Yield each table that this collector still holds. Before the lease is over it is renewed for all that are left."""
        renewed_at, held = self._store.clock(), {each.table_id for each in tables}
        for place, doomed in enumerate(tables):
            self._beat()
            if self._store.clock() - renewed_at >= self._renew_after:
                renewed_at, held = self._store.clock(), self._collector_store.renew(tables[place:])
            if doomed.table_id in held:
                yield doomed
            else:
                log.warning("fence_moved: another collector drops %s", doomed.table)

    def _beat(self) -> None:
        if self._sign is not None:
            self._sign.beat()


def _begun(collected: Collected) -> int:
    return len(collected.dropped) + len(collected.failed) + len(collected.missing)


def _changed(collected: Collected) -> set[str]:
    """The runs that have less on record now."""
    return {table.run_key for table in (*collected.dropped, *(each.table for each in collected.missing))}


def _room(collected: Collected, limit: int | None) -> int:
    """How many drops may be begun in the next step."""
    return DROPS_AT_ONCE if limit is None else max(0, min(DROPS_AT_ONCE, limit - _begun(collected)))
