"""Which runs cleanup has to look at, and that it has.

    ledger = CleanupLedger(store, "flights")
    for run in ledger.stale(now, age): …
    ledger.doom(lock, run, now, age) and delete(…)
    ledger.looked_at(run, now, age)

The invariant: a run is doomed before the first of its objects goes, in the transaction that makes sure that it is not what would
be kept; from then on nobody can publish it or go back to it. A run that ended a moment ago is looked at a second time, once the
stale age is over: an attempt of it that nobody stopped may have written on.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds.dataset_lock import DatasetLock
from airflow_snowpack.builds.model import BuildRun, RunStatus
from airflow_snowpack.builds.registry import ended
from airflow_snowpack.builds.rows import build_id, run_from
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.build_tables import build_runs

RUN = build_runs.c
SUCCEEDED = RUN.status == sa.literal_column("'succeeded'")
FAILED = RUN.status == sa.literal_column("'failed'")
RUNNING = RUN.status == sa.literal_column("'running'")


class CleanupLedger:
    """Finds runs by index, so that those with nothing to do cost nothing."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store = store
        self._dataset = storable(dataset)
        self._of_dataset = RUN.dataset == self._dataset

    def with_losers(self, now: datetime) -> list[BuildRun]:
        """Phase 1: published runs whose losing attempts were not looked for yet."""
        return self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_(None))

    def stale(self, now: datetime, age: timedelta) -> list[BuildRun]:
        """Phase 2: runs that failed, and runs that nobody has held for ``age``: so long ago their leases ran out."""
        failed = self._runs(self._due(now), FAILED)
        # A run's lease ends after its beginning; that condition is for the index.
        return failed + self._runs(self._of_dataset, RUNNING, RUN.started_at <= now - age, RUN.visible_at <= now - age)

    def beyond(self, now: datetime, keep: int, *, served: str | None = None) -> list[BuildRun]:
        """Phase 3: published runs beyond the ``keep`` newest, and those whose deletion did not get through.

        :param served: the run that readers see. It is published, whatever is on record of it.
        """
        newest_first = (RUN.as_of.desc(), RUN.sequence.desc())
        kept = sa.select(build_runs).where(self._of_dataset, SUCCEEDED, RUN.deleted_at.is_(None)).order_by(*newest_first)
        begun = self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_not(None))
        unrecorded = self._runs(RUN.build_id == build_id(self._dataset, served), ~SUCCEEDED) if served is not None else []
        if not unrecorded:
            return begun + self._rows(kept.offset(keep))
        published = sorted([*self._rows(kept), *unrecorded], key=lambda run: (run.as_of, run.sequence), reverse=True)
        return begun + published[keep:]

    def doom(self, lock: DatasetLock, run: BuildRun, now: datetime, age: timedelta) -> bool:
        """Decide that the run's objects go; ``False``: it is another run than it was, and stays.

        :param age: for how long nobody must have held a run that has not ended.
        :raises StaleBuild: the lock was lost.
        """
        left = sa.and_(RUNNING, RUN.visible_at <= now - age)
        abandoned = f"Nobody has held it since {run.lease_until or run.started_at:%Y-%m-%d %H:%M} UTC."
        values = ended(RunStatus.FAILED, now, abandoned) | {"deleted_at": now}
        # A run that was resumed or published since does not match: its status or its lease is another.
        still = left if run.status is RunStatus.RUNNING else RUN.status == run.status.value
        if run.status is not RunStatus.RUNNING:
            values = {"deleted_at": sa.func.coalesce(RUN.deleted_at, sa.literal(now, RUN.deleted_at.type)), "cleanup_at": now}

        def write(conn: sa.Connection) -> bool:
            lock.holds(conn)
            return conn.execute(sa.update(build_runs).where(self._is(run), still).values(values)).rowcount == 1

        return self._store.transact(write)

    def looked_at(self, run: BuildRun, now: datetime, age: timedelta) -> None:
        """Nothing of it is left to delete for now. Those whose attempts may still be writing are looked at once more."""
        again = (run.finished_at or now) + age
        values: dict[str, Any] = {"cleanup_at": again if again > now else None}
        # Not a run that phase 3 has begun to delete meanwhile, which is to be looked at at once.
        same = RUN.deleted_at.is_(None) if run.status is RunStatus.SUCCEEDED else FAILED
        self._write(run, same, values)

    def gone(self, run: BuildRun) -> None:
        """Phase 3 is through with the run; its attempts ended long ago."""
        self._write(run, RUN.deleted_at.is_not(None), {"cleanup_at": None})

    def accounted_for(self) -> set[str]:
        """The ids of the runs whose folders are there for a reason: not deleted, or still to be looked at by cleanup."""
        there = sa.or_(RUN.deleted_at.is_(None), RUN.cleanup_at.is_not(None))
        query = sa.select(RUN.run_id).where(self._of_dataset, there)
        return set(self._store.read(lambda conn: conn.execute(query).scalars().all()))

    def _write(self, run: BuildRun, still: sa.ColumnElement[bool], values: dict[str, Any]) -> None:
        update = sa.update(build_runs).where(self._is(run), still).values(values)
        self._store.transact(lambda conn: conn.execute(update))

    def _due(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self._of_dataset, RUN.cleanup_at.is_not(None), RUN.cleanup_at <= now)

    def _is(self, run: BuildRun) -> sa.ColumnElement[bool]:
        return RUN.build_id == build_id(run.dataset, run.run_id)

    def _runs(self, *where: sa.ColumnElement[bool]) -> list[BuildRun]:
        query = sa.select(build_runs).where(*where).order_by(RUN.as_of, RUN.sequence)
        return self._rows(query)

    def _rows(self, query: sa.Select[Any]) -> list[BuildRun]:
        return [run_from(row) for row in self._store.read(lambda conn: conn.execute(query).all())]
