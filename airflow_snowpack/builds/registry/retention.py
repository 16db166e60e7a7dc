"""What the registry no longer needs: runs whose files cleanup deletes, and rows that retention deletes.

Invariants: a run is marked as deleted before its first object is deleted, in the transaction that checks that it may be; from
then on it can be neither published nor rolled back to. A run that has just ended is examined again after the stale age, because
an attempt may still be writing. A run's row is kept while cleanup must examine it again or it is current; a publication's row,
until it is confirmed and a later one is current.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import BuildRun, RunStatus, build_id, run_from
from airflow_snowpack.builds.registry.runs import NEWEST_FIRST, ended
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

RUN = build_runs.c
SUCCEEDED = RUN.status == sa.literal_column("'succeeded'")
FAILED = RUN.status == sa.literal_column("'failed'")
RUNNING = RUN.status == sa.literal_column("'running'")


class CleanupRuns:
    """Finds the runs that cleanup must examine, by index, and records the results."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store = store
        self._dataset = storable(dataset)
        self._of_dataset = RUN.dataset == self._dataset

    def with_losers(self, now: datetime) -> list[BuildRun]:
        """Return the runs of phase 1: published, not yet examined for losing attempts."""
        return self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_(None))

    def stale(self, now: datetime, age: timedelta) -> list[BuildRun]:
        """Return the runs of phase 2: failed, or running with a lease that expired longer ago than ``age``."""
        failed = self._runs(self._due(now), FAILED)
        # The condition on started_at uses the index: a lease ends after its run has begun.
        return failed + self._runs(self._of_dataset, RUNNING, RUN.started_at <= now - age, RUN.visible_at <= now - age)

    def beyond(self, now: datetime, keep: int, *, current: str | None = None) -> list[BuildRun]:
        """Return the runs of phase 3: published and beyond the ``keep`` newest, or not completely deleted.

        :param current: the current run, which counts as published whatever the registry has recorded.
        """
        kept = sa.select(build_runs).where(self._of_dataset, SUCCEEDED, RUN.deleted_at.is_(None)).order_by(*NEWEST_FIRST.order())
        begun = self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_not(None))
        unrecorded = self._runs(RUN.build_id == build_id(self._dataset, current), ~SUCCEEDED) if current is not None else []
        if not unrecorded:
            return begun + self._read(kept.offset(keep))
        published = sorted([*self._read(kept), *unrecorded], key=lambda run: (run.as_of, run.sequence), reverse=True)
        return begun + published[keep:]

    def mark_deleted(self, lock: DatasetLock, run: BuildRun, now: datetime, age: timedelta) -> bool:
        """Mark a run as deleted; return ``False``, and keep it, if it has changed since it was read.

        :param age: how long ago the lease of a running run must have expired.
        :raises StaleBuild: the lock was lost.
        """
        if run.status is RunStatus.RUNNING:
            # A run that was resumed or published since has another lease or status, and does not match.
            unchanged = sa.and_(RUNNING, RUN.visible_at <= now - age)
            abandoned = f"Its lease expired at {run.lease_until or run.started_at:%Y-%m-%d %H:%M} UTC."
            values = ended(RunStatus.FAILED, now, abandoned) | {"deleted_at": now}
        else:
            unchanged = RUN.status == run.status.value
            values = {"deleted_at": sa.func.coalesce(RUN.deleted_at, sa.literal(now, RUN.deleted_at.type)), "cleanup_at": now}

        def write(conn: sa.Connection) -> bool:
            lock.renew_in(conn)
            return conn.execute(sa.update(build_runs).where(self._is(run), unchanged).values(values)).rowcount == 1

        return self._store.transact(write)

    def examined(self, run: BuildRun, now: datetime, age: timedelta) -> None:
        """Record that nothing is left to delete for now; a run whose attempts may still be writing is examined again."""
        again = (run.finished_at or now) + age
        # Exclude a run that phase 3 has begun to delete: it is due at once.
        same = RUN.deleted_at.is_(None) if run.status is RunStatus.SUCCEEDED else FAILED
        self._store.execute(sa.update(build_runs).where(self._is(run), same).values(cleanup_at=again if again > now else None))

    def gone(self, run: BuildRun) -> None:
        """Record that phase 3 has deleted the run, whose attempts ended long ago."""
        self._store.execute(sa.update(build_runs).where(self._is(run), RUN.deleted_at.is_not(None)).values(cleanup_at=None))

    def _due(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self._of_dataset, RUN.cleanup_at.is_not(None), RUN.cleanup_at <= now)

    def _is(self, run: BuildRun) -> sa.ColumnElement[bool]:
        return RUN.build_id == build_id(run.dataset, run.run_id)

    def _runs(self, *where: sa.ColumnElement[bool]) -> list[BuildRun]:
        return self._read(sa.select(build_runs).where(*where).order_by(RUN.as_of, RUN.sequence))

    def _read(self, query: sa.Select[Any]) -> list[BuildRun]:
        return [run_from(row) for row in self._store.all(query)]


entry, dataset = build_publications.c, build_datasets.c
current_run = sa.select(dataset.current_run).where(dataset.dataset == RUN.dataset).scalar_subquery()
current_publication = sa.select(dataset.publication).where(dataset.dataset == entry.dataset).scalar_subquery()
# Not EXISTS, which Postgres would turn into a join over the unconfirmed publications of all datasets.
unconfirmed = (
    sa.select(entry.number)
    .where(entry.dataset == RUN.dataset, entry.run_id == RUN.run_id, entry.done_at.is_(None))
    .limit(1)
    .scalar_subquery()
)

KINDS = (
    RetainedRows(
        build_publications,
        age=entry.done_at,
        order=(entry.done_at, entry.dataset, entry.number),
        which=entry.done_at.is_not(None),
        unneeded=entry.number < current_publication,
    ),
    RetainedRows(
        build_runs,
        age=RUN.deleted_at,
        order=(RUN.deleted_at, RUN.build_id),
        which=RUN.deleted_at.is_not(None),
        unneeded=sa.and_(~RUNNING, RUN.cleanup_at.is_(None), RUN.run_id.is_distinct_from(current_run), unconfirmed.is_(None)),
    ),
)
