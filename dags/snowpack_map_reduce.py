"""Map and reduce the flights of a table with Python functions: a row for each flight, one row of all, and both inside of a task.

    airflow dags test snowpack_map_reduce -f "$PWD/dags/snowpack_map_reduce.py" -c '{"fan_in": 1000}'

What goes from task to task is a ref of an interim table, and no rows. The task `total` has an XCom `layers`: how many rows went
into each layer of its reduction, on how many partitions, and how many came out. Where there is no table of flights yet, the first
task makes one of the demo's first two weeks (`airflow-snowpack[demo]`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

from airflow_snowpack.operators import MapRowsOperator, ReduceRowsOperator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def arrived(row: dict[str, Any]) -> dict[str, Any] | None:
    """One flight, as the sums below have it; a cancelled one is left out."""
    if row["arr_delay"] is None:
        return None
    flight = f"{row['carrier']}{row['flight']} of {row['flight_date']} from {row['origin']} to {row['dest']}"
    return {"flights": 1, "miles": int(row["distance"]), "worst_delay": int(row["arr_delay"]), "worst": flight}


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Some flights, or sums of flights, as one row."""
    worst = max(rows, key=lambda row: row["worst_delay"])
    return {
        "flights": sum(row["flights"] for row in rows),
        "miles": sum(row["miles"] for row in rows),
        "worst_delay": worst["worst_delay"],
        "worst": worst["worst"],
    }


def counted(batches: Iterator[pa.RecordBatch], late: int) -> Iterator[pa.RecordBatch]:
    """How many flights of each batch were late by more than so many minutes; whole columns at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        delayed = pc.sum(pc.greater(batch["worst_delay"], late)).as_py() or 0
        yield pa.RecordBatch.from_pydict({"flights": [batch.num_rows], "late": [delayed]})


def added(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts as one row."""
    return {name: sum(row[name] for row in rows) for name in ("flights", "late")}


with DAG(
    dag_id="snowpack_map_reduce",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        ),
        "fan_in": Param(1000, type="integer", minimum=2, title="Fan-in", description="How many rows are made one at a time"),
        "late": Param(60, type="integer", title="Late", description="More minutes than these are late"),
    },
):

    @task
    def load_flights(table: str) -> int:
        """Two weeks of the demo's flights, where there is no such table yet; gives how many were loaded."""
        from airflow_snowpack.hooks import IcebergCatalogHook
        from examples.demo.tables import make_flights

        hook = IcebergCatalogHook()
        return make_flights(hook.catalog, hook.table_name(table))

    legs = MapRowsOperator(
        task_id="legs",
        python_callable=arrived,
        table="{{ params.table }}",
        schema="flights bigint, miles bigint, worst_delay int, worst string",
    )
    total = ReduceRowsOperator(task_id="total", python_callable=summed, table=legs.output, fan_in="{{ params.fan_in }}")

    @task.snowpack
    def punctuality(legs: DataFrame, late: str) -> DataFrame:
        """The same functions inside of a task."""
        from airflow_snowpack.interim import map_partitions, reduce_rows

        counts = map_partitions(counted, legs, "flights bigint, late bigint", args=(int(late),))
        return reduce_rows(added, counts, fan_in=100).df

    @task.snowpack
    def report(total: pa.Table, punctuality: pa.Table) -> dict[str, Any]:
        """Both rows, read without Spark."""
        return {**total.to_pylist()[0], "late": punctuality["late"][0].as_py()}

    load_flights("{{ params.table }}") >> legs
    report(total.output, punctuality(legs.output, "{{ params.late }}"))
