"""Write rows as shards without Spark: placed on the local disk, then written by subprocesses, several side by side.

    written = write_rows(rows, storage, run_id, Sharding.hash(8), "tail_number", shard_retry=2)
    winners = select_winners(read_attempts(storage, run_id), 8, run_id)

A shard whose attempt fails is tried again after 1, 2 and 4 s, in a fresh subprocess, up to ``shard_retry`` times; a key or
declaration that cannot be used is not, as it would fail again. The invariant: every try is an attempt at a place of its own, as
with Spark.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pyarrow as pa

from airflow_snowpack.builds.build_input import BuildInput
from airflow_snowpack.builds.model import ShardFormat, Sharding, whole_number
from airflow_snowpack.builds.row_batches import RowBatches, Rows
from airflow_snowpack.builds.scratch import scratch
from airflow_snowpack.builds.shard_crew import ShardCrew
from airflow_snowpack.builds.sharding import Placing, key_type_of
from airflow_snowpack.builds.shards import BATCH_SIZE, ShardPlan
from airflow_snowpack.builds.spool import Spool
from airflow_snowpack.builds.storage import Storage


def write_rows(
    rows: Rows,
    storage: Storage,
    run_id: str,
    sharding: Sharding,
    key_column: str,
    shard_format: ShardFormat = ShardFormat.PARQUET,
    batch_size: int = BATCH_SIZE,
    rows_per_second: float | None = None,
    *,
    schema: pa.Schema | None = None,
    shard_retry: int = 2,
    processes: int | None = None,
    sources: tuple[dict[str, Any], ...] = (),
    stop: threading.Event | None = None,
    max_keys: int | None = None,
) -> BuildInput:
    """Write every row into the shard that it belongs to, and every shard, also those without rows.

    :param rows: a table, a reader, or an iterable of batches, tables or dictionaries; gone through once.
    :param storage: the dataset's root.
    :param rows_per_second: the limit of each subprocess.
    :param schema: that of the rows; without it the first ones decide.
    :param shard_retry: how often a shard is tried again after a failure.
    :param processes: how many write side by side; as many as the machine has cores when none is named.
    :param stop: when it is set, from whatever thread, everything ends soon.
    :param max_keys: the most different keys of a shard.
    :raises InvalidBuild: the rows, the key, a column or the sharding cannot be used.
    :raises InvalidKey: a key is null or outside of 64 bits, or a row belongs to no shard.
    :raises TooManyKeys: a shard gets more different keys than ``max_keys``.
    :raises ShardFailed: a shard could not be written in all of its tries.
    :raises BuildError: it was stopped.
    """
    whole_number("shard_retry", shard_retry, least=0)
    batches = RowBatches(rows, key_column, schema)
    plan = ShardPlan(batches.schema, key_column, shard_format, batch_size, rows_per_second, max_keys)
    placing = Placing(sharding, key_type_of(key_column, plan.schema.field(key_column).type))
    with scratch("snowpack-spool-") as folder:
        _spool(batches, Spool(folder, plan.schema, placing, key_column))
        crew = ShardCrew(storage, run_id, plan, folder, tries=1 + shard_retry)
        crew.write(range(sharding.num_shards), min(sharding.num_shards, processes or os.cpu_count() or 1), stop)
    return BuildInput.of(plan.schema, key_column, sources)


def _spool(batches: RowBatches, spool: Spool) -> None:
    for batch in batches:
        spool.add(batch)
    spool.close()
