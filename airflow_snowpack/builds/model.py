"""The values of a build: keys, sharding, attempts, manifest, pointer, and what cleanup keeps and deletes.

    >>> hash_shard("N14228", KeyType.STRING, num_shards=8)
    6

A key's shard is xxh3-64 with seed 0 of its canonical bytes, as an unsigned number, modulo the number of shards; readers in any
language can repeat this. The bytes of an integer are 8, signed and little-endian; those of a string its UTF-8; bytes are
themselves. A key without such bytes is refused, never rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import xxhash

from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey

NO_TASK_ATTEMPT = 2**63 - 1
"""Replaces a missing ``task_attempt_id`` in the order of attempts."""

MAX_SHARDS = 100_000
"""The limit of shards of a build; the names of their folders have five digits."""


MAX_PUBLICATION = 2**53 - 1
"""The greatest number that every JSON parser reads exactly; a pointer with a greater number is damaged."""


def is_newer(publication: int, than: int) -> bool:
    """Return whether a publication follows another one: its number is greater, or the other one has the last number."""
    return publication > than or publication < than == MAX_PUBLICATION


def whole_number(field: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise :class:`InvalidBuild` unless a declared value is an integer within these bounds; ``True`` is not an integer."""
    allowed = f"at least {least}" if most is None else f"from {least:,} to {most:,}"
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise InvalidBuild(field, value, f"it must be an integer {allowed}")


def plain_text(field: str, value: object) -> None:
    """Raise :class:`InvalidBuild` unless a declared value is a string that has UTF-8, as the manifest's JSON needs."""
    if not isinstance(value, str):
        raise InvalidBuild(field, value, f"it must be a string, and is {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidBuild(field, value, f"it is not Unicode text ({error.reason})") from None


Key = int | str | bytes


class KeyType(StrEnum):
    """The types of keys. Columns of narrower integers are ``INTEGER``."""

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
    """Return the shard of a key, from 0 to ``num_shards - 1``; errors as of :func:`canonical`."""
    return xxhash.xxh3_64_intdigest(canonical(key, key_type), seed=0) % num_shards


class ShardFormat(StrEnum):
    """The format of a shard's file: ``shard.parquet`` sorted by key, or ``shard.sqlite`` for point look-ups."""

    PARQUET = "parquet"
    SQLITE = "sqlite"


class FileCheck(StrEnum):
    """What a publication checks of each shard's file before the build becomes current."""

    SIZES = "sizes"
    CHECKSUMS = "checksums"

    @classmethod
    def read(cls, value: object) -> FileCheck:
        """Read the argument ``verify``, or raise :class:`InvalidBuild`."""
        if value not in list(cls):
            raise InvalidBuild("verify", value, f"it must be one of {', '.join(cls)}")
        return cls(str(value))


class ShardingKind(StrEnum):
    """What decides about a row's shard."""

    HASH = "hash"
    CATEGORIES = "categories"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class Sharding:
    """How rows are distributed over shards. Create one with :meth:`hash`, :meth:`categories` or :meth:`expression`.

    :param num_shards: the ids of shards go from 0 to ``num_shards - 1``.
    :param values: the categories of ``column`` in the order of their shard ids.
    :param sql: a Spark SQL expression whose value is the shard's id.
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
        """Shard by xxh3-64 of the key; see :func:`hash_shard`."""
        return cls(ShardingKind.HASH, num_shards)

    @classmethod
    def categories(cls, column: str, values: tuple[Key, ...]) -> Sharding:
        """Shard by the value of a column, one shard per value; a row with another value aborts the build.

        :raises InvalidBuild: there is no value, a value occurs twice, or it cannot be a key.
        """
        for value in values:
            _check_category(value)
        if len(set(values)) != len(values):
            raise InvalidBuild("values", values, "each category may occur only once")
        return cls(ShardingKind.CATEGORIES, len(values), column=column, values=values)

    @classmethod
    def expression(cls, sql: str, num_shards: int) -> Sharding:
        """Shard by an expression over the columns; a value outside of ``[0, num_shards)`` aborts the build."""
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
    """What one successful attempt at one shard wrote; also the content of the attempt's record.

    :param attempt: Spark's ``attemptNumber``, or the number of the try, from 0.
    :param task_attempt_id: Spark's ``taskAttemptId``; ``None`` without Spark.
    :param url: the file, relative to the dataset's root; ``None`` when the attempt wrote no file.
    :param checksum: ``xxh3_64:`` and 16 hex digits, of the file's bytes.
    :param block_seed: 16 hex digits, the seed of the checksums inside the file; ``None`` if it has none.
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
    """A build as readers see it: the winners of all shards, and what is needed to find a key in them.

    :param as_of: the time of the data (the end of the data interval); an older build never replaces a newer one.
    :param columns: the names and Arrow types of the columns, in order.
    :param sources: the origin of the rows: ``{"table": …, "snapshot_id": …}``.
    :param previous: the manifest that was current before this one was published, for readers that find this one damaged.
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

    :param publication: counts the changes of the pointer, including rollbacks, and never decreases: a reader that has seen 8
        ignores 7.
    :param manifest: path of the manifest, relative to the dataset's root; ``checksum``: of its bytes.
    :param previous: the manifest to fall back to when this one, or one of its shards, is damaged; with a checksum of its own.
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
    """The phases of a cleanup, in their order."""

    LOSERS = "losers"
    STALE_ATTEMPTS = "stale_attempts"
    OLD_RUNS = "old_runs"


@dataclass(frozen=True, slots=True)
class CleanupAction:
    """One deletion, planned or done.

    :param path: a folder (it ends in "/") or a single object, relative to the dataset's root.
    :param reason: why no reader and no writer needs it.
    :param objects: the number of objects, deleted or, in a dry run, found; ``bytes``: their size.
    :param error: why it could not be deleted or read; the next cleanup finds it again.
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

    :param keep_runs: the number of published runs to keep, at least 1, the newest first; the current run is always kept.
    :param stale_attempt_age: how long ago the lease of a running run must have expired for the run to count as abandoned.
    """

    keep_runs: int = 7
    stale_attempt_age: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        whole_number("keep_runs", self.keep_runs, least=1)
        if self.stale_attempt_age < timedelta(0):
            raise InvalidBuild("stale_attempt_age", self.stale_attempt_age, "it must not be negative")
