"""Kinds of :mod:`table_zoo` that differ in what they are partitioned by: ``identity_of_string``, ``bucket_of_long``, …

Each has the files of two commits in each partition, and null and odd values among its partitions.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
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
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from zoo import DECLARED, Declared, Kind, Zoo, append, kind, kind_of_spark

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
def all_transforms(zoo: Zoo, name: str) -> None:
    """Partitioned by all of :func:`declare_transforms` at once; in the place of ``value`` there is a column for each of them."""
    columns: dict[str, tuple[Transform[Any, Any], IcebergType, Sequence[Any]]] = {}
    for place, (word, (transform, types)) in enumerate(_TRANSFORMS.items()):
        for each in types:
            value, values = _VALUES[each]
            # PyIceberg cannot read a manifest in which two partition fields have the same type of decimals.
            columns[f"{word}_of_{each}"] = transform, DecimalType(10 + place, 2) if each == "decimal" else value, values
    fields = [NestedField(2 + place, column, value) for place, (column, (_, value, _)) in enumerate(columns.items())]
    schema = Schema(NestedField(1, "id", LongType()), *fields, NestedField(2 + len(fields), "note", StringType()))
    transforms = [transform for transform, _, _ in columns.values()]
    parts = [
        PartitionField(field.field_id, 998 + field.field_id, transform, f"{field.name}_part")
        for field, transform in zip(fields, transforms, strict=True)
    ]
    table = zoo.catalog.create_table(f"{zoo.namespace}.{name}", schema, partition_spec=PartitionSpec(*parts))
    ids = list(range(len(TEXTS)))
    odd = {column: [values[row % len(values)] for row in ids] for column, (_, _, values) in columns.items()}
    for _ in range(2):
        table.append(pa.table({"id": ids, **odd, "note": ["note"] * len(ids)}, schema=table.schema().as_arrow()))


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


@kind
def evolved_schema_with_refs(zoo: Zoo, name: str) -> None:
    """:func:`evolved_schema` with a tag on its first snapshot, and a branch with a commit that main does not have."""
    evolved_schema(zoo, name)
    table = zoo.load(zoo.named(name))
    first, *_, head = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    table.manage_snapshots().create_tag(first, "audit").create_branch(head, "trial").commit()
    table.append(pa.table([[6], [2], ["trial"]], schema=table.schema().as_arrow()), branch="trial")


@kind_of_spark
def nan_partitions(zoo: Zoo, name: str) -> None:
    """Partitioned by a double that is NaN, zero, negative zero or null in some rows; PyIceberg cannot write the first."""
    values = "CAST('NaN' AS DOUBLE), CAST('-0.0' AS DOUBLE), CAST('0.0' AS DOUBLE), CAST('1.5' AS DOUBLE), CAST(NULL AS DOUBLE)"
    _write_with_spark(zoo, name, "value DOUBLE", "value", f"array({values})[id % 5]")


@kind_of_spark
def truncate_of_binary(zoo: Zoo, name: str) -> None:
    """Partitioned by the first three bytes of a binary column, which PyIceberg cannot compute."""
    values = "array(X'00FF', X'6162636465', NULL)[id % 3] AS value"
    _write_with_spark(zoo, name, "value BINARY", "truncate(3, value)", values)


@kind_of_spark
def only_spark_writes(zoo: Zoo, name: str) -> None:
    """Format version 3, partitioned by NaN and the first bytes of a binary, with deletion vectors on some files."""
    value = "array(CAST('NaN' AS DOUBLE), CAST('-0.0' AS DOUBLE), CAST(NULL AS DOUBLE))[id % 3] AS value"
    columns = "value DOUBLE, raw BINARY"
    raw = "array(X'00FF', X'6162636465', NULL)[(id + 1) % 3] AS raw"
    _write_with_spark(zoo, name, columns, "value, truncate(3, raw)", f"{value}, {raw}", format_version=3)
    zoo.session.sql(f"DELETE FROM {zoo.named(name).quoted} WHERE id % 6 = 1")


def _write_with_spark(zoo: Zoo, name: str, columns: str, partitioned_by: str, values: str, format_version: int = 2) -> None:
    spark, table = zoo.session, zoo.named(name).quoted
    properties = f"'format-version' = '{format_version}', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, {columns}, note STRING) USING iceberg "
        f"PARTITIONED BY ({partitioned_by}) TBLPROPERTIES ({properties})"
    )
    for start in (0, 12):
        made = f"SELECT id + {start} AS id, {values}, 'note' AS note FROM range(12)"
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({made})")
