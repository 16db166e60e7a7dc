"""The declaration of a build, its source of rows, and the result of writing it.

    spec = BuildSpec(dataset="features_by_user", key="user_id", sharding=Sharding.hash(8), shard_format=ShardFormat.SQLITE)
    spec = BuildSpec(dataset="features_by_user", key="user_id", max_keys_per_shard=1_000_000)

A spec declares either the sharding or the maximum of keys per shard.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.layout import check_dataset
from airflow_snowpack.builds.model import KeyType, Retention, ShardFormat, Sharding, plain_text, whole_number
from airflow_snowpack.builds.sharding import key_type_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import BATCH_SIZE, RateLimit, ShardPlan
from airflow_snowpack.spark import SparkWork

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """The declaration of a build, shared by all of its runs.

    :param key: the column by which readers look up rows.
    :param sharding: how rows are distributed. ``None``: by hash, over as few shards as ``max_keys_per_shard`` allows.
    :param max_keys_per_shard: the maximum of distinct keys per shard; counting them takes an extra pass over the input.
    :param batch_size: rows that a writer buffers and writes at once; in Parquet, the rows per row group.
    :param rows_per_second: the limit of each parallel writer; ``None`` for no limit.
    :param shard_retry: retries per shard without Spark; with Spark, ``spark.task.maxFailures`` decides.
    :param processes: parallel writers without Spark; ``None`` for one per CPU core.
    :param retention: what the cleanup after a publication keeps; ``None`` for no cleanup.
    :raises InvalidBuild: a name or a number is invalid, or not exactly one of ``sharding`` and ``max_keys_per_shard`` is set.
    """

    dataset: str
    key: str
    sharding: Sharding | None = None
    max_keys_per_shard: int | None = None
    shard_format: ShardFormat = ShardFormat.PARQUET
    batch_size: int = BATCH_SIZE
    rows_per_second: float | None = None
    shard_retry: int = 2
    processes: int | None = None
    retention: Retention | None = field(default_factory=Retention)

    def __post_init__(self) -> None:
        check_dataset(self.dataset)
        plain_text("key", self.key)
        whole_number("batch_size", self.batch_size, least=1)
        whole_number("shard_retry", self.shard_retry, least=0)
        if self.processes is not None:
            whole_number("processes", self.processes, least=1)
        RateLimit(self.rows_per_second)  # checks the number
        if (self.sharding is None) == (self.max_keys_per_shard is None):
            raise InvalidBuild("sharding", self.sharding, "set exactly one of sharding and max_keys_per_shard")
        if self.max_keys_per_shard is not None:
            whole_number("max_keys_per_shard", self.max_keys_per_shard, least=1)

    def plan(self, schema: pa.Schema) -> ShardPlan:
        """Return what all shards of an input with this schema share; raises like :class:`ShardPlan`."""
        return ShardPlan(
            schema, self.key, self.shard_format, self.batch_size, self.rows_per_second, max_keys=self.max_keys_per_shard
        )


def check_sources(sources: tuple[dict[str, Any], ...]) -> None:
    """Raise :class:`InvalidBuild` for sources that the manifest cannot store as JSON."""
    try:
        json.dumps(sources, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError too
        raise InvalidBuild("sources", sources, f"the manifest cannot hold it as JSON ({error})") from error


@dataclass(frozen=True, slots=True)
class BuildInput:
    """What the writers have written; with the winners it makes up the manifest. It travels between tasks as JSON.

    :param columns: names and Arrow types of the shards' columns, in order.
    :param sources: the origin of the rows: ``{"table": …, "snapshot_id": …}``.
    """

    key_column: str
    key_type: KeyType
    columns: tuple[tuple[str, str], ...]
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @classmethod
    def of(cls, schema: pa.Schema, key_column: str, sources: tuple[dict[str, Any], ...] = ()) -> BuildInput:
        key_type = key_type_of(key_column, schema.field(key_column).type)
        return cls(key_column, key_type, tuple((field.name, str(field.type)) for field in schema), sources)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-compatible form."""
        return {
            "key_column": self.key_column,
            "key_type": self.key_type.value,
            "columns": [list(column) for column in self.columns],
            "sources": [dict(source) for source in self.sources],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> BuildInput:
        columns = tuple((str(name), str(kind)) for name, kind in content["columns"])
        sources = tuple(dict(source) for source in content["sources"])
        return cls(content["key_column"], KeyType(content["key_type"]), columns, sources)


class Interrupt:
    """Stops a writer. It only sets flags, so a signal handler may call it."""

    def __init__(self) -> None:
        self.work = SparkWork()
        self.stop = threading.Event()

    def __call__(self) -> None:
        self.work.interrupt()
        self.stop.set()


class BuildSource(Protocol):
    """Rows to write as shards."""

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the distinct keys by bucket (see :func:`fewest_shards`)."""

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write each row into its shard, and all shards, including empty ones.

        :param storage: the dataset's root.
        :raises InvalidBuild: the rows, the key, a column or the sharding cannot be used.
        :raises InvalidRowKey: a key is null or outside of 64 bits, or a row belongs to no shard.
        :raises TooManyKeys: a shard has more distinct keys than the spec allows.
        :raises BuildError: a shard failed in all of its tries, or the writer was interrupted.
        """
