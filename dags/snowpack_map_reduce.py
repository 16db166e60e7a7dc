"""Map and reduce the flights of a table with Python functions, as tasks and inside of a task.

    airflow dags test snowpack_map_reduce -f "$PWD/dags/snowpack_map_reduce.py" -c '{"fan_in": 1000}'

Tasks pass references to interim tables, no rows. The XCom `layers` of the task `total` has the rows that went into each layer of
its reduction, its partitions, and the rows that came out. If the table of flights does not exist, the first task creates it with
the demo's first two weeks (`airflow-snowpack[demo]`).
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
    """Convert a flight to a row that can be summed; drop a cancelled one."""
    if row["arr_delay"] is None:
        return None
    flight = f"{row['carrier']}{row['flight']} of {row['flight_date']} from {row['origin']} to {row['dest']}"
    return {"flights": 1, "miles": int(row["distance"]), "worst_delay": int(row["arr_delay"]), "worst": flight}


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum flights, or sums of flights."""
    worst = max(rows, key=lambda row: row["worst_delay"])
    return {
        "flights": sum(row["flights"] for row in rows),
        "miles": sum(row["miles"] for row in rows),
        "worst_delay": worst["worst_delay"],
        "worst": worst["worst"],
    }


def counted(batches: Iterator[pa.RecordBatch], late: int) -> Iterator[pa.RecordBatch]:
    """Count the flights of each batch that were more than ``late`` minutes late, a whole column at a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        delayed = pc.sum(pc.greater(batch["worst_delay"], late)).as_py() or 0
        yield pa.RecordBatch.from_pydict({"flights": [batch.num_rows], "late": [delayed]})


def added(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Add counts."""
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
        "fan_in": Param(
            1000, type="integer", minimum=2, title="Fan-in", description="How many rows the function reduces at once"
        ),
        "late": Param(60, type="integer", title="Late", description="A flight is late after this many minutes"),
    },
):

    @task
    def load_flights(table: str) -> int:
        """Load two weeks of the demo's flights if the table does not exist, and return how many were loaded."""
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
        """Call the functions inside of a task."""
        from airflow_snowpack.interim import map_partitions, reduce_rows

        counts = map_partitions(counted, legs, "flights bigint, late bigint", args=(int(late),))
        return reduce_rows(added, counts, fan_in=100).df

    @task.snowpack
    def report(total: pa.Table, punctuality: pa.Table) -> dict[str, Any]:
        """Return both rows, read without Spark."""
        return {**total.to_pylist()[0], "late": punctuality["late"][0].as_py()}

    load_flights("{{ params.table }}") >> legs
    report(total.output, punctuality(legs.output, "{{ params.late }}"))
