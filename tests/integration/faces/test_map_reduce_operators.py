"""The operators that map and reduce, in Airflow's own runner, on real Spark: from a table to refs and layers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.frames.tables import read_on_spark
from airflow_snowpack.interim.map_reduce.errors import FunctionFailed
from airflow_snowpack.interim.refs import read_ref
from tests.unit.faces.conftest import Outcome, Runner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Row = dict[str, Any]


@pytest.fixture
def counted(new_table: Callable[..., TableName], append: Callable[..., None]) -> TableName:
    """A table of the numbers from 0 to 99."""
    name = new_table("id BIGINT")
    append(name, id=range(100))
    return name


def times(row: Row, factor: int, plus: int = 0) -> Row | None:
    return {"n": row["id"] * factor + plus} if row["id"] % 2 else None


def add(rows: list[Row]) -> Row:
    return {"n": sum(row["n"] for row in rows)}


def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"n": pc.multiply(batch["n"], 2)})


def rows_behind(spark: SparkSession, outcome: Outcome) -> list[int]:
    return sorted(row["n"] for row in read_on_spark(read_ref(outcome.xcom), spark).collect())


def pushed(outcome: Outcome, key: str) -> Any:
    (value,) = [each.value for each in outcome.sent if type(each).__name__ == "SetXCom" and each.key == key]
    return value


def test_a_table_is_mapped_and_reduced_from_ref_to_ref(
    run_operator: Runner, installation: Path, spark: SparkSession, counted: TableName
) -> None:
    mapped = run_operator(
        operators.MapRowsOperator(
            task_id="map",
            python_callable=times,
            table="{{ params.table }}",
            schema="n bigint",
            op_args=[10],
            op_kwargs={"plus": "{{ 1 + 1 }}"} | {"plus": 1},
        ),
        params={"table": counted.dotted},
    )
    assert mapped.state == "success", mapped.error
    assert rows_behind(spark, mapped) == [number * 10 + 1 for number in range(1, 100, 2)]
    assert (mapped.xcom["snowpack"], mapped.xcom["rows"]) == ("table", 50)

    again = run_operator(
        operators.MapPartitionsOperator(task_id="double", python_callable=doubled, table=json.dumps(mapped.xcom))
    )
    assert again.state == "success", again.error

    reduced = run_operator(
        operators.ReduceRowsOperator(
            task_id="reduce", python_callable=add, table=again.xcom, fan_in="{{ 5 * 2 }}", order_by="n desc", partitions=3
        )
    )
    assert reduced.state == "success", reduced.error
    assert rows_behind(spark, reduced) == [2 * (10 * 2500 + 50)]
    assert pushed(reduced, "layers") == {
        "rows": 50,
        "fan_in": 10,
        "layers": [
            {"layer": 0, "rows_in": 50, "partitions": 3, "rows_out": 5},
            {"layer": 1, "rows_in": 5, "partitions": 1, "rows_out": 1},
        ],
    }
    with hooks.SnowpackHook() as hook:
        query = "SELECT kind FROM operations ORDER BY at"
        kinds = hook.store().read(lambda conn: [row[0] for row in conn.exec_driver_sql(query)])
    assert kinds == ["map", "map", "reduce"]


def test_a_function_that_fails_fails_the_task_with_the_row_and_leaves_nothing_handed_on(
    run_operator: Runner, installation: Path, counted: TableName
) -> None:
    def brittle(row: Row) -> Row:
        return {"n": 1 // (row["id"] - 7)}

    outcome = run_operator(
        operators.MapRowsOperator(task_id="map", python_callable=brittle, table=counted.dotted, schema="n bigint")
    )
    assert outcome.state == "up_for_retry"
    assert isinstance(outcome.error, FunctionFailed)
    assert "ZeroDivisionError" in str(outcome.error)
    assert "its input was {'id': 7}" in str(outcome.error)
    assert outcome.xcom is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"fan_in": "{{ 1 }}"}, "fan_in = 1 is not usable"),
        ({"fan_in": "many"}, "The argument fan_in = 'many' cannot be read"),
        ({"fan_in": 2, "order_by": "size"}, "order_by = 'size' is not usable"),
        ({"fan_in": 2, "table": "{{ none }}"}, "The argument table = 'None' cannot be read"),
    ],
)
def test_what_a_retry_would_meet_again_fails_for_good(
    run_operator: Runner, installation: Path, counted: TableName, arguments: dict[str, Any], expected: str
) -> None:
    usual = {"task_id": "reduce", "python_callable": add, "table": counted.dotted}
    outcome = run_operator(operators.ReduceRowsOperator(**(usual | arguments)))
    assert outcome.state == "failed"
    assert expected in str(outcome.error)


def test_a_reduction_of_nothing_is_refused(run_operator: Runner, installation: Path, new_table: Callable[..., TableName]) -> None:
    outcome = run_operator(
        operators.ReduceRowsOperator(task_id="reduce", python_callable=add, table=new_table("n BIGINT").dotted, fan_in=2)
    )
    assert isinstance(outcome.error, TypeError)
    assert str(outcome.error) == "reduce() of empty sequence with no initial value"
