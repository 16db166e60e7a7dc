"""Rows of Arrow in types that Iceberg has: values stay as they are, and what cannot be kept is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.errors import UnwritableFrame
from airflow_snowpack.interim.frames.iceberg_types import in_iceberg_types
from airflow_snowpack.interim.frames.schemas import RESERVED, refuse_types, spark_types
from airflow_snowpack.interim.frames.tables import write_table

DAY = datetime(2026, 1, 1)  # noqa: DTZ001 - a local time
OF_NANOSECONDS = pa.timestamp("ns")
NOT_TEXT = pa.array([b"\xff"]).view(pa.string())
FIRST, LAST = date.min.toordinal() - date(1970, 1, 1).toordinal(), date.max.toordinal() - date(1970, 1, 1).toordinal()
DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([255], pa.uint8()), pa.int32()),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64()),
        (pa.array([2**63 - 1], pa.uint64()), pa.int64()),
        (pa.array([[DAY], None], pa.list_(OF_NANOSECONDS)), pa.list_(pa.timestamp("us"))),
        (pa.array([{"n": 1}], pa.struct([("n", pa.uint32())])), pa.struct([("n", pa.int64())])),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint64())), pa.map_(pa.string(), pa.int64())),
        (pa.array([time(5)], pa.time64("ns")), pa.time64("us")),
        (pa.array([time(5), None], pa.time32("s")), pa.time64("us")),
        (pa.array([time(5), None], pa.time32("ms")), pa.time64("us")),
        (pa.array([date(2026, 1, 2), None], pa.date64()), pa.date32()),
        (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), pa.decimal128(5, 2)),
        (pa.array([Decimal("1.5"), None], pa.decimal64(12, 2)), pa.decimal128(12, 2)),
        (pa.array([Decimal("1.5"), None], pa.decimal256(60, 2)), pa.decimal128(38, 2)),
        (pa.array([Decimal("12300"), None], pa.decimal128(5, -2)), pa.decimal128(7, 0)),
        (pa.array([[Decimal("12300")], None], pa.list_(pa.decimal128(5, -2))), pa.list_(pa.decimal128(7, 0))),
        (pa.array([DAY.replace(tzinfo=UTC), None], pa.timestamp("s", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array([[1, None], None, [3, 4]], pa.list_(pa.int8(), 2)), pa.list_(pa.int32())),
        (pa.array([[1], None, []], pa.list_view(pa.int64())), pa.list_(pa.int64())),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8())), pa.bool_()),
        (pa.array([1.5, None], pa.float16()), pa.float32()),
    ],
)
def test_types_that_iceberg_lacks_become_types_that_hold_as_much(column: pa.Array, kind: pa.DataType) -> None:
    rows = in_iceberg_types(pa.table({"c": column, "other": pa.array(["x"] * len(column))}))

    assert rows.schema.types == [kind, pa.string()]
    assert rows["c"].to_pylist() == column.to_pylist()


def test_types_that_iceberg_has_stay_as_they_are() -> None:
    rows = pa.table({"n": [1], "at": pa.array([DAY], pa.timestamp("us")), "legs": [[{"to": "EWR"}]]})
    assert in_iceberg_types(rows).equals(rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"u": pa.array([2**63], pa.uint64())}, r"the column u \(uint64\): Integer value 9223372036854775808 not in range"),
        (
            {"u": pa.array([[2**63]], pa.list_(pa.uint64()))},
            r"the column u \(list<item: uint64>\): .*Cast it to text, or to a decimal",
        ),
        (
            {"at": pa.array([[1]], pa.list_(OF_NANOSECONDS))},
            r"the column at \(list.*\): .* would lose data.*Round it to microseconds",
        ),
        ({"": [1]}, "a column, or a field of one, has no name"),
        ({"s": [[{"": 1}]]}, "a column, or a field of one, has no name"),
        ({"at": pa.array([2**62], pa.timestamp("s"))}, r"the column at \(timestamp\[s\]\): .* out of bounds timestamp"),
        (
            {"day": pa.array([1], pa.int64()).cast(pa.date64())},
            r"the column day \(date64\[ms\]\): Casting from date64.* would lose data",
        ),
        ({"d": pa.array([Decimal(10) ** 40], pa.decimal256(60, 2))}, r"the column d \(decimal256"),
        ({"d": pa.array([Decimal("1e-39")], pa.decimal256(60, 39))}, "the column d: Iceberg's decimals have at most 38 digits"),
        ({"d": pa.array([None], pa.decimal128(38, -2))}, "the column d: Iceberg's decimals have at most 38 digits"),
        ({"for": pa.array([1], pa.duration("s"))}, "the column for: Iceberg has no type for duration"),
        ({"s": pa.array([{}], pa.struct([]))}, "the column s: a struct has no fields"),
        ({"t": NOT_TEXT}, r"the column t: Invalid UTF8 .*Cast"),
        ({"n": pa.array([[None]], pa.list_(pa.null()))}, r"the column n\.element: it has only nulls and no type"),
    ],
)
def test_rows_that_cannot_be_stored_fail_with_one_sentence_and_make_no_table(
    tmp_path: Path, rows: dict[str, Any], expected: str
) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    name = TableName("lake", "snowpack_interim", "t")

    with pytest.raises(UnwritableFrame, match=f"These rows cannot become a table: .*{expected}"):
        write_table(pa.table(rows), name, catalog, "0" * 32)
    assert not catalog.table_exists(name.identifier)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_column_with_the_name_of_a_metadata_column_of_iceberg_is_refused(name: str) -> None:
    with pytest.raises(UnwritableFrame, match=f"the column {name}: Iceberg has a metadata column of this name.*Rename it"):
        in_iceberg_types(pa.table({"id": [1], name: [1]}))
    inside = pa.table({"id": [{name: 1}]})
    assert in_iceberg_types(inside).equals(inside), "Spark reads fields of this name"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("TimeType", "TIME"),
        ("DayTimeIntervalType", "INTERVAL"),
        ("NullType", "VOID"),
        ("VariantType", "VARIANT"),
    ],
)
def test_a_type_of_spark_that_iceberg_lacks_is_refused_with_its_column(kind: str, shown: str) -> None:
    from pyspark.sql import types as spark

    schema = spark.StructType().add("c", spark.ArrayType(spark.StructType().add("at", getattr(spark, kind)())))
    with pytest.raises(UnwritableFrame, match=rf"the column c\.element\.at: Spark's {shown}.* cannot be kept\. Cast it"):
        refuse_types("Spark", spark_types(schema))
    refuse_types("Spark", spark_types(spark.StructType().add("c", spark.MapType(spark.StringType(), spark.ShortType()))))


NESTINGS: list[Callable[[pa.Array], pa.Array]] = [
    lambda leaf: leaf,
    lambda leaf: pa.ListArray.from_arrays(pa.array([0, len(leaf)], pa.int32()), leaf),
    lambda leaf: pa.StructArray.from_arrays([leaf], ["x"]),
    lambda leaf: pa.MapArray.from_arrays(pa.array([0, len(leaf)], pa.int32()), pa.array(range(len(leaf)), pa.int64()), leaf),
    lambda leaf: pa.MapArray.from_arrays(pa.array([0, len(leaf)], pa.int32()), leaf, leaf),
    lambda leaf: leaf.dictionary_encode(),
    lambda leaf: NESTINGS[1](NESTINGS[2](leaf)),
]


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        (pa.date32(), FIRST, LAST),
        (pa.timestamp("us"), FIRST * DAY_US, (LAST + 1) * DAY_US - 1),
        (pa.timestamp("s", "UTC"), FIRST * 86_400, (LAST + 1) * 86_400 - 1),
        (pa.time64("us"), 0, DAY_US - 1),
        (pa.time32("ms"), 0, 86_399_999),
    ],
)
@pytest.mark.parametrize("nesting", NESTINGS)
def test_the_first_and_the_last_date_and_time_are_kept_and_what_is_beyond_is_refused(
    kind: Any, first: int, last: int, nesting: Callable[[pa.Array], pa.Array]
) -> None:
    def column(*numbers: int) -> pa.Table:
        return pa.table({"c": nesting(pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind))})

    assert in_iceberg_types(column(first, last)).num_rows
    for beyond in (first - 1, last + 1):
        with pytest.raises(UnwritableFrame, match=r"the column c.*(before|after).*\. Replace the value by null"):
            in_iceberg_types(column(first, beyond))


@pytest.mark.parametrize("nesting", NESTINGS[:-2])
def test_a_decimal_with_more_digits_than_its_type_is_refused(nesting: Callable[[pa.Array], pa.Array]) -> None:
    raw = pa.py_buffer((10**5).to_bytes(16, "little"))
    with pytest.raises(UnwritableFrame, match=r"the column c.*does not fit in precision of decimal128\(5, 2\)\. Cast"):
        in_iceberg_types(pa.table({"c": nesting(pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, raw]))}))
