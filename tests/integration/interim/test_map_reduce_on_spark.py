"""Rows are mapped and reduced by Python functions on real Spark, as docs/map-reduce.md says."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim import map_partitions, map_rows, reduce_rows
from airflow_snowpack.interim.errors import InvalidInterimTable
from airflow_snowpack.interim.map_reduce.errors import FunctionFailed, InvalidColumns, InvalidReduction, function_failure
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.spark import SparkFailed, SparkInterrupted, SparkWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "map-reduce.md"
Row = dict[str, Any]


@pytest.fixture
def numbers(spark: SparkSession) -> DataFrame:
    """A thousand rows in three partitions, and in no order."""
    return spark.range(0, 1000, 1, 3).selectExpr("(id * 7919) % 1000 AS id", "concat('n', id % 10) AS kind")


@pytest.fixture
def kinds(spark: SparkSession) -> DataFrame:
    """A row with a value of every kind, and one of nulls."""
    return spark.range(0, 2, 1, 1).selectExpr(
        "id",
        "IF(id = 0, timestamp_seconds(1357034400), NULL) AS at",
        "IF(id = 0, TIMESTAMP_NTZ '2013-01-01 10:00:00', NULL) AS local",
        "IF(id = 0, DATE '2013-01-01', NULL) AS day",
        "IF(id = 0, CAST(1.25 AS DECIMAL(9, 2)), NULL) AS fare",
        "IF(id = 0, map('stops', 2L), NULL) AS notes",
        "IF(id = 0, array(named_struct('to', 'EWR', 'at', timestamp_seconds(1357034400))), NULL) AS legs",
        "IF(id = 0, CAST('raw' AS BINARY), NULL) AS raw",
    )


FULL: Row = {
    "id": 0,
    "at": datetime(2013, 1, 1, 10, tzinfo=UTC),
    "local": datetime(2013, 1, 1, 10),  # noqa: DTZ001 - that is what it is
    "day": date(2013, 1, 1),
    "fare": Decimal("1.25"),
    "notes": {"stops": 2},
    "legs": [{"to": "EWR", "at": datetime(2013, 1, 1, 10, tzinfo=UTC)}],
    "raw": b"raw",
}


def collected(df: DataFrame) -> list[Row]:
    return sorted((row.asDict(recursive=True) for row in df.collect()), key=lambda row: str(row.get("id")))


# --- map ------------------------------------------------------------------------------------------------------------------


def even_doubled(row: Row, factor: int, *, suffix: str = "") -> Row | None:
    if row["id"] % 2:
        return None
    return {"id": row["id"] * factor, "kind": row["kind"] + suffix}


def test_rows_are_mapped_or_left_out_with_further_arguments(numbers: DataFrame) -> None:
    mapped = map_rows(even_doubled, numbers, args=(10,), kwargs={"suffix": "!"})
    assert mapped.columns == ["id", "kind"]
    rows = mapped.collect()
    assert sorted(row["id"] for row in rows) == list(range(0, 10_000, 20))
    assert {row["kind"][-1] for row in rows} == {"!"}


def test_a_function_sees_and_gives_values_of_every_kind(kinds: DataFrame) -> None:
    seen = map_rows(lambda row: {"id": row["id"], "text": repr(row)}, kinds, "id bigint, text string")
    full, nothing = (row["text"] for row in collected(seen))
    assert eval(nothing) == dict.fromkeys(FULL) | {"id": 1}
    assert "'at': datetime.datetime(2013, 1, 1, 10, 0, tzinfo=" in full
    assert "'notes': {'stops': 2}" in full
    same = map_rows(lambda row: row, kinds)
    assert same.schema.simpleString() == kinds.schema.simpleString()
    assert collected(same) == collected(kinds)


def test_a_schema_may_be_arrows_or_leave_columns_to_null(numbers: DataFrame) -> None:
    schema = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())])
    mapped = map_rows(lambda row: {"id": row["id"], "at": datetime(2013, 1, 1, 10, tzinfo=UTC)}, numbers.where("id = 7"), schema)
    assert mapped.schema.simpleString() == "struct<id:int,at:timestamp,note:string>"
    assert [(row["id"], row["note"]) for row in mapped.collect()] == [(7, None)]


def picky(row: Row) -> Row:
    return {"id": 1000 // (row["id"] - 700)}


def failure_of(df: DataFrame) -> FunctionFailed:
    with pytest.raises(SparkFailed) as failed:
        SparkWork().run(df.sparkSession, df.collect)
    ours = function_failure(failed.value)
    assert isinstance(ours, FunctionFailed)
    return ours


def test_an_error_comes_back_with_partition_row_and_cause(numbers: DataFrame) -> None:
    ours = failure_of(map_rows(picky, numbers, "id bigint"))
    where = r"The function picky failed in partition \d at row \d+: ZeroDivisionError: .*; its input was \{'id': 700, 'kind': 'n"
    assert re.search(where, str(ours)), ours
    (note,) = ours.__notes__
    assert re.search(r"line \d+, in picky\n    return .+\n.+\nZeroDivisionError", note), "the line of the user's code"

    ours = failure_of(map_rows(lambda row: {"id": row["id"] + 0.5}, numbers, "id bigint"))
    assert re.search(r"lambda> failed in partition \d at row \d+: it returned id = .*\.5 \(a float\)", str(ours)), ours


def test_what_can_be_seen_to_be_wrong_is_refused_at_once(spark: SparkSession, numbers: DataFrame) -> None:
    with pytest.raises(InvalidColumns, match="id appears more than once"):
        map_rows(lambda row: row, numbers.selectExpr("id", "kind AS id"), "id bigint")
    with pytest.raises(InvalidColumns, match=r"The columns 'id bigit' are not usable: Spark cannot parse them"):
        map_rows(lambda row: row, numbers, "id bigit")
    with pytest.raises(InvalidColumns, match="pass Spark's DDL"):
        map_rows(lambda row: row, numbers, ["id"])  # type: ignore[arg-type]  # what a careless user gives
    with pytest.raises(InvalidInterimTable, match="pass a Spark DataFrame"):
        map_rows(lambda row: row, [{"id": 1}], "id bigint")  # type: ignore[arg-type]  # likewise


def with_running_sum(batches: Iterator[pa.RecordBatch], start: int) -> Iterator[pa.RecordBatch]:
    total = start
    for batch in batches:
        total += sum(batch.column("id").to_pylist())
        yield pa.RecordBatch.from_pydict({"total": [total], "rows": [batch.num_rows]})


def test_partitions_are_mapped_as_batches(spark: SparkSession) -> None:
    parts = map_partitions(with_running_sum, spark.range(0, 10, 1, 2), "rows int, total bigint", kwargs={"start": 100})
    assert sorted((row["rows"], row["total"]) for row in parts.collect()) == [(5, 110), (5, 135)]


def test_an_error_in_a_partition_has_how_far_it_came(spark: SparkSession) -> None:
    ours = failure_of(map_partitions(lambda batches: (1 / 0 for _ in batches), spark.range(0, 10, 1, 2)))
    assert re.search(r"failed in partition \d at batch 0, after 5 rows: ZeroDivisionError", str(ours)), ours


# --- reduce ---------------------------------------------------------------------------------------------------------------


def joined(rows: list[Row], most: int) -> Row:
    """What shows the order, and which rows came together."""
    assert len(rows) <= most
    return {"id": sum(row["id"] for row in rows), "kind": "(" + " ".join(row["kind"] for row in rows) + ")"}


def test_rows_are_reduced_in_their_order_however_spark_has_them(spark: SparkSession) -> None:
    def reduced(partitions: int, tasks: int) -> str:
        letters = spark.range(0, 11, 1, partitions).selectExpr("(id * 5) % 11 AS id").selectExpr("id", "chr(97 + id) AS kind")
        came_to = reduce_rows(joined, letters, 3, kwargs={"most": 3}, partitions=tasks)
        assert str(came_to.layers) == "11 → 4 → 2 → 1"
        assert came_to.df.collect()[0].asDict() == came_to.row
        assert came_to.row["id"] == 55
        return str(came_to.row["kind"])

    expected = "(((a b c) (d e f) (g h i)) ((j k)))"
    assert [reduced(1, 1), reduced(5, 3)] == [expected] * 2


def test_an_order_may_be_given_and_the_other_columns_break_its_ties(numbers: DataFrame) -> None:
    few = numbers.where("id < 6").selectExpr("id", "IF(id % 2 = 0, 'even', NULL) AS kind")

    def ids(rows: list[Row]) -> Row:
        return {"id": int("".join(str(row["id"]) for row in rows)), "kind": None}

    def order(*terms: str) -> str:
        return f"{reduce_rows(ids, few, 6, order_by=terms).row['id']:06}"

    assert order("kind") == "135024", "nulls first, as Spark has it"
    assert order("kind desc nulls last", "id DESC") == "420531"
    with pytest.raises(InvalidReduction, match="order_by = 'size' is not usable: the table has only the columns id, kind"):
        reduce_rows(ids, few, 6, order_by="size")


def add(rows: list[Row]) -> Row:
    return {"id": sum(row["id"] for row in rows), "kind": None}


def test_the_layers_are_in_the_result_and_in_the_log(numbers: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "airflow_snowpack.interim"):
        reduced = reduce_rows(add, numbers, 10, partitions=4)
    assert reduced.row == {"id": 499_500, "kind": None}
    layers = [(layer.rows_in, layer.partitions, layer.rows_out) for layer in reduced.layers.layers]
    assert layers == [(1000, 4, 100), (100, 4, 10), (10, 1, 1)]
    assert "Reducing with add, 10 rows at a time, in 3 layers: 1000 → 100 → 10 → 1" in caplog.messages
    assert "Reduced with add, layer 1: 100 rows in, 4 partitions, 10 rows out" in caplog.messages


def test_one_row_is_the_result_as_it_is(numbers: DataFrame, kinds: DataFrame) -> None:
    def never(rows: list[Row]) -> Row:
        raise AssertionError

    one = reduce_rows(never, numbers.where("id = 7"), 2)
    assert (one.row["id"], one.layers.layers) == (7, ())
    every = reduce_rows(never, kinds.where("id = 0"), 2)
    assert every.row == FULL
    assert collected(every.df) == collected(kinds.where("id = 0"))
    assert every.df.schema.simpleString() == kinds.schema.simpleString()


def test_nothing_and_a_fan_in_below_two_are_refused(numbers: DataFrame) -> None:
    with pytest.raises(TypeError, match=r"^reduce\(\) of empty sequence with no initial value$"):
        reduce_rows(add, numbers.where("id < 0"), 10)
    with pytest.raises(InvalidReduction, match="fan_in = 1 is not usable"):
        reduce_rows(add, numbers, 1)


def test_an_error_names_the_rows_and_the_layer(numbers: DataFrame) -> None:
    def brittle(rows: list[Row]) -> Row:
        if max(row["id"] for row in rows) > 5_000:
            raise ValueError("too much\nof it")
        return add(rows)

    cause = r"brittle failed in partition 0 at layer 1, rows 50 to 59: ValueError: too much of it; its input was \[\{'id': 5045"
    with pytest.raises(FunctionFailed, match=cause) as failed:
        reduce_rows(brittle, numbers, 10, partitions=1)
    assert isinstance(failed.value.__cause__, SparkFailed)
    with pytest.raises(FunctionFailed, match="layer 0, rows 0 to 9: it returned None, and a row is a dictionary"):
        reduce_rows(lambda rows: None, numbers, 10, partitions=1)  # type: ignore[arg-type, return-value]  # as the careless do


def test_a_reduction_can_be_interrupted(numbers: DataFrame) -> None:
    work = SparkWork()
    work.interrupt()
    with pytest.raises(SparkInterrupted):
        reduce_rows(add, numbers, 10, work=work)


def test_a_ref_is_read_with_a_session_as_of_its_snapshot(
    spark: SparkSession, new_table: Callable[..., TableName], append: Callable[..., None]
) -> None:
    table = new_table("id BIGINT, kind STRING")
    append(table, id=range(10), kind=["n"] * 10)
    snapshot = spark.sql(f"SELECT snapshot_id FROM {table.quoted}.snapshots").collect()[0][0]
    append(table, id=range(10), kind=["late"] * 10)
    ref = TableRef("t1", str(table), snapshot, 10, Producer("dag", "run", "task"))
    assert reduce_rows(add, ref.where("id > 5"), 3, spark=spark).row["id"] == 6 + 7 + 8 + 9
    assert map_rows(even_doubled, ref, args=(1,), spark=spark).count() == 5
    with pytest.raises(InvalidInterimTable, match="pass it as spark="):
        reduce_rows(add, ref, 3)


# --- the page -------------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_run(spark: SparkSession) -> None:
    names: dict[str, Any] = {
        "flights": spark.range(0, 100, 1, 2).selectExpr(
            "id AS flight", "IF(id % 10 = 0, NULL, id * 10) AS distance", "DATE '2013-01-01' + CAST(id % 5 AS INT) AS day"
        )
    }
    text = PAGE.read_text()
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        if "airflow.sdk" in block[1] or "Operator(" in block[1]:
            continue
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    assert names["total"].row["flights"] == 90
