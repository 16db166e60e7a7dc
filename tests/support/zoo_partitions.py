"""Kinds of :mod:`table_zoo` that differ in what they are partitioned by: ``identity_of_string``, ``bucket_of_long``, …

Each has the files of two commits in each partition, and null and odd values among its partitions.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from zoo import DECLARED, Declared, append, kind, kind_of_spark

if TYPE_CHECKING:
    from zoo import Kind, Zoo

UTC = dt.UTC
DATES = [None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(2024, 2, 29)]
MOMENTS = [
    None,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    dt.datetime(1970, 1, 1, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 13, 5, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 13, 59, tzinfo=UTC),
]
TEXTS = [None, "", "plain", "plain", "a/b", "it's", 'say "x"', "back`tick", "x=y&z", "%20", "ünïcödé 🐘", " spaces ", "null"]
LONGS = [None, 0, 1, -1, 17, 17, 2**62, -(2**62)]
TIMES = [None if each is None else each.replace(tzinfo=None) for each in MOMENTS]
DECIMALS = [None, Decimal("0.00"), Decimal("-12.34"), Decimal("12.34"), Decimal("12.34"), Decimal("99999999.99")]
BINARIES = [None, b"", b"\x00\xff", b"abcdef", b"abcdef"]

_VALUES: dict[str, tuple[IcebergType, Sequence[Any]]] = {
    "boolean": (BooleanType(), [None, True, False, True]),
    "int": (IntegerType(), [None, 0, 1, -1, 17, 17, 2**31 - 1, -(2**31)]),
    "long": (LongType(), LONGS),
    "double": (DoubleType(), [None, 0.0, 1.5, 1.5, math.inf, -math.inf]),
    "decimal": (DecimalType(10, 2), DECIMALS),
    "date": (DateType(), DATES),
    "timestamp": (TimestampType(), TIMES),
    "timestamptz": (TimestamptzType(), MOMENTS),
    "string": (StringType(), TEXTS),
    "binary": (BinaryType(), BINARIES),
}
_TRANSFORMS: dict[str, tuple[Transform[Any, Any], Iterable[str]]] = {
    "identity": (IdentityTransform(), list(_VALUES)),
    "bucket": (BucketTransform(4), ["int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "binary"]),
    "truncate": (TruncateTransform(3), ["int", "long", "decimal", "string"]),
    "year": (YearTransform(), ["date", "timestamp", "timestamptz"]),
    "month": (MonthTransform(), ["date", "timestamp", "timestamptz"]),
    "day": (DayTransform(), ["date", "timestamp", "timestamptz"]),
    "hour": (HourTransform(), ["timestamp", "timestamptz"]),
}


def declare_transforms() -> None:
    """``identity_of_string``, ``bucket_of_long``, …: the files of two commits in each partition, null included."""
    for word, (transform, types) in _TRANSFORMS.items():
        for type_name in types:
            DECLARED[f"{word}_of_{type_name}"] = Declared(_partitioned(type_name, transform), False, True)


def _partitioned(type_name: str, transform: Transform[Any, Any]) -> Kind:
    value, values = _VALUES[type_name]

    def make(zoo: Zoo, name: str) -> None:
        table = zoo.create(name, value, transform)
        for _ in range(2):
            append(table, values)

    return make


@kind
def two_fields(zoo: Zoo, name: str) -> None:
    """Partitioned by the month of a timestamp and a bucket of the id, with nulls in both."""
    schema = zoo.create(f"{name}_schema", TimestampType()).schema()
    zoo.catalog.drop_table(f"{zoo.namespace}.{name}_schema")
    spec = PartitionSpec(
        PartitionField(2, 1000, MonthTransform(), "value_month"), PartitionField(1, 1001, BucketTransform(2), "id_bucket")
    )
    table = zoo.catalog.create_table(f"{zoo.namespace}.{name}", schema, partition_spec=spec)
    for _ in range(2):
        append(table, TIMES)


@kind
def void(zoo: Zoo, name: str) -> None:
    """Format version 1 with its partition field removed, which leaves a void transform behind."""
    table = zoo.create(name, LongType(), IdentityTransform(), **{"format-version": "1"})
    append(table, [1, 2])
    with table.update_spec() as update:
        update.remove_field("part")
    assert isinstance(table.spec().fields[0].transform, VoidTransform)


@kind
def evolved_spec(zoo: Zoo, name: str) -> None:
    """Files without partitions, files by month and files by day and bucket: three partition specs in one snapshot."""
    table = zoo.create(name, TimestampType())
    append(table, TIMES)
    with table.update_spec() as update:
        update.add_field("value", MonthTransform(), "value_month")
    append(table, TIMES)
    append(table, TIMES)
    with table.update_spec() as update:
        update.remove_field("value_month")
        update.add_field("value", DayTransform(), "value_day")
        update.add_field("id", BucketTransform(2), "id_bucket")
    append(table, TIMES)
    append(table, TIMES)


@kind
def evolved_schema(zoo: Zoo, name: str) -> None:
    """The partition's source column was renamed from ``value`` to ``amount`` and widened, a column dropped and one added."""
    table = zoo.create(name, IntegerType(), IdentityTransform())
    append(table, [1, 2])
    append(table, [1, 2])
    with table.update_schema() as schema:
        schema.update_column("value", LongType())
        schema.delete_column("note")
    with table.update_schema() as schema:
        schema.rename_column("value", "amount")
        schema.add_column("added", StringType())
    arrow = table.schema().as_arrow()
    table.append(pa.table([[4, 5], [1, 2**40], ["a", None]], schema=arrow))


@kind_of_spark
def nan_partitions(zoo: Zoo, name: str) -> None:
    """Partitioned by a double that is NaN, negative zero or null in some rows; PyIceberg cannot write the first."""
    values = "CAST('NaN' AS DOUBLE), CAST('-0.0' AS DOUBLE), CAST('1.5' AS DOUBLE), CAST(NULL AS DOUBLE)"
    _write_with_spark(zoo, name, "value DOUBLE", "value", f"array({values})[id % 4]")


@kind_of_spark
def truncate_of_binary(zoo: Zoo, name: str) -> None:
    """Partitioned by the first three bytes of a binary column, which PyIceberg cannot compute."""
    _write_with_spark(zoo, name, "value BINARY", "truncate(3, value)", "array(X'00FF', X'6162636465', NULL)[id % 3]")


def _write_with_spark(zoo: Zoo, name: str, column: str, partitioned_by: str, value: str) -> None:
    spark, table = zoo.session, zoo.named(name).quoted
    spark.sql(f"CREATE TABLE {table} (id BIGINT, {column}, note STRING) USING iceberg PARTITIONED BY ({partitioned_by})")
    for start in (0, 12):
        made = f"SELECT id + {start} AS id, {value} AS value, 'note' AS note FROM range(12)"
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({made})")
