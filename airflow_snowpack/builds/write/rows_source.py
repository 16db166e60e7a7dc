"""Write rows as shards without Spark: spool them to the local disk, then let parallel subprocesses write the shards.

    written = RowsSource([{"id": 1, "name": "a"}, {"id": 2, "name": None}]).write(storage, run_id, spec, sharding, Interrupt())

A failed attempt is retried after 1, 2 and 4 s in a new subprocess, up to ``shard_retry`` times, unless a key or the declaration
is at fault. As with Spark, each try is an attempt with its own folder. What does not fit the schema is refused, never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.arrow.rows import Misfit, RowBatches
from airflow_snowpack.builds.build_spec import BuildInput, BuildSpec, Interrupt, check_sources
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.model import PYTHON_TYPE, KeyType, Sharding, canonical
from airflow_snowpack.builds.sharding import BUCKETS, Placing, bucket_of, key_type_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import check_key
from airflow_snowpack.builds.write.shard_pool import ShardPool, Spool, SpooledRun
from airflow_snowpack.scratch import scratch_folder

DICTIONARY_BATCH_SIZE = 10_000
NO_COLUMN = (pa.ArrowException, OverflowError, TypeError, ValueError)

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch | pa.Table | Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class RowsSource:
    """Python rows as the source of a build; see :class:`BuildSource`.

    :param rows: a table, a reader, or an iterable of batches, tables or dictionaries, which is consumed.
    :param schema: the columns of the rows; ``None`` to infer them from the first batch or the first 10,000 dictionaries.
    :param sources: the origin of the rows, for the manifest.
    """

    rows: Rows
    schema: pa.Schema | None = None
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the distinct keys by bucket; raise :class:`InvalidBuild` unless the rows are a table with this key column."""
        if not isinstance(self.rows, pa.Table):
            problem = "only the keys of a table can be counted first; set sharding"
            raise InvalidBuild("max_keys_per_shard", type(self.rows).__name__, problem)
        check_key(self.rows.schema, key)
        keys = pc.unique(self.rows.column(key)).drop_null()  # writing refuses null
        return np.bincount(bucket_of(keys), minlength=BUCKETS)

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write all shards; see :meth:`BuildSource.write`. Raise ``ShardFailed`` if a shard fails in all of its tries."""
        batches = InputBatches(self.rows, spec.key, self.schema)
        plan = spec.plan(batches.schema)
        placing = Placing(sharding, key_type_of(spec.key, plan.schema.field(spec.key).type))
        with scratch_folder() as folder:
            spool = Spool(folder, plan.schema, placing, spec.key)
            for batch in batches:
                spool.add(batch)
            spool.close()
            pool = ShardPool(SpooledRun(storage, run_id, plan, folder, spool.chunks), tries=1 + spec.shard_retry)
            processes = min(sharding.num_shards, spec.processes or os.cpu_count() or 1)
            pool.write(range(sharding.num_shards), processes, interrupt.stop)
        return BuildInput.of(plan.schema, spec.key, self.sources)


class InputBatches:
    """Arrow batches of one schema, iterable once. Without a schema, there must be rows to infer it from."""

    def __init__(self, rows: Rows, key_column: str, schema: pa.Schema | None = None) -> None:
        self._key = key_column
        self._declared = schema or getattr(rows, "schema", None)
        batches = self._batches(iter(rows.to_batches() if isinstance(rows, pa.Table) else rows))
        first = next(batches, None)
        if first is None and self._declared is None:
            raise InvalidBuild("rows", [], "there are no rows to infer the columns from; set the schema")
        self.schema: pa.Schema = first.schema if first is not None and self._declared is None else self._declared
        self._rest = batches if first is None else chain([first], batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._rest

    def _batches(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for row in rows:
            if isinstance(row, pa.RecordBatch):
                yield row
            elif isinstance(row, pa.Table):
                yield from row.to_batches()
            elif isinstance(row, Mapping):
                yield from self._from_dictionaries(chain([row], rows))
            else:
                raise InvalidBuild("rows", row, f"{type(row).__name__} is neither an Arrow batch nor a table nor a dictionary")

    def _from_dictionaries(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        while some := list(islice(rows, DICTIONARY_BATCH_SIZE)):
            if self._declared is None:
                self._declared = self._infer_schema(some)
            try:
                yield RowBatches(self._declared).of(some)
            except Misfit as misfit:
                self._check_keys(some, self._declared)
                problem = f"it has {misfit}. Set the schema, or correct the rows"
                raise InvalidBuild("rows", some[misfit.number], problem) from misfit

    def _infer_schema(self, some: list[Any]) -> pa.Schema:
        try:
            names = dict.fromkeys(name for row in some for name in row)
            return pa.RecordBatch.from_pylist([{name: row.get(name) for name in names} for row in some]).schema
        except (*NO_COLUMN, AttributeError) as error:
            self._check_keys(some, None)
            problem = f"they do not fit one schema ({error}); set the schema, or correct the rows"
            raise InvalidBuild("rows", "…", problem) from error

    def _check_keys(self, some: list[Any], schema: pa.Schema | None) -> None:
        """Raise :class:`InvalidRowKey` if a key is what does not fit."""
        keys = [row.get(self._key) for row in some if isinstance(row, Mapping)]
        try:
            pa.array(keys, schema.field(self._key).type if schema is not None else None)
        except NO_COLUMN as error:
            sound = next((key for key in keys if key is not None), None)
            kind = _key_type(self._key, sound) if schema is None else key_type_of(self._key, schema.field(self._key).type)
            for key in keys:
                canonical(key, kind)
            raise InvalidRowKey(sound, f"the keys do not fit one type ({error})") from error


def _key_type(column: str, key: object) -> KeyType:
    """Return the type of a key, including integers and strings that Arrow cannot represent."""
    kind = next((kind for kind, python in PYTHON_TYPE.items() if isinstance(key, python) and not isinstance(key, bool)), None)
    return key_type_of(column, pa.array([key]).type) if kind is None else kind
