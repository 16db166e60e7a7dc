"""What a view's condition means without Spark, and what is refused because only Spark knows. (Beside Spark: test_views_alike.)"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.interim.condition import Comparison, Junction, Kind, OnlySparkKnows, Op, Value
from airflow_snowpack.interim.condition_text import parse
from airflow_snowpack.interim.frame_errors import UnreadableView
from airflow_snowpack.interim.matching import Matching
from airflow_snowpack.interim.reading import read_as_arrow
from airflow_snowpack.interim.refs import Producer, TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAN = float("nan")
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "n": [1, 2, None, 4],
        "x": [1.0, NAN, None, 9.0],
        "zero": [-0.0, 0.0, 1.0, None],
        "price": pa.array([Decimal("1.00"), Decimal("1.01"), None, Decimal("2.50")], pa.decimal128(10, 2)),
        "name": ["UA", "U_", None, "B%"],
        "late": [True, False, None, True],
        "odd `name": [1, 2, 3, 4],
        "a.b": [1, 2, 3, 4],
    }
)


def ids(condition: str, rows: pa.Table = ROWS) -> list[int]:
    found: list[int] = Matching(parse(condition), rows.schema).rows(rows)["id"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("n > 1.5", [2, 4]),
        ("n != 1.5", [1, 2, 4]),
        ("n NOT IN (1, 2)", [4]),
        ("NOT n IN (1, 7)", [2, 4]),
        ("n BETWEEN 2 AND 4", [2, 4]),
        ("3 > n", [1, 2]),
        ("NOT (n > 1 AND late)", [1, 2]),
        ("n = 1 OR n = 2 AND late", [1]),
        ("x < 5", [1]),
        ("x != 1", [2, 4]),
        ("isnan(x) OR x IS NULL", [2, 3]),
        ("price > 1.005", [2, 4]),
        ("name LIKE 'U_'", [1, 2]),
        ("name NOT LIKE 'U%'", [4]),
        ("name = 'ua'", []),
        ("late", [1, 4]),
        ("NOT late", [2]),
        ("`odd ``name` > 3 or `A.B`=1", [1, 4]),
        ("true", [1, 2, 3, 4]),
        ("false", []),
        ("zero <= 0", [1, 2]),
    ],
)
def test_a_condition_holds_for_the_rows_for_which_it_holds_in_spark(condition: str, found: list[int]) -> None:
    assert ids(condition) == found


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("name = 1", "the column 'name' is string, and what = 1 means"),
        ("n = '1'", "up to Spark"),
        ("n < 9223372036854775808", "up to Spark"),
        ("late = 1", "up to Spark"),
        ("n LIKE '1%'", "up to Spark"),
        ("isnan(n)", "up to Spark"),
        ("nothing = 1", "no column 'nothing'"),
        ('name = "UA"', "understood from"),
        ("name = 'it''s'", "understood from"),
        ("name LIKE 'B\\%'", "understood from"),
        ("n > 1 -- enough", "understood from"),
        ("n + 1 > 2", "understood from"),
        ("n = 1e0", "understood from"),
        ("n <=> 1", "understood from"),
        ("a.b = 1", "understood from"),
        ("n = NULL", "understood from"),
        ("n IN ()", "understood from"),
        ("(n = 1", "ends too early"),
        ("name = '${spark.app.name}'", "something else"),
        ("(" * 5000 + "n = 1" + ")" * 5000, "too deep"),
    ],
)
def test_what_only_spark_knows_is_refused(condition: str, why: str) -> None:
    with pytest.raises(OnlySparkKnows, match=why):
        ids(condition)


def test_a_nan_or_a_minus_zero_that_spark_finds_in_some_files_only_is_refused_where_it_matters() -> None:
    for condition in ("x > 5", "NOT (x <= 5)", "x NOT BETWEEN 0 AND 20", "zero = 0", "zero >= 0", "zero IN (0, 1)"):
        with pytest.raises(OnlySparkKnows, match="lie in files"):
            ids(condition)

    assert ids("x > 5 AND NOT isnan(x)") == [4]
    assert ids("x > 5 OR id = 2") == [2, 4], "found in either case"
    assert ids("x > 5", ROWS.slice(2)) == [4]


def test_not_is_pushed_down_to_the_comparisons() -> None:
    one = (Value(Kind.NUMBER, "1"),)
    assert parse("NOT (n = 1 AND (m < 1 OR k IS NULL))") == Junction(
        False,
        (
            Comparison("n", Op.NOT_EQUAL, one),
            Junction(True, (Comparison("m", Op.GREATER_EQUAL, one), Comparison("k", Op.NOT_NULL))),
        ),
    )


def test_names_that_differ_by_case_only_are_refused() -> None:
    with pytest.raises(OnlySparkKnows, match="each of the columns"):
        ids("n = 1", pa.table({"id": [1], "n": [1], "N": [2]}))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[TableRef, Catalog]:
    """:data:`ROWS` as a table."""
    catalog = CatalogConfig.embedded(tmp_path_factory.mktemp("lake")).load()
    catalog.create_namespace("db")
    catalog.create_table("db.t", schema=ROWS.schema).append(ROWS)
    return TableRef("1", "lake.db.t", None, 4, Producer("d", "r", "t")), catalog


def test_a_view_reads_what_its_condition_needs_and_gives_what_it_selects(table: tuple[TableRef, Catalog]) -> None:
    ref, catalog = table
    view = ref.where("(n > 1.5 OR name = 'UA') AND id < 4").where("`a.b` >= 1").order_by("n desc").select("Name")
    assert read_as_arrow(view, catalog).to_pydict() == {"Name": ["U_", "UA"]}
    assert read_as_arrow(ref.order_by("x desc", "id").select("id"), catalog)["id"].to_pylist() == [2, 4, 1, 3], (
        "NaN is the greatest"
    )
    assert read_as_arrow(ref.where("late").limit(1), catalog).num_rows == 1


@pytest.mark.parametrize("order", ["id desc nulls last", "id, n", "1", "a.b", "`id", "rand()", "nothing", ""])
def test_an_order_that_is_more_than_columns_is_refused_in_a_sentence(order: str, table: tuple[TableRef, Catalog]) -> None:
    ref, catalog = table
    with pytest.raises(UnreadableView, match="as a DataFrame of Spark"):
        read_as_arrow(ref.order_by(order), catalog)
