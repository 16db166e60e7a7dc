"""The build registry: begin runs, renew their leases, end them, and list them.

    registry = BuildRegistry(store)
    handle = registry.begin("flights", "s3://lake/builds/flights", as_of=interval_end, num_shards=8, owner="dag/run/task")
    registry.heartbeat(handle) or stop()
    publish(registry, storage, handle, manifest)      # or registry.fail(handle, "no space left")
    page = registry.runs("flights", limit=50, before=None)

Invariants: each run has its own folder, so attempts of two processes never share one, and published data is never overwritten.
The storage is searched for the folder before the run is registered, so a run never adopts foreign objects. Every write about a
run names its fence. A later try of the same owner fails the earlier run and begins a new one.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, DatasetBusy, DatasetNotFound, InvalidBuild, StaleBuild
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock, take_lock
from airflow_snowpack.builds.registry.model import (
    BuildDataset,
    BuildPolicy,
    BuildRun,
    Publication,
    RunHandle,
    RunStatus,
    build_id,
    dataset_from,
    handle_from,
    publication_from,
    run_from,
)
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import IdMaker, Leases, Store, new_id, repeatable, storable, storable_error
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.tables.builds import build_datasets, build_publications, build_runs

log = logging.getLogger(__name__)

RUNS = Leases(build_runs, key=build_runs.c.build_id, order=[build_runs.c.started_at])
NEWEST_FIRST = Keyset(build_runs.c.as_of, build_runs.c.sequence, descending=True)
PAGE_SIZE = 100
NAMES_PER_QUERY = 10
LOCK_RETRY_INTERVAL = timedelta(seconds=1)


class _NameTaken(Exception):
    """Another process has begun a run of this name meanwhile."""


class BuildRegistry:
    """Datasets, their runs and publications. ``make_id`` draws fences; ``sleep`` waits for a lock, in seconds."""

    def __init__(
        self,
        store: Store,
        policy: BuildPolicy | None = None,
        *,
        make_id: IdMaker = new_id,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.policy = policy or BuildPolicy()
        self.sleep = sleep
        self._make_id = make_id

    def begin(
        self,
        dataset: str,
        url: str,
        *,
        as_of: datetime,
        num_shards: int,
        owner: str | None = None,
        label: str | None = None,
        storage: Storage | None = None,
    ) -> RunHandle:
        """Begin a run; register the dataset with its first run.

        :param url: the dataset's root, the same for all of its runs.
        :param as_of: the end of the data interval, which orders runs.
        :param owner: the task instance; a run that an earlier try of it left running is failed.
        :param label: the run's name; ``None`` for ``as_of`` (``20260101T000000Z``). Further runs of a label get ``.2``, ``.3`` …
        :param storage: the dataset's storage, to skip names under which it has objects.
        :raises InvalidBuild: a name is invalid, or the dataset has another URL.
        :raises StorageFailed: the storage could not be searched for the name; no run was begun.
        """
        layout.check_dataset(dataset)
        named_by_time = run_label(as_of)  # also checks the time zone
        label = layout.check_run(named_by_time if label is None else label)
        Sharding.hash(num_shards)  # checks the number
        while True:
            run_id = self._free_name(dataset, label, storage)
            try:
                return self._begin(dataset, url.rstrip("/"), as_of.astimezone(UTC), num_shards, owner, run_id)
            except _NameTaken:
                log.info("name_taken: another process has just begun the run %s of %s", run_id, dataset)

    def _free_name(self, dataset: str, label: str, storage: Storage | None) -> str:
        numbers = count(1)
        while True:
            names = [label if number == 1 else f"{label}.{number}" for number in islice(numbers, NAMES_PER_QUERY)]
            begun = self.store.read(partial(_existing_among, dataset=dataset, names=names))
            for name in names:
                if name not in begun and not (storage is not None and _has_objects(storage, name)):
                    return name

    def _begin(self, dataset: str, url: str, as_of: datetime, num_shards: int, owner: str | None, run_id: str) -> RunHandle:
        now, attempt_id = self.store.clock(), self._make_id()
        owner, key = None if owner is None else storable(owner), build_id(dataset, run_id)
        values: dict[str, Any] = {
            "build_id": key,
            "dataset": dataset,
            "run_id": run_id,
            "as_of": as_of,
            "status": RunStatus.RUNNING.value,
            "owner": owner,
            "started_at": now,
            "num_shards": num_shards,
            "visible_at": now + self.policy.run_lease,
            "claimed_at": now,
            "claimed_by": owner or _process_name(),
            "attempt_id": attempt_id,
            "attempt_count": 1,
        }

        def write(conn: sa.Connection) -> RunHandle:
            sequence = self._next_sequence(conn, dataset, url)  # locks the dataset's row for this transaction
            if _existing_among(conn, dataset, [run_id]):
                raise _NameTaken(key)
            if owner is not None:
                self._fail_earlier_tries(conn, dataset, owner)
            row = sa.insert(build_runs).values(values | {"sequence": sequence}).returning(build_runs)
            return handle_from(conn.execute(row).one(), url)

        return self.store.transact(repeatable(write, lambda conn: self._handle(conn, dataset, attempt_id, url)))

    def _next_sequence(self, conn: sa.Connection, dataset: str, url: str) -> int:
        now = self.store.clock()
        first = {"dataset": dataset, "url": url, "created_at": now, "visible_at": now, "attempt_count": 0, "runs": 0, "drawn": 0}
        conn.execute(insert(build_datasets).values(first).on_conflict_do_nothing())
        row = build_datasets.c
        counted = sa.update(build_datasets).where(row.dataset == dataset).values(runs=row.runs + 1)
        found = conn.execute(counted.returning(row.runs, row.url)).first()
        if found is None:
            other = conn.execute(sa.select(row.dataset).where(row.url == url)).scalar()
            raise InvalidBuild("url", url, f"the dataset {other} has this URL; each dataset needs a folder of its own")
        if found.url != url:
            raise InvalidBuild("url", url, f"the URL of the dataset {dataset} is {found.url}; give another dataset this one")
        return int(found.runs)

    def _fail_earlier_tries(self, conn: sa.Connection, dataset: str, owner: str) -> None:
        run = build_runs.c
        earlier = sa.and_(run.dataset == dataset, run.status == RunStatus.RUNNING.value, run.owner == owner)
        error = "A later try of the same task has begun a new run."
        conn.execute(sa.update(build_runs).where(earlier).values(ended(RunStatus.FAILED, self.store.clock(), error)))

    def _handle(self, conn: sa.Connection, dataset: str, attempt_id: str, url: str) -> RunHandle | None:
        run = build_runs.c
        mine = sa.and_(run.dataset == dataset, run.status == RunStatus.RUNNING.value, run.attempt_id == attempt_id)
        row = conn.execute(sa.select(build_runs).where(mine)).first()
        return None if row is None else handle_from(row, url)

    def resume(self, dataset: str, run_id: str, *, holder: str | None = None) -> RunHandle:
        """Take over a run that another task began: the fence moves, and the earlier attempt can no longer write.

        :param holder: the new attempt, for people.
        :raises BuildNotFound: there is no such run, or it has ended.
        """
        url, now, attempt_id = self.dataset(dataset).url, self.store.clock(), self._make_id()
        key = storable(build_id(dataset, run_id))
        values = RUNS.claim_values(storable(holder or _process_name()), attempt_id, now, now + self.policy.run_lease, key=key)
        query = sa.select(build_runs).where(build_runs.c.build_id == key)

        def take_over(conn: sa.Connection) -> RunHandle:
            row = conn.execute(query.with_for_update()).first()
            if row is None:
                raise BuildNotFound(dataset, run_id)
            if row.status != RunStatus.RUNNING.value:
                raise BuildNotFound(dataset, run_id, f"the run has already {row.status}{f': {row.error}' if row.error else ''}")
            conn.execute(RUNS.take_over, values)
            return handle_from(conn.execute(query).one(), url)

        return self.store.transact(repeatable(take_over, lambda conn: self._handle(conn, dataset, attempt_id, url)))

    def heartbeat(self, handle: RunHandle) -> bool:
        """Renew the run's lease; ``False``: the fence has moved, and the work must stop."""
        until = self.store.clock() + self.policy.run_lease
        key = build_id(handle.dataset, handle.run_id)
        return self.store.transact(lambda conn: RUNS.renew(conn, key, handle.attempt_id, until))

    def check(self, handle: RunHandle) -> None:
        """Renew the run's lease, or raise :class:`StaleBuild` if another attempt owns the run."""
        if not self.heartbeat(handle):
            raise StaleBuild(str(handle))

    def fail(self, handle: RunHandle, error: object) -> bool:
        """End a run that will not be published; ``False``: another attempt owns it, and nothing was written."""
        fail = sa.update(build_runs).where(fenced(handle)).values(ended(RunStatus.FAILED, self.store.clock(), str(error)))
        return self.store.transact(lambda conn: conn.execute(fail).rowcount == 1)

    def lock(self, dataset: str, holder: str | None = None, *, wait: timedelta = timedelta(0)) -> DatasetLock:
        """Take the dataset's lock.

        :param holder: this process, for people.
        :param wait: how long to wait for another process to release the lock.
        :raises DatasetNotFound: no build of this dataset has ever begun.
        :raises DatasetBusy: another process still has the lock.
        """
        waited = timedelta(0)
        while True:
            try:
                return take_lock(self.store, self.policy, dataset, holder or _process_name(), self._make_id(), self.sleep)
            except DatasetBusy:
                if waited >= wait:
                    raise
            self.sleep(LOCK_RETRY_INTERVAL.total_seconds())
            waited += LOCK_RETRY_INTERVAL

    def datasets(self, *, limit: int = PAGE_SIZE, after: str | None = None) -> Page[BuildDataset]:
        """List the datasets by name; ``after`` is ``next`` of the previous page, the name of its last dataset."""
        query = sa.select(build_datasets).order_by(build_datasets.c.dataset).limit(limit + 1)
        query = query if after is None else query.where(build_datasets.c.dataset > storable(after))
        found = [dataset_from(row) for row in self.store.all(query)]
        return Page(tuple(found[:limit]), found[limit - 1].dataset if len(found) > limit else None)

    def dataset(self, dataset: str) -> BuildDataset:
        """Return a dataset, or raise :class:`DatasetNotFound` if none of its builds has ever begun."""
        row = self.store.first(sa.select(build_datasets).where(build_datasets.c.dataset == storable(dataset)))
        if row is None:
            raise DatasetNotFound(dataset)
        return dataset_from(row)

    def runs(
        self, dataset: str, *, limit: int = PAGE_SIZE, before: str | None = None, status: RunStatus | None = None
    ) -> Page[BuildRun]:
        """List the runs of a dataset, newest data first; none for an unknown dataset.

        :param before: ``next`` of the previous page: the id of its last run.
        :raises BuildNotFound: there is no run ``before``.
        """
        query = sa.select(build_runs).where(build_runs.c.dataset == storable(dataset))
        if before is not None:
            last = self.run(dataset, before)
            query = query.where(NEWEST_FIRST.after((last.as_of, last.sequence)))
        query = query if status is None else query.where(build_runs.c.status == status.value)
        found = [run_from(row) for row in self.store.all(query.order_by(*NEWEST_FIRST.order()).limit(limit + 1))]
        return Page(tuple(found[:limit]), found[limit - 1].run_id if len(found) > limit else None)

    def run(self, dataset: str, run_id: str) -> BuildRun:
        """Return a run, or raise :class:`BuildNotFound`."""
        found = self.find_run(dataset, run_id)
        if found is None:
            raise BuildNotFound(dataset, run_id)
        return found

    def find_run(self, dataset: str, run_id: str) -> BuildRun | None:
        row = self.store.first(sa.select(build_runs).where(build_runs.c.build_id == storable(build_id(dataset, run_id))))
        return None if row is None else run_from(row)

    def publications(self, dataset: str, *, limit: int = PAGE_SIZE, before: int | None = None) -> list[Publication]:
        """List the publications of a dataset, latest first; ``before`` is the last number of the previous page."""
        row = build_publications.c
        query = sa.select(build_publications).where(row.dataset == storable(dataset), row.done_at.is_not(None))
        query = query if before is None else query.where(row.number < before)
        return [publication_from(found) for found in self.store.all(query.order_by(row.number.desc()).limit(limit))]


def run_label(as_of: datetime) -> str:
    """Return the run name for a time with a time zone: ``20260101T000000Z``."""
    if as_of.tzinfo is None:
        raise InvalidBuild("as_of", as_of, "it has no time zone")
    return as_of.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def fenced(handle: RunHandle) -> sa.ColumnElement[bool]:
    """Return the condition that selects the run's row while this attempt owns it."""
    run = build_runs.c
    return sa.and_(run.build_id == build_id(handle.dataset, handle.run_id), run.attempt_id == handle.attempt_id)


def ended(status: RunStatus, now: datetime, error: str | None = None) -> dict[str, Any]:
    """Return the values that end a run: no lease, and due for cleanup."""
    freed = {"visible_at": now, "claimed_at": None, "claimed_by": None, "attempt_id": None}
    reason = None if error is None else storable_error(error)
    return {"status": status.value, "finished_at": now, "error": reason, "cleanup_at": now, **freed}


def _existing_among(conn: sa.Connection, dataset: str, names: list[str]) -> set[str]:
    keys = build_runs.c.build_id.in_([build_id(dataset, name) for name in names])
    return set(conn.execute(sa.select(build_runs.c.run_id).where(keys)).scalars())


def _has_objects(storage: Storage, run_id: str) -> bool:
    folders = (layout.run_folder(run_id), layout.manifest_folder(run_id))
    return any(next(iter(storage.objects(folder)), None) is not None for folder in folders)


def _process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
