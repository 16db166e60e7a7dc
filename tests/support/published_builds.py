"""Builds that are published through the registry, without Spark or subprocesses, for tests of what follows a publication.

publish_build(registry, Storage(url), "features", as_of=DAY, rows={"a": 1, "b": 2})
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.builds.model import KeyType, Manifest, ShardFormat, Sharding
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import PublishOutcome
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.sharding import Placing
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt


def publish_build(
    registry: BuildRegistry, storage: Storage, dataset: str, *, as_of: datetime, rows: Mapping[str, int], num_shards: int = 2
) -> PublishOutcome:
    """Write and publish one run of a dataset whose rows are a key and a value."""
    table = pa.table({"key": pa.array(rows.keys(), pa.string()), "value": pa.array(rows.values(), pa.int64())})
    handle = registry.begin(dataset, storage.url, as_of=as_of, num_shards=num_shards, storage=storage)
    sharding, plan = Sharding.hash(num_shards), ShardPlan(table.schema, "key", ShardFormat.SQLITE, 100)
    placed = Placing(sharding, KeyType.STRING).shards(table.column("key").combine_chunks())
    shards = tuple(
        write_attempt(
            storage,
            AttemptPlace(handle.run_id, shard_id, 0, "0"),
            plan,
            table.filter(pc.equal(placed, shard_id)).sort_by("key").to_batches(),
        )
        for shard_id in range(num_shards)
    )
    manifest = Manifest(
        dataset=dataset,
        run_id=handle.run_id,
        as_of=as_of,
        created_at=datetime.now(UTC),
        key_column="key",
        key_type=KeyType.STRING,
        sharding=sharding,
        shard_format=ShardFormat.SQLITE,
        columns=tuple((field.name, str(field.type)) for field in table.schema),
        shards=shards,
    )
    return publish(registry, storage, handle, manifest)
