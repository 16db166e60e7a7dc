"""Read a published build as a Spark DataFrame, with one partition per shard that has rows.

    df = read_build(spark, "s3://lake/builds/flights")
    before = read_build(spark, "s3://lake/builds/flights", ref="20260101T000000Z")

The DataFrame has exactly the rows of one complete build; each shard's file is verified against the manifest. Executors open the
storage themselves: they need this package with pyarrow, xxhash and apsw, and the storage's credentials in its options. A task
copies the shard of a remote storage into a temporary folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from airflow_snowpack.arrow.casting import cast_batch
from airflow_snowpack.builds.columns import arrow_schema
from airflow_snowpack.builds.errors import InvalidBuild, ManifestDamaged
from airflow_snowpack.builds.model import Manifest
from airflow_snowpack.builds.pointer import find_manifest, newest_whole, published_pointer
from airflow_snowpack.builds.read.open_build import OpenBuild
from airflow_snowpack.builds.read.shard_cache import ShardCache
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.scratch import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAME_TYPES = {
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32(), pa.null()),
}
WIDER_TYPES = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}


def read_build(
    spark: SparkSession, url: str | Storage, ref: str | None = None, *, options: Mapping[str, Any] | None = None
) -> DataFrame:
    """Return a build as a DataFrame.

    Types that Spark lacks become the nearest type that holds every value: unsigned integers wider ones, timestamps microseconds.

    :param url: the dataset's root, or its storage.
    :param ref: a run's id or a manifest's path; ``None`` for the current build, or the latest undamaged one before it.
    :param options: of the storage's file system.
    :raises NothingPublished: the dataset has no pointer.
    :raises BuildNotFound: there is no such manifest.
    :raises ManifestDamaged: the manifest is not what was published. (A damaged shard fails the Spark job that reads it.)
    :raises InvalidBuild: a column has a type that Spark cannot hold.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    storage = url if isinstance(url, Storage) else Storage(url, options)
    found: dict[str, ManifestDamaged] = {}
    path, manifest = find_manifest(storage, ref) if ref else newest_whole(storage, published_pointer(storage), found)
    stored = arrow_schema(manifest.columns)
    shown = pa.schema([pa.field(field.name, spark_arrow_type(field.name, field.type)) for field in stored])
    filled = [shard.shard_id for shard in manifest.shards if shard.rows]
    ids = spark.createDataFrame([], "shard_id int")
    if filled:
        ids = spark.range(0, len(filled), 1, len(filled)).select("id")
    schema = from_arrow_schema(shown, prefer_timestamp_ntz=True)
    return ids.mapInArrow(partial(_rows_of, storage, path, manifest, filled, shown), schema)


def spark_arrow_type(column: str, kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark supports and that holds every value of a column, or raise :class:`InvalidBuild`."""
    inner = partial(spark_arrow_type, column)
    if types.is_dictionary(kind):
        return inner(kind.value_type)
    if types.is_map(kind):
        return pa.map_(inner(kind.key_type), inner(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, inner(field.type)) for field in kind])
    if types.is_nested(kind) and not types.is_union(kind):
        return pa.list_(inner(kind.value_type))
    if types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    plain = _plain(kind)
    if plain is None:
        raise InvalidBuild("columns", column, f"Spark cannot hold values of the type {kind}; read the build without Spark")
    return plain


def _plain(kind: pa.DataType) -> pa.DataType | None:
    if kind in WIDER_TYPES:
        return WIDER_TYPES[kind]
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_duration(kind):
        return pa.duration("us")
    if types.is_time(kind):
        return pa.time64("us")
    return kind if kind in SAME_TYPES else None


def _rows_of(
    storage: Storage, path: str, manifest: Manifest, filled: list[int], shown: pa.Schema, ids: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield, in a task, the rows of the shards whose numbers it receives."""
    for numbers in ids:
        for number in numbers.column(0).to_pylist():
            with scratch_folder() as folder:
                build = OpenBuild(path, manifest, ShardCache(storage, folder))
                for batch in build.batches(filled[number]):
                    yield cast_batch(batch, shown)
                build.close()
