"""A view means the same with Spark and without it, or is refused without it: real Spark beside PyIceberg and Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.condition import OnlySparkKnows
from airflow_snowpack.interim.condition_text import parse
from airflow_snowpack.interim.matching import Matching
from airflow_snowpack.interim.reading import name_of, query_of, read_as_arrow, read_on_spark
from airflow_snowpack.interim.refs import Producer, TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

NAN = float("nan")
NOON = datetime.fromisoformat("2026-01-02T12:00")
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "i": pa.int32(),
        "l": pa.int64(),
        "f": pa.float32(),
        "x": pa.float64(),
        "d": pa.decimal128(10, 2),
        "wide": pa.decimal128(38, 30),
        "day": pa.date32(),
        "ts": pa.timestamp("us"),
        "tz": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "s": pa.string(),
        "odd name": pa.string(),
        "raw": pa.binary(),
    }
)
# By columns, without the id. The files of the table have two, three and four of these.
VALUES: dict[str, list[Any]] = {
    "i": [1, 2, None, 0, -1, 3, 2**31 - 1, -(2**31), 7],
    "l": [1, 2, None, 2**53 + 1, -1, 2**63 - 1, -(2**63), 0, 3],
    "f": [0.1, 1.5, None, NAN, -0.0, 0.0, 2.0**24, -1.0, 9.0],
    "x": [1.0, NAN, None, -0.0, -1.0, 0.1, float(2**53), 0.0, float("inf")],
    "d": [Decimal(text) if text else None for text in ("1.00", "1.01", "", "2.50", "-1.00", "0.00", "99999999.99", "3", "1.5")],
    "wide": [Decimal(text) if text else None for text in ("1", "1.01", "", "1.000000000000000000000000000001", *"25031")],
    "day": [None, *(date(2026, 1, day) for day in range(1, 8)), date(1, 1, 1)],
    "ts": [None, *(NOON + timedelta(days=days, microseconds=days) for days in range(7)), datetime.fromisoformat("1900-01-01")],
    "tz": [None, *(NOON.replace(tzinfo=UTC) + timedelta(hours=hours) for hours in range(7)), datetime(1900, 1, 1, tzinfo=UTC)],
    "b": [True, False, None, True, False, None, True, True, False],
    "s": ["UA", "U_", None, "AA", "", "B%", "ua", "1", "a\nb"],
    "odd name": ["é", "😀", "z", None, "_A", "%", "true", "2026-01-02", "1.0"],
    "raw": [b"a", None, b"b", b"c", b"", b"d", b"e", b"f", b"g"],
}
ROWS = pa.table({"id": range(9)} | VALUES, schema=SCHEMA)

NUMBERS = ["0", "1", "-1", "2", "1.5", "1.50", "-1.0", "0.1", "2.5", "0.0", ".5", "+3", "1.005", "3000000000", "-2147483649"]
NUMBERS += [
    "9007199254740993",
    "9007199254740993.0",
    "16777216",
    "16777217",
    "9223372036854775807",
    "9223372036854775808",
    "1" * 30,
]
NUMBERS += ["9" * 38, "1.000000000000000000000000000001", "9223372036854775806.5", "99999999.99"]
DAYS = [
    "'2026-01-02'",
    "DATE '2026-01-02'",
    "'2026-1-2'",
    "'2026-02-30'",
    "'2026-01-02 12:00:00'",
    "'2026-01-02T12:00:00.000000'",
]
DAYS += ["TIMESTAMP_NTZ '2026-01-02 12:00:00'", "'2026-01-02 12:00:00+00:00'", "'2026-01-02T14:00:00.000+02:00'", "'12:00:00Z'"]
DAYS += ["TIMESTAMP '2026-01-02 12:00:00Z'", "TIMESTAMP '2026-01-02 12:00:00'", "'2026-01-02 12:00:00.000001'", "'0001-01-01'"]
TEXTS = [
    "'UA'",
    "'U_'",
    "'U%'",
    "'_A'",
    "'%'",
    "'_'",
    "''",
    "'a_b'",
    "'B%'",
    "'1'",
    "'true'",
    "'😀'",
    "'B\\%'",
    "'it''s'",
    '"UA"',
    "'1.0'",
]
WORTHS = [*NUMBERS, *DAYS, *TEXTS, "true", "FALSE", "NULL", "1e0", "1.5D", "i"]
FORMS = ["{} = {}", "{} != {}", "{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} LIKE {}", "{} NOT LIKE {}"]
FORMS += ["NOT ({} < {})", "NOT {} >= {}"]
LISTS = [
    "{0} IN ({1}, {2})",
    "{0} NOT IN ({1}, {2})",
    "NOT {0} IN ({1}, {2})",
    "{0} BETWEEN {1} AND {2}",
    "{0} NOT BETWEEN {1} AND {2}",
]
ALONE = ["{}", "NOT {}", "{} IS NULL", "{} IS NOT NULL", "NOT {} IS NULL", "isnan({})", "NOT isnan({})"]
COLUMNS = [f"`{name}`" if " " in name else name for name in VALUES]
# Each is read, and none refused.
MEANT = [
    "i > 1.5",
    "i = 1.5",
    "i != 1.5",
    "i NOT IN (1, 2)",
    "NOT i IN (1, 2)",
    "i < 3000000000",
    "2 <= i",
    "l = 9007199254740993",
]
MEANT += [
    "f > 0.2 AND NOT isnan(f)",
    "f < 0.1",
    "f = 0.1",
    "x < 5",
    "x != 1",
    "isnan(x) OR x < 0",
    "x <= 0",
    "d > 1.005",
    "d = 1",
]
MEANT += [
    "day >= '2026-01-03'",
    "day NOT BETWEEN '2026-01-02' AND DATE '2026-01-04'",
    "ts > '2026-01-03'",
    "tz < '2026-01-02T15:00:00+01:00'",
]
MEANT += [
    "b",
    "NOT b",
    "b != true",
    "b AND true",
    "s LIKE 'U_'",
    "s LIKE '_A' OR s = ''",
    "s NOT LIKE 'U%'",
    "NOT (s LIKE 'B%')",
    "s > 'U'",
]
MEANT += [
    "s NOT IN ('UA', 'AA')",
    "NOT (s = 'UA' OR i > 2)",
    "NOT (i > 1 AND b) OR s IS NULL",
    "`odd name` LIKE '_'",
    "raw IS NULL",
    "S = 'ua'",
]


@pytest.fixture(scope="module")
def table(catalog: Catalog, spark: SparkSession) -> TableRef:
    """:data:`ROWS` in three files, by PyIceberg."""
    return _written(catalog, "alike", ROWS.slice(0, 2), ROWS.slice(2, 3), ROWS.slice(5))


def _written(catalog: Catalog, name: str, *files: pa.Table) -> TableRef:
    made = catalog.create_table(f"db.{name}", schema=files[0].schema)
    for rows in files:
        made.append(rows)
    snapshot = made.current_snapshot()
    assert snapshot is not None
    return TableRef("1", str(TableName("lake", "db", name)), snapshot.snapshot_id, None, Producer("d", "r", "t"))


def grid() -> list[str]:
    """Every column with every form and value, and some with two values, or several of these joined."""
    chance = Random(7)
    one = [form.format(column, value) for form, column, value in product(FORMS, COLUMNS, WORTHS)]
    two = [form.format(column, *chance.sample(WORTHS, 2)) for form, column, _ in product(LISTS, COLUMNS, range(30))]
    return one + two + [form.format(column) for form, column in product(ALONE, COLUMNS)]


def joined(conditions: list[str]) -> list[str]:
    chance = Random(7)
    forms = [
        "{} AND {}",
        "{} OR {}",
        "NOT ({} OR {})",
        "NOT ({} AND {}) OR {}",
        "{} AND NOT {} OR {} AND {}",
        "NOT NOT ({} OR false)",
    ]
    return [chance.choice(forms).format(*chance.sample(conditions, 4)) for _ in range(300)]


def told(condition: str) -> list[int] | None:
    """The rows that Arrow finds; ``None`` if it refuses."""
    try:
        found: list[int] = Matching(parse(condition), SCHEMA).rows(ROWS)["id"].to_pylist()
    except OnlySparkKnows:
        return None
    return found


def found_by_spark(spark: SparkSession, queries: list[str]) -> list[list[int]]:
    """The ids that each query finds, asked all at once."""
    union = " UNION ALL ".join(f"SELECT {place} AS place, id FROM ({query})" for place, query in enumerate(queries))
    rows = spark.sql(union).collect()
    return [sorted(row.id for row in rows if row.place == place) for place in range(len(queries))]


def test_what_is_meant_most_is_read_alike_and_not_refused(spark: SparkSession, catalog: Catalog, table: TableRef) -> None:
    views = [table.where(condition).select("id") for condition in MEANT]

    without = [sorted(read_as_arrow(view, catalog)["id"].to_pylist()) for view in views]

    assert dict(zip(MEANT, without, strict=True)) == dict(
        zip(MEANT, found_by_spark(spark, [query_of(view) for view in views]), strict=True)
    )


def test_any_condition_finds_the_rows_that_spark_finds_or_is_refused(spark: SparkSession, table: TableRef) -> None:
    """All of the grid takes minutes: some of it is enough to see when the two part."""
    answers = {condition: ids for condition in grid() if (ids := told(condition)) is not None}
    assert len(answers) > 1500
    answers |= {condition: ids for condition in joined(list(answers)) if (ids := told(condition)) is not None}
    some = Random(7).sample(list(answers), 100)

    tests = ", ".join(f"coalesce({condition}, false)" for condition in some)
    rows = spark.sql(f"SELECT id, array({tests}) AS found FROM {name_of(table).quoted}").collect()

    found = {condition: sorted(row.id for row in rows if row.found[place]) for place, condition in enumerate(some)}
    assert {condition: answers[condition] for condition in some} == found


@pytest.mark.parametrize("order", [["x desc", "id"], ["F", "`id` DESC"], ["b", "`odd name` desc"]])
def test_views_are_ordered_alike(order: list[str], spark: SparkSession, catalog: Catalog, table: TableRef) -> None:
    view = table.order_by(*order).limit(7).select("Id")

    read = read_on_spark(view, spark)
    assert read_as_arrow(view, catalog).to_pylist() == [row.asDict() for row in read.collect()]
