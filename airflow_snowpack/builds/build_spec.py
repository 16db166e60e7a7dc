"""What is built: the dataset, its key, how its rows are placed, and in which form they are kept.

spec = BuildSpec(dataset="features_by_user", key="user_id", sharding=Sharding.hash(8), shard_format=ShardFormat.SQLITE)
spec = BuildSpec(dataset="features_by_user", key="user_id", max_keys_per_shard=1_000_000)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.layout import check_dataset
from airflow_snowpack.builds.model import Retention, ShardFormat, Sharding, plain_text, whole_number
from airflow_snowpack.builds.pace import Pace
from airflow_snowpack.builds.sharding import fewest_shards
from airflow_snowpack.builds.shards import BATCH_SIZE

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """A build as it is declared; the same for every run of it.

    :param key: the column that readers look rows up by.
    :param sharding: how rows are placed. Without it by a hash, over as few shards as ``max_keys_per_shard`` allows.
    :param max_keys_per_shard: the most different keys of any shard; the keys are then counted first, in a pass of their own.
    :param batch_size: rows that a writer holds and writes at once; in Parquet, those of a row group.
    :param rows_per_second: the limit of each writer, several of which work side by side; ``None`` for none.
    :param shard_retry: how often a shard is tried again; with Spark, its own ``spark.task.maxFailures`` decides.
    :param processes: how many write side by side without Spark; ``None``: as many as the machine has cores.
    :param retention: what the cleanup after a publication keeps; ``None``: it is not cleaned up.
    :raises InvalidBuild: a name or a number that cannot be used, or not exactly one of ``sharding`` and ``max_keys_per_shard``.
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
        Pace(self.rows_per_second)  # checks it
        if (self.sharding is None) == (self.max_keys_per_shard is None):
            raise InvalidBuild("sharding", self.sharding, "exactly one of sharding and max_keys_per_shard must be given")
        if self.max_keys_per_shard is not None:
            whole_number("max_keys_per_shard", self.max_keys_per_shard, least=1)

    def placed(self, count_keys: Callable[[], np.ndarray]) -> Sharding:
        """How rows are placed.

        :param count_keys: counts the different keys of the input by bucket, see :func:`fewest_shards`; called only if needed.
        :raises InvalidBuild: there are more keys than shards could hold.
        """
        if self.sharding is not None:
            return self.sharding
        assert self.max_keys_per_shard is not None
        return Sharding.hash(fewest_shards(count_keys(), self.max_keys_per_shard))
