"""Read a whole build back, and report every shard that differs from what was written.

    found = verify(storage, "manifests/20260101T000000Z/1.json", manifest)
    found.sound or print(found.problems)

Each shard's checksum is verified. Then its file is opened as readers open it and read to the end, to check its columns, the
number of rows, the order of keys, the smallest and greatest key, look-ups by key, and whether each key belongs to this shard. A
problem in one shard does not hide those of others; only a storage failure ends the verification early.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_snowpack.builds.columns import arrow_schema
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey, ManifestDamaged
from airflow_snowpack.builds.model import Key, Manifest, ShardAttemptResult, ShardFormat, ShardingKind
from airflow_snowpack.builds.read.open_build import READERS
from airflow_snowpack.builds.read.shard_cache import ShardCache
from airflow_snowpack.builds.sharding import Placing, plain_keys
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import check_order
from airflow_snowpack.scratch import scratch_folder

PARALLEL_SHARDS = 4


@dataclass(frozen=True, slots=True)
class ShardProblem:
    """The problem of a shard; ``path`` is its file, if it has one, relative to the dataset's root."""

    shard_id: int
    path: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification; ``manifest`` is the manifest's path, ``rows`` the number of rows read."""

    dataset: str
    run_id: str
    manifest: str
    shards: int
    rows: int
    bytes: int
    problems: tuple[ShardProblem, ...]

    @property
    def sound(self) -> bool:
        return not self.problems


def verify(storage: Storage, path: str, manifest: Manifest) -> Verification:
    """Read a build back. Files of a remote storage are copied to temporary folders, a few in parallel, bypassing readers' caches.

    :param path: the manifest's path, relative to the dataset's root.
    :raises StorageFailed: the storage could not be read.
    """

    def read(shard: ShardAttemptResult) -> tuple[int, ShardProblem | None]:
        try:
            return _rows(storage, manifest, shard), None
        except (ManifestDamaged, InvalidBuild, InvalidRowKey) as error:
            return 0, ShardProblem(shard.shard_id, shard.url, str(error))

    with ThreadPoolExecutor(PARALLEL_SHARDS, "snowpack-verify") as pool:
        found = list(pool.map(read, manifest.shards))
    return Verification(
        dataset=manifest.dataset,
        run_id=manifest.run_id,
        manifest=path,
        shards=len(manifest.shards),
        rows=sum(rows for rows, _ in found),
        bytes=manifest.bytes,
        problems=tuple(problem for _, problem in found if problem is not None),
    )


def check_checksums(storage: Storage, manifest: Manifest) -> None:
    """Compare each shard's file with its checksum in the manifest; files are copied as in :func:`verify`.

    :raises ManifestDamaged: a file is not what was written, or does not exist.
    :raises StorageFailed: the storage could not be read.
    """

    def check(shard: ShardAttemptResult) -> None:
        with scratch_folder() as folder, ShardCache(storage, folder).path(shard):
            pass

    with ThreadPoolExecutor(PARALLEL_SHARDS, "snowpack-verify") as pool:
        list(pool.map(check, [shard for shard in manifest.shards if shard.url is not None]))


def _rows(storage: Storage, manifest: Manifest, shard: ShardAttemptResult) -> int:
    """Read a shard and return its number of rows; if it differs from the manifest, raise an error that ``verify`` reports."""
    if shard.url is None:
        return 0  # reading the manifest has checked that such a shard has no rows
    with scratch_folder() as folder:
        cache = ShardCache(storage, folder)
        reader = READERS[manifest.shard_format](partial(cache.path, shard), manifest, cache.in_place)
        try:
            found = _Found(shard.url, manifest, shard)
            for batch in reader.batches():
                found.add(batch)
                if found.last is not None and reader.get(found.last) is None:
                    raise ManifestDamaged(shard.url, f"a look-up of its key {found.last!r:.100} does not find it")
            found.check()
        finally:
            reader.close()
    return found.rows


def _columns_of(manifest: Manifest) -> pa.Schema | None:
    """Return the columns as a reader gets them: Parquet has no seconds, for example, and returns milliseconds.

    Return ``None`` if the manifest cannot name a type of a Parquet shard: an extension type, for example.
    """
    try:
        schema = arrow_schema(manifest.columns)
    except InvalidBuild:
        if manifest.shard_format is ShardFormat.SQLITE:
            raise
        return None
    if manifest.shard_format is ShardFormat.SQLITE:
        return schema
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    return pq.read_schema(pa.BufferReader(sink.getvalue()))


class _Found:
    """The rows of a shard read so far, checked against the manifest."""

    def __init__(self, url: str, manifest: Manifest, shard: ShardAttemptResult) -> None:
        self._url, self._manifest, self._shard = url, manifest, shard
        self._columns = _columns_of(manifest)
        self._placing = Placing(manifest.sharding, manifest.key_type)
        self.rows = 0
        self.first: Key | None = None
        self.last: Key | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names != [name for name, _ in self._manifest.columns] or not (
            self._columns is None or self._columns.equals(batch.schema)
        ):
            raise ManifestDamaged(self._url, f"its columns are {str(batch.schema)!r:.300}")
        if not len(batch):
            return
        keys = plain_keys(batch.column(self._manifest.key_column))
        check_order(keys, self.last)
        self._check_place(batch)
        self.rows += len(batch)
        self.first = keys[0].as_py() if self.first is None else self.first
        self.last = keys[-1].as_py()

    def _check_place(self, batch: pa.RecordBatch) -> None:
        sharding = self._manifest.sharding
        if sharding.kind is ShardingKind.EXPRESSION:
            return  # only Spark can evaluate it
        column = batch.column(sharding.column or self._manifest.key_column)
        others = column.filter(pc.not_equal(self._placing.shards(column), self._shard.shard_id))
        if len(others):
            raise ManifestDamaged(self._url, f"{others[0].as_py()!r:.100} belongs to another shard")

    def check(self) -> None:
        """Raise :class:`ManifestDamaged` if all batches together differ from the manifest."""
        shard = self._shard
        if self.rows != shard.rows:
            raise ManifestDamaged(self._url, f"it has {self.rows:,} rows, and {shard.rows:,} in the manifest")
        for what, found, recorded in (("smallest", self.first, shard.min_key), ("greatest", self.last, shard.max_key)):
            if found != recorded:
                raise ManifestDamaged(self._url, f"its {what} key is {found!r:.100}, and {recorded!r:.100} in the manifest")
