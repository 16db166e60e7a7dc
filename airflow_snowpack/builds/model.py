"""Values of a build: keys, sharding, attempts, the manifest, the pointer and cleanup.

    >>> hash_shard("N14228", KeyType.STRING, num_shards=8)
    6

A key's shard is the unsigned xxh3-64 (seed 0) of its canonical bytes modulo the number of shards, so readers in any language can
compute it. The canonical bytes of an integer are 8 bytes, signed and little-endian; of a string, its UTF-8; of bytes, the bytes.
A key without canonical bytes is rejected, never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import xxhash

from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey

NO_TASK_ATTEMPT = 2**63 - 1
"""Sorts attempts without a ``task_attempt_id`` last."""

MAX_SHARDS = 100_000
"""The maximum number of shards of a build: the names of shard folders have five digits."""


MAX_PUBLICATION = 2**53 - 1
"""The largest integer that every JSON parser reads exactly. A pointer with a larger number is damaged."""


def is_newer(publication: int, than: int) -> bool:
    """Return whether a publication follows another: its number is greater, or the other has the last number."""
    return publication > than or publication < than == MAX_PUBLICATION


def whole_number(field: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise :class:`InvalidBuild` unless a declared value is an integer, not a bool, within these bounds."""
    allowed = f"at least {least}" if most is None else f"from {least:,} to {most:,}"
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise InvalidBuild(field, value, f"it must be an integer {allowed}")


def plain_text(field: str, value: object) -> None:
    """Raise :class:`InvalidBuild` unless a declared value is a string that UTF-8, and thus the manifest's JSON, can encode."""
    if not isinstance(value, str):
        raise InvalidBuild(field, value, f"it must be a string, and is {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidBuild(field, value, f"it is not Unicode text ({error.reason})") from None


Key = int | str | bytes


class KeyType(StrEnum):
    """The type of a build's keys; ``INTEGER`` includes narrower integers."""

    INTEGER = "integer"
    STRING = "string"
    BYTES = "bytes"


PYTHON_TYPE: dict[KeyType, type] = {KeyType.INTEGER: int, KeyType.STRING: str, KeyType.BYTES: bytes}


def canonical(key: object, key_type: KeyType) -> bytes:
    """Return the bytes of a key that are hashed.

    :raises InvalidRowKey: the key is null, of another type, an integer outside of 64 bits, or a string that is not Unicode.
    """
    match key_type, key:
        case KeyType.INTEGER, int() if not isinstance(key, bool):
            try:
                return key.to_bytes(8, "little", signed=True)
            except OverflowError:
                raise InvalidRowKey(key, "an integer key must fit into 64 bits, signed") from None
        case KeyType.STRING, str():
            try:
                return key.encode()
            except UnicodeEncodeError as error:
                raise InvalidRowKey(key, f"it is not Unicode text ({error.reason})") from None
        case KeyType.BYTES, bytes() | bytearray() | memoryview():
            return bytes(key)
    found = type(key).__name__
    raise InvalidRowKey(key, f"it is of the type {found}, and the keys of this build are of the type {key_type.value}")


def hash_shard(key: object, key_type: KeyType, num_shards: int) -> int:
    """Return the shard of a key, from 0 to ``num_shards - 1``; raises like :func:`canonical`."""
    return xxhash.xxh3_64_intdigest(canonical(key, key_type), seed=0) % num_shards


class ShardFormat(StrEnum):
    """The file format of a shard: ``shard.parquet`` sorted by key, or ``shard.sqlite`` for point look-ups."""

    PARQUET = "parquet"
    SQLITE = "sqlite"


class FileCheck(StrEnum):
    """What a publication checks in each shard's file before the build becomes current."""

    SIZES = "sizes"
    CHECKSUMS = "checksums"

    @classmethod
    def read(cls, value: object) -> FileCheck:
        """Parse the argument ``verify``, or raise :class:`InvalidBuild`."""
        if value not in list(cls):
            raise InvalidBuild("verify", value, f"it must be one of {', '.join(cls)}")
        return cls(str(value))


class ShardingKind(StrEnum):
    """What determines a row's shard."""

    HASH = "hash"
    CATEGORIES = "categories"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class Sharding:
    """How rows are distributed over shards; created by :meth:`hash`, :meth:`categories` or :meth:`expression`.

    :param num_shards: shard ids range from 0 to ``num_shards - 1``.
    :param values: the categories of ``column``, in the order of their shard ids.
    :param sql: a Spark SQL expression that returns the shard id.
    """

    kind: ShardingKind
    num_shards: int
    column: str | None = None
    values: tuple[Key, ...] = ()
    sql: str | None = None

    def __post_init__(self) -> None:
        whole_number("num_shards", self.num_shards, least=1, most=MAX_SHARDS)
        for field_name, text in (("column", self.column), ("expression", self.sql)):
            if text is not None:
                plain_text(field_name, text)

    @classmethod
    def hash(cls, num_shards: int) -> Sharding:
        """Shard by xxh3-64 of the key (:func:`hash_shard`)."""
        return cls(ShardingKind.HASH, num_shards)

    @classmethod
    def categories(cls, column: str, values: tuple[Key, ...]) -> Sharding:
        """Shard by a column, one shard per value. A row with any other value aborts the build.

        :raises InvalidBuild: there are no values, a value occurs twice, or a value cannot be a key.
        """
        for value in values:
            _check_category(value)
        if len(set(values)) != len(values):
            raise InvalidBuild("values", values, "each category may occur only once")
        return cls(ShardingKind.CATEGORIES, len(values), column=column, values=values)

    @classmethod
    def expression(cls, sql: str, num_shards: int) -> Sharding:
        """Shard by an expression over the columns. A result outside of ``[0, num_shards)`` aborts the build."""
        return cls(ShardingKind.EXPRESSION, num_shards, sql=sql)


def _check_category(value: object) -> None:
    kind = next((kind for kind, python in PYTHON_TYPE.items() if isinstance(value, python)), KeyType.STRING)
    try:
        canonical(value, kind)
    except InvalidRowKey:
        problem = "a category is an integer of up to 64 bits, Unicode text or bytes"
        raise InvalidBuild("values", value, problem) from None


@dataclass(frozen=True, slots=True)
class ShardAttemptResult:
    """What a successful attempt at a shard wrote; also the content of the attempt's record.

    :param attempt: Spark's ``attemptNumber``, or the number of the try, from 0.
    :param task_attempt_id: Spark's ``taskAttemptId``; ``None`` without Spark.
    :param url: the file, relative to the dataset's root; ``None`` if the attempt wrote no file.
    :param checksum: of the file's bytes: ``xxh3_64:`` and 16 hex digits.
    :param block_seed: the seed of the checksums inside the file, 16 hex digits; ``None`` if it has none.
    """

    run_id: str
    shard_id: int
    attempt: int
    task_attempt_id: int | None
    url: str | None
    rows: int
    bytes: int
    min_key: Key | None
    max_key: Key | None
    checksum: str | None
    finished_at: datetime
    block_seed: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A build as readers see it: the winner of each shard, and what a look-up needs.

    :param as_of: the end of the data interval; an older build never replaces a newer one.
    :param columns: names and Arrow types of the columns, in order.
    :param sources: the origin of the rows: ``{"table": …, "snapshot_id": …}``.
    :param previous: the manifest that was current before this one; readers fall back to it if this one is damaged.
    """

    dataset: str
    run_id: str
    as_of: datetime
    created_at: datetime
    key_column: str
    key_type: KeyType
    sharding: Sharding
    shard_format: ShardFormat
    columns: tuple[tuple[str, str], ...]
    shards: tuple[ShardAttemptResult, ...]
    sources: tuple[dict[str, Any], ...] = ()
    previous: str | None = None

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


@dataclass(frozen=True, slots=True)
class Current:
    """The pointer, ``_CURRENT``.

    :param publication: counts the pointer's changes, including rollbacks, and never decreases: after 8, readers ignore 7.
    :param manifest: the manifest's path, relative to the dataset's root; ``checksum`` is that of its bytes.
    :param previous: the manifest to fall back to, with its checksum, if this one or one of its shards is damaged.
    """

    dataset: str
    publication: int
    run_id: str
    manifest: str
    checksum: str
    moved_at: datetime
    previous: str | None = None
    previous_checksum: str | None = None


class CleanupPhase(StrEnum):
    """A phase of a cleanup; members are in execution order."""

    LOSERS = "losers"
    STALE_ATTEMPTS = "stale_attempts"
    OLD_RUNS = "old_runs"


@dataclass(frozen=True, slots=True)
class CleanupAction:
    """A deletion, planned or done.

    :param path: a folder (ends in "/") or an object, relative to the dataset's root.
    :param reason: why no reader and no writer needs it.
    :param objects: the number of objects deleted, or found by a dry run; ``bytes`` is their size.
    :param error: why it could not be deleted or read; the next cleanup tries again.
    """

    phase: CleanupPhase
    dataset: str
    run_id: str
    path: str
    reason: str
    shard_id: int | None = None
    objects: int | None = None
    bytes: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """What cleanup keeps.

    :param keep_runs: the number of newest published runs to keep, at least 1; the current run is always kept.
    :param stale_attempt_age: how long after its lease expired a running run counts as abandoned.
    """

    keep_runs: int = 7
    stale_attempt_age: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        whole_number("keep_runs", self.keep_runs, least=1)
        if self.stale_attempt_age < timedelta(0):
            raise InvalidBuild("stale_attempt_age", self.stale_attempt_age, "it must not be negative")
