"""Rows of Arrow and pandas as interim tables, and views on them, without Spark: with a real catalog in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.errors import UnfitForm, UnreadableView, UnwritableFrame
from airflow_snowpack.interim.forms import Form, FrameKind, as_arrow, frame_kind, in_form
from airflow_snowpack.interim.frames.data_files import rows_of
from airflow_snowpack.interim.frames.iceberg_types import in_iceberg_types
from airflow_snowpack.interim.frames.tables import query_of, read_as_arrow, write_table
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

FLIGHTS = {"id": [1, 2, 3, 4], "origin": ["JFK", "LGA", "JFK", None], "delay": [30, None, 5, 90]}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return CatalogConfig.embedded(tmp_path_factory.mktemp("lake")).load()


@pytest.fixture
def handed(catalog: Catalog, request: pytest.FixtureRequest) -> Callable[[Any], TableRef]:
    """Write rows as a table of their own; gives its reference."""

    def write(frame: Any) -> TableRef:
        name = TableName("lake", "snowpack_interim", f"t_{abs(hash(request.node.nodeid))}")
        written = write_table(frame, name, catalog, "store1")
        producer = Producer("flights", "run1", "clean")
        return TableRef("1", str(name), written.snapshot_id, written.rows, producer)

    return write


@pytest.fixture
def flights(handed: Callable[[Any], TableRef]) -> TableRef:
    return handed(pa.table(FLIGHTS))


def test_what_holds_rows_is_known_by_its_class_and_nothing_else_is() -> None:
    rows = pa.table(FLIGHTS)
    of_arrow = [
        rows,
        rows.to_batches()[0],
        rows.to_reader(),
        pl.DataFrame(FLIGHTS),
        pl.LazyFrame(FLIGHTS),
        duckdb.sql("SELECT 1"),
    ]
    others = [FLIGHTS, [rows], rows.schema, None, type(rows), "x"]

    assert [frame_kind(each) for each in of_arrow] == [FrameKind.ARROW] * 6
    assert frame_kind(rows.to_pandas()) is FrameKind.PANDAS
    assert [frame_kind(each) for each in others] == [None] * 6


def test_what_polars_cannot_give_to_arrow_is_refused() -> None:
    with pytest.raises(UnwritableFrame, match="the column c: Polars's Object cannot be kept"):
        as_arrow(pl.DataFrame({"c": pl.Series([object()], dtype=pl.Object)}))
    for kind in (pl.Int128, pl.UInt128):
        with pytest.raises(UnwritableFrame, match=r"the column c\.element\.n: Polars's U?Int128 .*Cast it to pl\.Decimal"):
            as_arrow(pl.DataFrame({"c": [[{"n": 1}]]}, schema={"c": pl.List(pl.Struct({"n": kind}))}))


@pytest.mark.parametrize("count", [0, 3])
def test_a_record_batch_holds_all_rows(count: int) -> None:
    rows = pa.concat_tables([pa.table({"n": [number]}) for number in range(count)] or [pa.table({"n": pa.array([], pa.int64())})])

    assert in_form(rows, Form.BATCH).equals(pa.record_batch({"n": pa.array(range(count), pa.int64())}))
    assert in_form(rows, Form.READER).read_all().equals(rows)


@pytest.mark.parametrize("column", [pa.table(FLIGHTS)["id"], pl.Series([1]), pd.Series([1])])
def test_a_column_is_no_table_and_is_refused(column: Any) -> None:
    with pytest.raises(UnwritableFrame, match=f"this {type(column).__name__} cannot become a table of Arrow"):
        as_arrow(column)


@pytest.mark.parametrize(
    "form",
    [
        pa.Table.to_pandas,
        lambda rows: rows.to_batches()[0],
        pa.Table.to_reader,
        pl.DataFrame,
        lambda rows: pl.DataFrame(rows).lazy(),
        duckdb.from_arrow,
    ],
)
def test_all_forms_of_the_same_rows_become_the_same_table(
    form: Callable[[pa.Table], Any], catalog: Catalog, handed: Callable[[Any], TableRef]
) -> None:
    rows = pa.table({"id": [1, 2], "origin": ["JFK", None]})
    ref = handed(form(rows))

    assert ref.rows == 2
    assert read_as_arrow(ref, catalog).to_pylist() == rows.to_pylist()


def test_a_table_without_rows_keeps_its_columns(catalog: Catalog, handed: Callable[[Any], TableRef]) -> None:
    ref = handed(pa.table(FLIGHTS).slice(0, 0))

    assert ref.rows == 0
    assert read_as_arrow(ref, catalog).column_names == list(FLIGHTS)


def test_a_reference_is_read_as_of_its_own_snapshot(catalog: Catalog, flights: TableRef) -> None:
    catalog.load_table(flights.table.removeprefix("lake.")).append(pa.table(FLIGHTS))

    assert read_as_arrow(flights, catalog).num_rows == 4


def test_nanoseconds_become_microseconds_where_nothing_is_lost_and_are_refused_where_something_is() -> None:
    moment = datetime(2013, 1, 1, 5, 15, 0, 123456, UTC)
    fine = pa.table({"at": pa.array([moment], pa.timestamp("ns", tz="UTC"))})
    assert in_iceberg_types(fine)["at"].to_pylist() == [moment]

    with pytest.raises(UnwritableFrame, match="would lose data"):
        in_iceberg_types(pa.table({"at": pa.array([1], pa.timestamp("ns"))}))


def test_a_column_without_a_type_in_iceberg_fails_with_one_sentence(handed: Callable[[Any], TableRef]) -> None:
    with pytest.raises(UnwritableFrame, match="These rows cannot become a table"):
        handed(pa.table({"nothing": pa.array([None], pa.null())}))


NESTED = {
    "c": "{}",
    "c.element": "[{}]",
    "c.field": "{{'field': {}}}",
    "c.value": "MAP{{1: {}}}",
    "c.field.element": "{{'field': [{}]}}",
}
"""Where a value may be, and how DuckDB writes it there."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("340282366920938463463374607431768211455::UHUGEINT", "UHUGEINT cannot be kept. Cast it to HUGEINT"),
        ("'101'::BIT", "BIT cannot be kept. Cast it to VARCHAR"),
        ("1::VARIANT", "VARIANT cannot be kept. Cast it to JSON"),
        ("'10:00:00+05'::TIMETZ", "TIME WITH TIME ZONE cannot be kept. Cast it to TIME or to VARCHAR"),
        ("1::BIGNUM", "BIGNUM cannot be kept"),
        ("INTERVAL 1 DAY", "INTERVAL cannot be kept"),
        ("union_value(a := 1)", r"UNION\(a INTEGER\) cannot be kept"),
        ("NULL", '"NULL" cannot be kept'),
        ("170141183460469231731687303715884105727::HUGEINT", "does not fit in precision of"),
        ("TIME '24:00:00'", "a time of day is before 00:00:00 or after 23:59:59.999999"),
        ("'infinity'::DATE", "a date is before the year 1 or after 9999"),
        ("'10000-01-01'::DATE", "a date is before the year 1"),
        ("'0044-03-15 (BC)'::DATE", "a date is before the year 1"),
        ("'-infinity'::TIMESTAMP", "a timestamp is before the year 1"),
        ("'10000-01-01'::TIMESTAMPTZ", "a timestamp is before the year 1"),
    ],
)
@pytest.mark.parametrize("path", NESTED)
def test_a_value_of_duckdb_that_others_would_read_differently_is_refused_at_any_depth(
    value: str, expected: str, path: str
) -> None:
    rows = duckdb.sql(f"SELECT {NESTED[path].format(value)} AS c")
    with pytest.raises(UnwritableFrame, match=rf"the column {path}( \([^)]*\))?: .*{expected}") as refused:
        in_iceberg_types(as_arrow(rows))
    assert re.search(r"\. (Cast|Store|Replace) ", str(refused.value))


@pytest.mark.parametrize("column", duckdb.sql("FROM test_all_types()").columns)
def test_the_smallest_and_the_largest_value_of_every_type_of_duckdb_is_kept_or_refused(column: str) -> None:
    given = duckdb.sql(f'SELECT "{column}" AS c FROM test_all_types()')
    try:
        kept = duckdb.from_arrow(in_iceberg_types(as_arrow(given)))
    except UnwritableFrame:
        with pytest.raises(UnwritableFrame, match=r"the column c.*\. (Cast|Store|Replace|Round|Drop) "):
            in_iceberg_types(as_arrow(given))
        return
    assert kept.project("c::VARCHAR").fetchall() == given.project("c::VARCHAR").fetchall()


def test_columns_that_differ_in_case_are_not_renamed_by_duckdb_but_refused() -> None:
    with pytest.raises(UnfitForm, match=r"DuckDB does not distinguish upper and lower case.*with pa\.Table"):
        in_form(pa.table({"A": [1], "a": [2]}), Form.DUCKDB)
    assert as_arrow(duckdb.sql("SELECT 1 AS A, 2 AS a")).column_names == ["A", "a"]


def test_a_reader_that_was_read_is_refused_and_one_without_rows_is_not() -> None:
    rows = pa.table({"n": [1, 2], "ids": pa.chunked_array([pa.nulls(2, pa.list_(pa.uuid()))])})
    reader = rows.to_reader()
    assert as_arrow(reader).equals(rows)
    with pytest.raises(UnwritableFrame, match=r"it was already read to its end, or never had one\. Return a pyarrow\.Table"):
        as_arrow(reader)
    assert as_arrow(in_form(rows[:0], Form.READER)).schema == rows.schema


def test_an_extension_type_that_arrow_does_not_know_is_refused_at_any_depth() -> None:
    unknown = pa.field("shape", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    for field, path in ((unknown, "shape"), (pa.field("c", pa.list_(pa.struct([unknown]))), r"c\.element\.shape")):
        with pytest.raises(UnwritableFrame, match=rf"the column {path}: .*extension type geoarrow\.wkb\. Cast it"):
            in_iceberg_types(pa.schema([field]).empty_table())


def test_without_spark_a_view_is_ordered_then_limited_and_then_loses_its_columns(catalog: Catalog, flights: TableRef) -> None:
    def ids(view: Any) -> list[int]:
        return [row["id"] for row in read_as_arrow(view.select("id"), catalog).to_pylist()]

    assert ids(flights.order_by("delay desc").limit(2)) == [4, 1]
    assert ids(flights.order_by("delay")) == [2, 3, 1, 4], "as Spark: nothing comes first"
    assert ids(flights.order_by("ORIGIN", "`Delay` DESC")) == [4, 1, 3, 2]
    assert len(ids(flights.limit(3))) == 3
    assert read_as_arrow(flights.select("Origin", "id"), catalog).column_names == ["Origin", "id"], "as Spark"


def test_without_spark_nan_is_the_greatest_and_odd_names_are_found(handed: Callable[[Any], TableRef], catalog: Catalog) -> None:
    table = handed(
        pa.table({"id": [1, 2, 3, 4], "x": [1.0, float("nan"), None, 9.0], "a.b": [4, 3, 2, 1], "odd `name": [1, 2, 3, 4]})
    )
    assert read_as_arrow(table.order_by("x desc", "id").select("id"), catalog)["id"].to_pylist() == [2, 4, 1, 3]
    assert read_as_arrow(table.order_by("`a.b`").select("A.B"), catalog).to_pydict() == {"A.B": [1, 2, 3, 4]}
    assert read_as_arrow(table.order_by("`Odd ``name` desc").limit(1), catalog)["id"].to_pylist() == [4]


@pytest.mark.parametrize(
    ("view", "why"),
    [
        ("where('delay > 2')", "its condition is SQL, which only Spark evaluates"),
        ("where('delay > 2').order_by('id').limit(1)", "its condition is SQL"),
        ("select('no')", "there is no column 'no'"),
        ("order_by('no')", "there is no column 'no'"),
        ("order_by('raw')", "only Spark orders .*binary"),
        ("order_by('twice')", "'twice' may be each of the columns"),
        *(
            (f"order_by({order!r})", "is more than a column and its direction")
            for order in ("delay + 1", "id desc nulls last", "id, n", "1", "a.b", "`id", "rand()", "null", "TRUE desc", "")
        ),
    ],
)
def test_a_view_that_takes_spark_is_refused_with_the_ways_out(
    view: str, why: str, handed: Callable[[Any], TableRef], catalog: Catalog
) -> None:
    rows = handed(pa.table(FLIGHTS | {"raw": [b"a"] * 4, "null": [1] * 4, "TRUE": [1] * 4, "twice": [1] * 4, "Twice": [1] * 4}))
    assert rows.rows == 4
    with pytest.raises(UnreadableView, match=rf"{why}.*\.toArrow\(\).*filter its rows in the task"):
        read_as_arrow(eval(f"rows.{view}"), catalog)


def test_rows_that_a_filter_would_leave_out_are_not_read_past_it(catalog: Catalog, flights: TableRef) -> None:
    scan = catalog.load_table(flights.table.partition(".")[2]).scan(row_filter="id > 2")
    with pytest.raises(ValueError, match="reads every row"):
        rows_of(scan)


def test_for_spark_a_view_is_one_query_of_the_snapshot_that_a_comment_in_a_condition_does_not_swallow() -> None:
    ref = TableRef("1", "lake.snowpack_interim.t", 7, 4, Producer("d", "r", "t"))
    view = ref.where("a > 1 -- enough").select("b", "odd`name").order_by("a desc", "b").limit(3)

    assert " ".join(query_of(view).split()) == (
        "SELECT `b`, `odd``name` FROM `lake`.`snowpack_interim`.`t` VERSION AS OF 7 "
        "WHERE (( a > 1 -- enough )) ORDER BY a desc , b LIMIT 3"
    )
    assert query_of(ref) == "SELECT * FROM `lake`.`snowpack_interim`.`t` VERSION AS OF 7"
