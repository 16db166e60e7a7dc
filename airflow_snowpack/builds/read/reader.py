"""Reads a published dataset by key, and follows its pointer from build to build.

    with SnapshotReader("s3://lake/builds/flights", {"region": "eu-central-1"}) as flights:
        flights.get("N14228")                         # a dict, or None
        flights.multi_get(["N14228", "N24211"])       # a dict of those that are there
        for row in flights.scan(shard_id=3): ...

The invariant: **each answer is of one complete build**, and never of one that was published before the one last seen. The
pointer is looked at again on a period and by :meth:`SnapshotReader.reload`, not while a scan is open. When a manifest or a shard
turns out damaged or missing, the reader steps back to the build before it, says so in the log, and shows it as ``fallback``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa

from airflow_snowpack.builds.errors import BuildError, ManifestDamaged
from airflow_snowpack.builds.model import Current, Key, Manifest
from airflow_snowpack.builds.pointer import find_manifest, newest_whole, published_pointer
from airflow_snowpack.builds.read.open_build import OpenBuild
from airflow_snowpack.builds.read.shard_cache import MAX_BYTES, RANGE_READS_ABOVE, ShardCache
from airflow_snowpack.builds.read.shard_reader import Row
from airflow_snowpack.builds.storage import Storage

T = TypeVar("T")

log = logging.getLogger(__name__)

RELOAD_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Fallback:
    """Why an older build is served than the pointer names.

    :param wanted: the manifest that the pointer names.
    :param served: the manifest that is served instead.
    :param problem: what is wrong with the wanted one, or with one of its shards.
    """

    wanted: str
    served: str
    problem: str


class SnapshotReader:
    """Reads a dataset; any number of threads may use it at once.

    It can be pickled: the copy opens the dataset anew.

    :param url: the dataset's root, see :class:`~airflow_snowpack.builds.storage.Storage`.
    :param options: of the storage's file system.
    :param cache_dir: where shards of a remote storage are copied to, shared by processes; ``~/.cache/snowpack/builds`` when none
        is named. Local storage is read in place.
    :param cache_bytes: the most that those copies take; the longest unused go first.
    :param range_reads_above: bytes: a look-up in a greater shard of a remote storage reads the pages or row groups that it needs,
        without checking the whole file's checksum, until half of the file was read; then the shard is copied as smaller ones are.
    :param ref: a run's id or a manifest's path, to read that build whatever is published meanwhile.
    :param reload_every: the period on which a question looks at the pointer first; ``None`` to look only when told.
    :param clock: seconds of a clock that never goes back.
    :raises NothingPublished: the dataset has no pointer.
    :raises ManifestDamaged: no published build can be read.
    :raises StorageFailed: the storage could not be read.
    """

    def __init__(
        self,
        url: str | Path | Storage,
        options: Mapping[str, Any] | None = None,
        *,
        cache_dir: str | Path | None = None,
        cache_bytes: int = MAX_BYTES,
        range_reads_above: int = RANGE_READS_ABOVE,
        ref: str | None = None,
        reload_every: timedelta | None = RELOAD_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = url if isinstance(url, Storage) else Storage(url, options)
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._range_reads_above = range_reads_above
        self._cache_bytes, self._ref, self._reload_every, self._clock = cache_bytes, ref, reload_every, clock
        self._period = None if reload_every is None or ref is not None else reload_every.total_seconds()
        self._cache = ShardCache(self._storage, self._cache_dir, cache_bytes, range_reads_above=range_reads_above)
        self._changing = threading.RLock()
        self._scans = 0
        self._damaged: dict[str, ManifestDamaged] = {}
        self._fallback: Fallback | None = None
        self._current: Current | None = None
        if ref is not None:
            self._build = OpenBuild(*find_manifest(self._storage, ref), self._cache)
        else:
            self._current = published_pointer(self._storage)
            self._build = OpenBuild(*newest_whole(self._storage, self._current, self._damaged), self._cache)
            self._tell_fallback()
        self._due = self._next_look()

    def __reduce__(self) -> tuple[Any, ...]:
        return _anew, (
            self._storage,
            self._cache_dir,
            self._cache_bytes,
            self._range_reads_above,
            self._ref,
            self._reload_every,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_: object) -> None:
        self.close()

    @property
    def manifest(self) -> Manifest:
        """Of the build that is served now."""
        return self._build.manifest

    @property
    def publication(self) -> int | None:
        """The number of the pointer's move that was last seen; ``None`` for a reader of one build."""
        return None if self._current is None else self._current.publication

    @property
    def fallback(self) -> Fallback | None:
        """Set while an older build is served, as the published one is damaged."""
        return self._fallback

    def get(self, key: Key, *, category: Key | None = None) -> Row | None:
        """The row with this key; the first one where keys repeat.

        :param category: the value of the column by which the build is sharded, so that only one shard is asked.
        :raises InvalidRowKey: no key of this build can look so, or the build has no such category.
        :raises ManifestDamaged: the shard is damaged, and so is every build to fall back to.
        """
        return self._asked(lambda build: build.get(key, category))

    def get_all(self, key: Key, *, category: Key | None = None) -> list[Row]:
        """All rows with this key; see :meth:`get`."""
        return self._asked(lambda build: build.get_all(key, category))

    def multi_get(self, keys: Iterable[Key], *, category: Key | None = None) -> dict[Key, Row]:
        """What :meth:`get` says for each of these keys; those that are not there are left out."""
        wanted = list(keys)
        return self._asked(lambda build: build.multi_get(wanted, category))

    def scan(self, shard_id: int | None = None) -> Iterator[Row]:
        """All rows of one shard in order of the key, or of all shards, one shard after the other.

        :raises ManifestDamaged: a shard is damaged; a scan that has begun cannot go on in another build. Scan again: the reader
            has stepped back by then.
        """
        return self._scanned(lambda build: build.rows(shard_id))

    def batches(self, shard_id: int | None = None) -> Iterator[pa.RecordBatch]:
        """What :meth:`scan` gives, in Arrow's batches."""
        return self._scanned(lambda build: build.batches(shard_id))

    def reload(self) -> bool:
        """Look at the pointer now, and give what was found damaged another chance.

        A scan that is open stays in its build.

        :returns: whether another build is served from now on.
        :raises NothingPublished: the pointer is gone; what was served goes on being served, as with every error.
        """
        with self._changing:
            self._damaged.clear()
            return self._look(again=self._fallback is not None)

    def close(self) -> None:
        """Close the files. The reader opens them again when it is asked something more."""
        self._build.close()

    def _asked(self, question: Callable[[OpenBuild], T]) -> T:
        if self._due is not None and self._clock() >= self._due:
            self._look_on_time()
        while True:
            build = self._build
            try:
                return question(build)
            except ManifestDamaged as damage:
                self._step_back(build, damage)

    def _scanned(self, question: Callable[[OpenBuild], Iterator[T]]) -> Iterator[T]:
        if self._due is not None and self._clock() >= self._due:
            self._look_on_time()
        with self._scan_open():
            build = self._build
            try:
                yield from question(build)
            except ManifestDamaged as damage:
                self._step_back(build, damage)
                raise

    @contextmanager
    def _scan_open(self) -> Iterator[None]:
        with self._changing:
            self._scans += 1
        try:
            yield
        finally:
            with self._changing:
                self._scans -= 1

    def _look_on_time(self) -> None:
        """Look at the pointer as the period is over; others go on with what there is, and so does this one if that fails."""
        if not self._changing.acquire(blocking=False):
            return
        try:
            if self._scans == 0:
                self._due = self._next_look()
                self._look()
        except BuildError as error:
            log.warning("%s goes on being served from %s: %s", self._storage.url, self._build.path, error)
        finally:
            self._changing.release()

    def _look(self, *, again: bool = False) -> bool:
        """Follow the pointer.

        :param again: also if it has not moved.
        """
        if self._current is None:
            return False
        found = published_pointer(self._storage)
        if found.publication < self._current.publication:
            log.warning(
                "The pointer of %s is at publication %s, and %s was seen before; it is ignored.",
                self._storage.url, found.publication, self._current.publication,
            )  # fmt: skip
            return False
        if found.publication == self._current.publication and not again:
            return False
        return self._serve(found)

    def _serve(self, current: Current) -> bool:
        """Serve what a pointer names, or the nearest before it that is whole. If there is none, all stays as it was."""
        path, manifest = newest_whole(self._storage, current, self._damaged)
        before, self._current = self._build, current
        if path != before.path:
            self._build = OpenBuild(path, manifest, self._cache)
            before.close()
        self._tell_fallback()
        return path != before.path

    def _step_back(self, build: OpenBuild, damage: ManifestDamaged) -> None:
        """Serve another build than this one, which is damaged.

        :raises ManifestDamaged: there is none.
        """
        with self._changing:
            if self._build is not build:
                return  # another thread was here
            if self._current is None:
                raise damage
            self._damaged[build.path] = damage
            self._serve(self._pointer_now() or self._current)

    def _pointer_now(self) -> Current | None:
        """The pointer, if it has moved on: cleanup deletes builds that readers should have left by then."""
        try:
            found = published_pointer(self._storage)
        except BuildError:
            return None
        assert self._current is not None
        return found if found.publication > self._current.publication else None

    def _tell_fallback(self) -> None:
        assert self._current is not None
        wanted, served = self._current.manifest, self._build.path
        if wanted == served:
            self._fallback = None
            return
        told = Fallback(wanted, served, str(self._damaged[wanted]))
        if told != self._fallback:
            log.warning("%s is served from %s instead of %s: %s", self._storage.url, served, wanted, told.problem)
        self._fallback = told

    def _next_look(self) -> float | None:
        return None if self._period is None else self._clock() + self._period


def _anew(
    storage: Storage,
    cache_dir: Path | None,
    cache_bytes: int,
    range_reads_above: int,
    ref: str | None,
    reload_every: timedelta | None,
) -> SnapshotReader:
    return SnapshotReader(
        storage,
        cache_dir=cache_dir,
        cache_bytes=cache_bytes,
        range_reads_above=range_reads_above,
        ref=ref,
        reload_every=reload_every,
    )
