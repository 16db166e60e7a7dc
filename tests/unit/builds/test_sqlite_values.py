"""Whatever Arrow can hold comes back from a SQLite shard as it was."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_snowpack.builds.columns import arrow_array, arrow_schema, arrow_type, from_cell, to_cells
from airflow_snowpack.builds.errors import InvalidBuild

COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint64(), [0, 2**63 - 1, 2**64 - 1]),
    (pa.float64(), [0.1, float("inf"), -0.0, 1e-320, 3.0]),
    (pa.float32(), [0.5, -2.25]),
    (pa.bool_(), [True, False]),
    (pa.string(), ["", "1", "1.50", "Zoë 🛩", "a\x00b", "nan"]),
    (pa.large_string(), ["long"]),
    (pa.binary(), [b"", b"\x00\xff", b"1"]),
    (pa.binary(3), [b"abc"]),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-12345678.90")]),
    (pa.decimal256(50, 0), [Decimal(10**40)]),
    (pa.date32(), [date(1, 1, 1), date(2026, 1, 31), date(9999, 12, 31)]),
    (pa.date64(), [date(2026, 1, 31)]),
    (pa.time32("s"), [time(23, 59, 59)]),
    (pa.time64("us"), [time(0, 0, 0, 1)]),
    (pa.duration("us"), [timedelta(days=-1, microseconds=7)]),
    (pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31)]),  # noqa: DTZ001 — the type has no zone
    (pa.timestamp("ms", "UTC"), [datetime(2026, 3, 29, 1, 30, tzinfo=UTC)]),
    (pa.timestamp("us", "Europe/Berlin"), [datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC)]),
    (pa.timestamp("s", "+02:00"), [datetime(2026, 7, 1, 12, tzinfo=UTC)]),
    (pa.list_(pa.string()), [[], ["a", None], ['"', "ü"]]),
    (pa.list_(pa.int8(), 2), [[1, 2]]),
    (pa.list_(pa.list_(pa.decimal128(5, 1))), [[[Decimal("1.0")], None, []]]),
    (
        pa.struct([("a b", pa.binary()), ("at", pa.timestamp("us", "UTC")), ("x", pa.float64())]),
        [{"a b": b"\xff", "at": datetime(2026, 1, 1, tzinfo=UTC), "x": 2.5}, {"a b": None, "at": None, "x": None}],
    ),
    (pa.map_(pa.string(), pa.list_(pa.date32())), [[("k", [date(2026, 1, 1)]), ("l", None)], []]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    (pa.null(), []),
]
named = pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=[str(kind) for kind, _ in COLUMNS])


def through_sqlite(cells: list[Any]) -> list[Any]:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE rows (value)")
        database.executemany("INSERT INTO rows VALUES (?)", [(cell,) for cell in cells])
        return [row[0] for row in database.execute("SELECT value FROM rows ORDER BY rowid")]


@named
def test_a_column_comes_back_from_sqlite_as_it_was(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array([*values, None], kind)
    cells = through_sqlite(to_cells(column))
    read = from_cell(kind) or (lambda cell: cell)
    values_read = [None if cell is None else read(cell) for cell in cells]
    assert values_read == column.to_pylist()
    assert [type(value) for value in values_read] == [type(value) for value in column.to_pylist()]
    assert arrow_array(cells, kind).equals(column)


def test_nan_is_not_taken_for_null() -> None:
    cells = through_sqlite(to_cells(pa.array([float("nan"), None])))
    assert cells == ["nan", None]
    assert str(arrow_array(cells, pa.float64()).to_pylist()) == "[nan, None]"


@named
def test_a_type_is_read_back_from_its_name(kind: pa.DataType, values: list[Any]) -> None:
    assert arrow_type(str(kind)) == kind


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.struct([pa.field("a", pa.list_(pa.struct([("b", pa.map_(pa.string(), pa.decimal128(9, 3)))])), nullable=False)]),
        pa.list_(pa.field("element", pa.int8(), nullable=False)),
        pa.large_list(pa.timestamp("us", "Etc/GMT+5")),
        pa.dictionary(pa.int32(), pa.large_string(), ordered=True),
    ],
    ids=str,
)
def test_a_nested_type_is_read_back_from_its_name(kind: pa.DataType) -> None:
    assert arrow_type(str(kind)) == kind


def test_a_map_that_was_read_from_parquet_is_read_back_from_its_name() -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.int64()))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"numbers": pa.array([[("a", [1])]], kind)}), sink)
    read = pq.read_schema(pa.BufferReader(sink.getvalue())).field("numbers").type
    assert "numbers" in str(read), "Arrow names the entries"
    assert arrow_type(str(read)) == read


def test_a_schema_is_read_from_a_manifests_columns() -> None:
    schema = pa.schema([("tail", pa.string()), ("delays", pa.list_(pa.int16()))])
    assert arrow_schema(tuple((field.name, str(field.type)) for field in schema)) == schema


@pytest.mark.parametrize(
    "text", ["", "varchar", "list<", "decimal128(99, 2)", "struct<a>", "timestamp[x, tz=UTC]", "dictionary<a=b>"]
)
def test_a_name_that_no_type_has_is_refused_with_it(text: str) -> None:
    with pytest.raises(InvalidBuild, match="not the name of an Arrow type"):
        arrow_type(text)


def test_a_column_of_intervals_is_refused() -> None:
    with pytest.raises(InvalidBuild, match="write Parquet shards"):
        to_cells(pa.array([(1, 2, 3)], pa.month_day_nano_interval()))
