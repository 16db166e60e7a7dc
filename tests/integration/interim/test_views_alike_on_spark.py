"""A view without a condition has the same rows in the same order with Spark and without it: real Spark beside Arrow."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.frames.tables import read_as_arrow, read_on_spark
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

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


def written(catalog: Catalog) -> TableRef:
    """Write :data:`ROWS` in three files."""
    made = catalog.create_table("db.alike", schema=SCHEMA)
    for rows in (ROWS.slice(0, 2), ROWS.slice(2, 3), ROWS.slice(5)):
        made.append(rows)
    snapshot = made.current_snapshot()
    assert snapshot is not None
    return TableRef("1", str(TableName("lake", "db", "alike")), snapshot.snapshot_id, None, Producer("d", "r", "t"))


ORDERS = [["x desc", "id"], ["F", "`id` DESC"], ["b", "`odd name` desc"]]
ORDERS += [[f"`{name}` {direction}", "id"] for name in VALUES if name != "raw" for direction in ("asc", "desc")]


def test_views_are_ordered_alike(spark: SparkSession, catalog: Catalog) -> None:
    """Spark reads all of them in one job, which keeps the rows of each together and in its order."""
    table = written(catalog)
    views = {str(order): table.order_by(*order).limit(7).select("Id") for order in ORDERS}

    from pyspark.sql import DataFrame
    from pyspark.sql.functions import lit

    read = [read_on_spark(view, spark).withColumn("order", lit(order)) for order, view in views.items()]
    by_spark: dict[str, list[int]] = {order: [] for order in views}
    for row in reduce(DataFrame.unionByName, read).collect():
        by_spark[row["order"]].append(row["Id"])

    assert {order: read_as_arrow(view, catalog)["Id"].to_pylist() for order, view in views.items()} == by_spark
