"""The run registry: who builds what, since when, and how it ended.

    registry = BuildRegistry(store)
    handle = registry.begin("flights", "s3://lake/builds/flights", as_of=interval_end, num_shards=8, owner="dag/run/task")
    registry.heartbeat(handle) or stop()
    publish(registry, storage, handle, manifest)      # or registry.fail(handle, "no space left")

The invariants: **a run has a folder of its own**, so that the attempts of two processes never meet in one, and published data is
never written to again; it is sought before the run is registered, so that the registry says nothing of another's folder; and
every write about a run carries its fence. A later try of the same owner takes over: it fails the old run and begins a new one.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound, InvalidBuild, StaleBuild
from airflow_snowpack.builds.model import BuildRun, RunStatus, Sharding
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock, take_lock
from airflow_snowpack.builds.registry.model import (
    BuildDataset,
    BuildPolicy,
    Publication,
    RunHandle,
    build_id,
    dataset_from,
    handle_from,
    publication_from,
    run_from,
)
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import IdMaker, Leases, Store, new_id, repeatable, storable
from airflow_snowpack.store.build_tables import build_datasets, build_publications, build_runs
from airflow_snowpack.store.types import UtcDateTime

log = logging.getLogger(__name__)

RUNS = Leases(build_runs, key=build_runs.c.build_id, order=build_runs.c.started_at)
NAMES_AT_ONCE = 10
PAGE = 100

Place = tuple[datetime, int]
"""The position of a run in the order of its dataset's runs: its ``as_of`` and ``sequence``."""


class _NameTaken(Exception):
    """Somebody else has begun a run of this name since it was free."""


class BuildRegistry:
    """Begins runs, keeps them alive, and ends them.

    :param policy: how long what is held is held.
    :param make_id: draws the fences.
    :param sleep: how it waits for a lock, in seconds.
    """

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
        """Begin a run, and make the dataset if this is its first.

        :param url: the dataset's root, always the same for a dataset.
        :param as_of: the moment that the data is of: the end of the data interval. It orders runs.
        :param owner: whose tries these are, such as a task instance; a run that an earlier try of his left is failed.
        :param label: what the run is named after; ``None`` for ``as_of`` (``20260101T000000Z``). The second run of a label gets
            ``.2`` behind it, and so on.
        :param storage: the dataset's; then a name under which it has something already, of which the registry does not know, is
            left alone.
        :raises InvalidBuild: a name that cannot be used, or a dataset that stands elsewhere.
        :raises StorageFailed: whether a name is free cannot be told; nothing was begun.
        """
        layout.check_dataset(dataset)
        named_by_moment = run_label(as_of)  # checks the moment as well
        label = layout.check_run(named_by_moment if label is None else label)
        Sharding.hash(num_shards)  # checks the number
        while True:
            run_id = self._free_name(dataset, label, storage)
            try:
                return self._begin(dataset, url.rstrip("/"), as_of.astimezone(UTC), num_shards, owner, run_id)
            except _NameTaken:
                log.info("name_taken: somebody else has just begun the run %s of %s", run_id, dataset)

    def _free_name(self, dataset: str, label: str, storage: Storage | None) -> str:
        turns = count(1)
        while True:
            names = [label if turn == 1 else f"{label}.{turn}" for turn in islice(turns, NAMES_AT_ONCE)]
            begun = self.store.read(partial(_begun_among, dataset=dataset, names=names))
            for name in names:
                if name not in begun and not (storage is not None and _is_taken(storage, name)):
                    return name

    def _begin(self, dataset: str, url: str, as_of: datetime, num_shards: int, owner: str | None, run_id: str) -> RunHandle:
        now, attempt_id = self.store.clock(), self._make_id()
        owner, key = None if owner is None else storable(owner), build_id(dataset, run_id)
        values: dict[str, Any] = {
            "dataset": dataset,
            "as_of": as_of,
            "status": RunStatus.RUNNING.value,
            "owner": owner,
            "started_at": now,
            "num_shards": num_shards,
            "visible_at": now + self.policy.run_lease,
            "claimed_at": now,
            "claimed_by": owner or _here(),
            "attempt_id": attempt_id,
            "attempt_count": 1,
        }

        def write(conn: sa.Connection) -> RunHandle:
            sequence = self._next_sequence(conn, dataset, url)  # and nobody else begins a run of it until this transaction ends
            if _begun_among(conn, dataset, [run_id]):
                raise _NameTaken(key)
            if owner is not None:
                self._fail_earlier_tries(conn, dataset, owner)
            row = values | {"build_id": key, "run_id": run_id, "sequence": sequence}
            return handle_from(conn.execute(sa.insert(build_runs).values(row).returning(build_runs)).one(), url)

        return self.store.transact(repeatable(write, lambda conn: self._held_by(conn, dataset, attempt_id, url)))

    def _next_sequence(self, conn: sa.Connection, dataset: str, url: str) -> int:
        insert = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
        now = self.store.clock()
        first = {"dataset": dataset, "url": url, "created_at": now, "visible_at": now, "attempt_count": 0, "runs": 0, "drawn": 0}
        conn.execute(insert(build_datasets).values(first).on_conflict_do_nothing())
        row = build_datasets.c
        mine = sa.update(build_datasets).where(row.dataset == dataset).values(runs=row.runs + 1)
        found = conn.execute(mine.returning(row.runs, row.url)).first()
        if found is None:
            other = conn.execute(sa.select(row.dataset).where(row.url == url)).scalar()
            raise InvalidBuild("url", url, f"the dataset {other} stands there; each needs a folder of its own")
        if found.url != url:
            raise InvalidBuild("url", url, f"the dataset {dataset} stands at {found.url}; build another dataset there")
        return int(found.runs)

    def _fail_earlier_tries(self, conn: sa.Connection, dataset: str, owner: str) -> None:
        run = build_runs.c
        theirs = sa.and_(run.dataset == dataset, run.status == RunStatus.RUNNING.value, run.owner == owner)
        error = "A later try of the same task took over and began anew."
        conn.execute(sa.update(build_runs).where(theirs).values(ended(RunStatus.FAILED, self.store.clock(), error)))

    def _held_by(self, conn: sa.Connection, dataset: str, attempt_id: str, url: str) -> RunHandle | None:
        run = build_runs.c
        mine = sa.and_(run.dataset == dataset, run.status == RunStatus.RUNNING.value, run.attempt_id == attempt_id)
        row = conn.execute(sa.select(build_runs).where(mine)).first()
        return None if row is None else handle_from(row, url)

    def resume(self, dataset: str, run_id: str, *, holder: str | None = None) -> RunHandle:
        """Take a run over that another task began: the fence moves, and whoever had it before can write no more.

        :param holder: for people who look.
        :raises BuildNotFound: there is no such run, or it has ended.
        """
        url, now, attempt_id = self.dataset(dataset).url, self.store.clock(), self._make_id()
        key = storable(build_id(dataset, run_id))
        values = RUNS.claim_values(storable(holder or _here()), attempt_id, now, now + self.policy.run_lease, key=key)
        query = sa.select(build_runs).where(build_runs.c.build_id == key)

        def take(conn: sa.Connection) -> RunHandle:
            row = conn.execute(query.with_for_update()).first()
            if row is None:
                raise BuildNotFound(dataset, run_id)
            if row.status != RunStatus.RUNNING.value:
                raise BuildNotFound(dataset, run_id, f"the run has {row.status} already{f': {row.error}' if row.error else ''}")
            conn.execute(RUNS.take_over, values)
            return handle_from(conn.execute(query).one(), url)

        return self.store.transact(repeatable(take, lambda conn: self._held_by(conn, dataset, attempt_id, url)))

    def heartbeat(self, handle: RunHandle) -> bool:
        """Move the end of the run's lease; ``False``: the fence has moved, stop the work."""
        until = self.store.clock() + self.policy.run_lease
        key = build_id(handle.dataset, handle.run_id)
        return self.store.transact(lambda conn: RUNS.renew(conn, key, handle.attempt_id, until))

    def check(self, handle: RunHandle) -> None:
        """:raises StaleBuild: the run is no longer held by this attempt."""
        if not self.heartbeat(handle):
            raise StaleBuild(what_is_held(handle))

    def fail(self, handle: RunHandle, error: object) -> bool:
        """End a run that will not be published; ``False``: somebody else has it, and nothing was written."""
        fail = sa.update(build_runs).where(fenced(handle)).values(ended(RunStatus.FAILED, self.store.clock(), str(error)))
        return self.store.transact(lambda conn: conn.execute(fail).rowcount == 1)

    def lock(self, dataset: str, holder: str | None = None, *, wait: timedelta = timedelta(0)) -> DatasetLock:
        """Take the dataset's lock; see :func:`take_lock`."""
        return take_lock(self.store, self.policy, dataset, holder or _here(), wait=wait, make_id=self._make_id, sleep=self.sleep)

    def datasets(self, *, limit: int = PAGE, after: str | None = None) -> list[BuildDataset]:
        """The datasets by name.

        :param after: the last name of the page before.
        """
        query = sa.select(build_datasets).order_by(build_datasets.c.dataset).limit(limit)
        query = query if after is None else query.where(build_datasets.c.dataset > storable(after))
        return [dataset_from(row) for row in self._all(query)]

    def dataset(self, dataset: str) -> BuildDataset:
        """:raises DatasetNotFound: nothing was ever built under this name."""
        found = self._all(sa.select(build_datasets).where(build_datasets.c.dataset == storable(dataset)))
        if not found:
            raise DatasetNotFound(dataset)
        return dataset_from(found[0])

    def runs(
        self, dataset: str, *, limit: int = PAGE, before: Place | None = None, status: RunStatus | None = None
    ) -> list[BuildRun]:
        """The runs of a dataset, the newest data first; none for a dataset that does not exist.

        :param before: the place of the last run of the page before.
        """
        run = build_runs.c
        query = sa.select(build_runs).where(run.dataset == storable(dataset))
        if before is not None:
            place = sa.tuple_(sa.literal(before[0], UtcDateTime), sa.literal(before[1], sa.Integer))
            query = query.where(sa.tuple_(run.as_of, run.sequence) < place)
        query = query if status is None else query.where(run.status == status.value)
        return [run_from(row) for row in self._all(query.order_by(run.as_of.desc(), run.sequence.desc()).limit(limit))]

    def run(self, dataset: str, run_id: str) -> BuildRun:
        """:raises BuildNotFound: the dataset has no such run."""
        found = self.find_run(dataset, run_id)
        if found is None:
            raise BuildNotFound(dataset, run_id)
        return found

    def find_run(self, dataset: str, run_id: str) -> BuildRun | None:
        """The run, if there is one of this id."""
        found = self._all(sa.select(build_runs).where(build_runs.c.build_id == storable(build_id(dataset, run_id))))
        return run_from(found[0]) if found else None

    def publications(self, dataset: str, *, limit: int = PAGE, before: int | None = None) -> list[Publication]:
        """The moves of a dataset's pointer, the latest first.

        :param before: the number of the last publication of the page before.
        """
        row = build_publications.c
        query = sa.select(build_publications).where(row.dataset == storable(dataset), row.done_at.is_not(None))
        query = query if before is None else query.where(row.number < before)
        return [publication_from(found) for found in self._all(query.order_by(row.number.desc()).limit(limit))]

    def _all(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        return self.store.read(lambda conn: conn.execute(query).all())


def run_label(as_of: datetime) -> str:
    """What a run of this moment is named: ``20260101T000000Z``.

    :raises InvalidBuild: the moment has no time zone.
    """
    if as_of.tzinfo is None:
        raise InvalidBuild("as_of", as_of, "it has no time zone")
    return as_of.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def fenced(handle: RunHandle) -> sa.ColumnElement[bool]:
    """The run's row, if this attempt still has it."""
    run = build_runs.c
    return sa.and_(run.build_id == build_id(handle.dataset, handle.run_id), run.attempt_id == handle.attempt_id)


def ended(status: RunStatus, now: datetime, error: str | None = None) -> dict[str, Any]:
    """What a run's end writes: the lease is gone, and cleanup is to look at it."""
    freed = {"visible_at": now, "claimed_at": None, "claimed_by": None, "attempt_id": None}
    told = None if error is None else storable(error)
    return {"status": status.value, "finished_at": now, "error": told, "cleanup_at": now, **freed}


def what_is_held(handle: RunHandle) -> str:
    return f"the run {handle.run_id} of {handle.dataset}"


def _begun_among(conn: sa.Connection, dataset: str, names: list[str]) -> set[str]:
    keys = build_runs.c.build_id.in_([build_id(dataset, name) for name in names])
    return set(conn.execute(sa.select(build_runs.c.run_id).where(keys)).scalars())


def _is_taken(storage: Storage, run_id: str) -> bool:
    folders = (layout.run_folder(run_id), layout.manifest_folder(run_id))
    return any(next(iter(storage.objects(folder)), None) is not None for folder in folders)


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
