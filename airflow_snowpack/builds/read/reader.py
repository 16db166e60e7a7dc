"""Read a published dataset by key, and follow its pointer from build to build.

    with SnapshotReader("s3://lake/builds/flights", {"region": "eu-central-1"}) as flights:
        flights.get("N14228")                         # a dict, or None
        flights.multi_get(["N14228", "N24211"])       # a dict of the rows that exist
        for row in flights.scan(shard_id=3): ...

Invariant: each answer comes from one complete build, which is never older than that of the previous answer, unless a publication
has rolled the dataset back. The reader checks the pointer periodically and in :meth:`SnapshotReader.reload`; an open scan stays
in its build. If a manifest or a shard is damaged or missing, the reader falls back to the previous build, logs that, and shows it
as ``fallback``. It does not fall back from a build that has answered: it raises the damage until there is another publication.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa

from airflow_snowpack.builds.errors import BuildError, ManifestDamaged
from airflow_snowpack.builds.model import Current, Key, Manifest, is_newer
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
    """Why a reader uses an older build than the pointer names.

    :param wanted: the manifest that the pointer names.
    :param used: the manifest that the reader uses.
    :param problem: what is damaged in the wanted build.
    """

    wanted: str
    used: str
    problem: str


class SnapshotReader:
    """Reads a dataset. A reader is thread-safe; a pickled copy opens the dataset again.

    :param url: the dataset's root; see :class:`~airflow_snowpack.builds.storage.Storage`.
    :param options: of the storage's file system.
    :param cache_dir: the folder for copies of a remote storage's shards, shared by processes; ``~/.cache/snowpack/builds`` by
        default. A local storage is read in place.
    :param cache_bytes: the limit of these copies; the least recently used are deleted first.
    :param range_reads_above: bytes; a look-up in a larger shard of a remote storage reads only the pages or row groups it needs,
        without verifying the checksum of the whole file. Once half of the file was read, the shard is copied like a smaller one.
    :param ref: a run's id or a manifest's path, to read that build and ignore later publications.
    :param reload_every: how often look-ups check the pointer first; ``None``: only :meth:`reload` checks it.
    :param clock: a monotonic clock in seconds.
    :raises NothingPublished: the dataset has no pointer.
    :raises ManifestDamaged: no published build is readable.
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
        self._copy = partial(
            SnapshotReader,
            self._storage,
            cache_dir=cache_dir,
            cache_bytes=cache_bytes,
            range_reads_above=range_reads_above,
            ref=ref,
            reload_every=reload_every,
        )
        self._clock = clock
        self._period_s = None if reload_every is None or ref is not None else reload_every.total_seconds()
        folder = None if cache_dir is None else Path(cache_dir)
        self._cache = ShardCache(self._storage, folder, cache_bytes, range_reads_above=range_reads_above)
        self._lock = threading.RLock()
        self._answered: str | None = None
        self._damaged: dict[str, ManifestDamaged] = {}
        self._fallback: Fallback | None = None
        self._current: Current | None = None
        if ref is not None:
            self._build = OpenBuild(*find_manifest(self._storage, ref), self._cache)
        else:
            self._current = published_pointer(self._storage)
            self._build = OpenBuild(*newest_whole(self._storage, self._current, self._damaged), self._cache)
            self._update_fallback()
        self._check_at = self._next_check()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._copy, ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit_: object) -> None:
        self.close()

    @property
    def manifest(self) -> Manifest:
        """The manifest of the build in use."""
        return self._build.manifest

    @property
    def publication(self) -> int | None:
        """The number of the last publication seen; ``None`` for a reader of one build."""
        return None if self._current is None else self._current.publication

    @property
    def fallback(self) -> Fallback | None:
        """Set while the reader uses an older build because the current one is damaged."""
        return self._fallback

    def get(self, key: Key, *, category: Key | None = None) -> Row | None:
        """Return the row with this key, the first one if keys repeat, or ``None``.

        :param category: the value of the sharding column, to read only one shard.
        :raises InvalidRowKey: the key is not of the build's key type, or the build has no such category.
        :raises ManifestDamaged: the shard is damaged, and so is every build to fall back to, or the build has answered before.
        """
        return self._answer(lambda build: build.get(key, category))

    def get_all(self, key: Key, *, category: Key | None = None) -> list[Row]:
        """Return all rows with this key; parameters and errors as in :meth:`get`."""
        return self._answer(lambda build: build.get_all(key, category))

    def multi_get(self, keys: Iterable[Key], *, category: Key | None = None) -> dict[Key, Row]:
        """Return the rows of several keys, without keys that have none; parameters and errors as in :meth:`get`."""
        wanted = list(keys)
        return self._answer(lambda build: build.multi_get(wanted, category))

    def scan(self, shard_id: int | None = None) -> Iterator[Row]:
        """Yield all rows of one shard in the order of their keys, or of all shards one after another.

        :raises ManifestDamaged: a shard is damaged. A scan cannot switch builds: scan again after the reader has fallen back.
        """
        return self._stream(lambda build: build.rows(shard_id))

    def batches(self, shard_id: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows as Arrow batches; parameters and errors as in :meth:`scan`."""
        return self._stream(lambda build: build.batches(shard_id))

    def reload(self) -> bool:
        """Check the pointer now, and retry builds that were found damaged. An open scan stays in its build.

        :returns: whether the reader now uses another build.
        :raises NothingPublished: the pointer is missing; the reader keeps its build, as after any error.
        """
        with self._lock:
            self._damaged.clear()
            return self._follow_pointer(again=self._fallback is not None)

    def close(self) -> None:
        """Close the files; the next call opens them again."""
        self._build.close()

    def _answer(self, question: Callable[[OpenBuild], T]) -> T:
        if self._check_at is not None and self._clock() >= self._check_at:
            self._check_pointer()
        while True:
            build = self._build
            try:
                answer = question(build)
            except ManifestDamaged as damage:
                self._step_back(build, damage)
                continue
            if build is self._build:
                self._answered = build.path
            return answer

    def _stream(self, question: Callable[[OpenBuild], Iterator[T]]) -> Iterator[T]:
        if self._check_at is not None and self._clock() >= self._check_at:
            self._check_pointer()
        build = self._build
        try:
            yield from question(build)
        except ManifestDamaged as damage:
            self._step_back(build, damage)
            raise
        finally:
            if build is not self._build:
                build.close()  # the files it has opened since the reader left this build

    def _check_pointer(self) -> None:
        """Check the pointer periodically. Meanwhile other threads keep the present build, and on errors so does this one."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._check_at = self._next_check()
            self._follow_pointer()
        except BuildError as error:
            log.warning("%s is still read from %s: %s", self._storage.url, self._build.path, error)
        finally:
            self._lock.release()

    def _follow_pointer(self, *, again: bool = False) -> bool:
        """Use the build that the pointer names; with ``again``, even if the pointer has not changed."""
        if self._current is None:
            return False
        found = published_pointer(self._storage)
        unchanged = found.publication == self._current.publication
        if not unchanged and not is_newer(found.publication, self._current.publication):
            text = "The pointer of %s has publication %s, but %s was seen before; it is ignored."
            log.warning(text, self._storage.url, found.publication, self._current.publication)
            return False
        if unchanged and not again:
            return False
        return self._use(found)

    def _use(self, current: Current) -> bool:
        """Use the build that a pointer names, or the nearest earlier one that is undamaged and not older than the one that has
        answered. If there is none, keep the present build and raise.
        """
        path, manifest = newest_whole(self._storage, current, self._damaged, oldest=self._answered)
        before, self._current = self._build, current
        if path != before.path:
            self._build = OpenBuild(path, manifest, self._cache)
            before.close()
        self._update_fallback()
        return path != before.path

    def _step_back(self, build: OpenBuild, damage: ManifestDamaged) -> None:
        """Use another build instead of this damaged one; raise :class:`ManifestDamaged` if there is none."""
        with self._lock:
            if self._build is not build:
                return  # another thread has done it
            if self._current is None:
                raise damage
            self._damaged[build.path] = damage
            self._use(self._newer_pointer() or self._current)

    def _newer_pointer(self) -> Current | None:
        """Return the pointer if it has changed: cleanup deletes builds that readers should no longer use."""
        try:
            found = published_pointer(self._storage)
        except BuildError:
            return None
        assert self._current is not None
        return found if is_newer(found.publication, self._current.publication) else None

    def _update_fallback(self) -> None:
        assert self._current is not None
        wanted, used = self._current.manifest, self._build.path
        if wanted == used:
            self._fallback = None
            return
        fallback = Fallback(wanted, used, str(self._damaged[wanted]))
        if fallback != self._fallback:
            log.warning("%s is read from %s instead of %s: %s", self._storage.url, used, wanted, fallback.problem)
        self._fallback = fallback

    def _next_check(self) -> float | None:
        return None if self._period_s is None else self._clock() + self._period_s
