"""Pass tables from task to task: flights are loaded, cleaned, evaluated in two ways, and joined in a report.

Only small references go through Airflow. Each table exists until no task that received it can run any more, also while a consumer
is retried:

    airflow dags test snowpack_interim_tables -f "$PWD/dags/snowpack_interim_tables.py" -c '{"days": 14}'

Small tables need no Spark: a parameter with the annotation `pa.Table` or `pd.DataFrame` is read without it. The flights are those
of the demo (`airflow-snowpack[demo]`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param, task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from airflow_snowpack.interim import TableRef, ViewRef

with DAG(
    dag_id="snowpack_interim_tables",
    schedule=None,
    doc_md=__doc__,
    tags=["snowpack"],
    is_paused_upon_creation=True,
    params={
        "days": Param(7, type="integer", minimum=1, maximum=365, title="Days", description="How many days of flights"),
        "failures": Param(
            1, type="integer", minimum=0, maximum=2, title="Failures", description="How often a consumer fails before it succeeds"
        ),
    },
):

    @task.snowpack
    def ingest(params: dict[str, Any]) -> pa.Table:
        """Read the first days of 2013 from a file. Arrow writes the table; no Spark is started."""
        from examples.demo.flights import read_flights

        return read_flights(params["days"])

    @task.snowpack
    def clean(flights: DataFrame) -> DataFrame:
        """Drop cancelled flights."""
        return flights.where("dep_time IS NOT NULL AND arr_delay IS NOT NULL")

    @task.snowpack
    def by_airline(flights: DataFrame) -> DataFrame:
        """Compute the mean delay of each airline."""
        from pyspark.sql.functions import avg, count

        return flights.groupBy("carrier").agg(count("*").alias("flights"), avg("arr_delay").alias("mean_delay"))

    @task.snowpack(retries=2, retry_delay=timedelta(seconds=1))
    def worst_days(flights: DataFrame, params: dict[str, Any], ti: Any) -> DataFrame:
        """Find each airline's worst day. The first try fails; the retry finds its input again."""
        if ti.try_number <= params["failures"]:
            raise RuntimeError("The weather service did not answer.")
        from pyspark.sql.functions import avg, max_by

        days = flights.groupBy("carrier", "flight_date").agg(avg("arr_delay").alias("delay"))
        return days.groupBy("carrier").agg(max_by("flight_date", "delay").alias("worst_day"))

    @task.snowpack
    def join(airlines: DataFrame, worst: DataFrame) -> DataFrame:
        """Join both results by airline."""
        return airlines.join(worst, "carrier")

    @task.snowpack
    def latest(airlines: TableRef) -> ViewRef:
        """Return the three airlines with the longest delays: a view, which has no data of its own and keeps its table."""
        return airlines.order_by("mean_delay desc").limit(3)

    @task.snowpack
    def report(airlines: pa.Table) -> list[dict[str, Any]]:
        """Return the rows, which are few, as an ordinary XCom."""
        rows = [{name: str(value) for name, value in airline.items()} for airline in airlines.to_pylist()]
        for airline in rows:
            print(airline)
        return rows

    cleaned = clean(ingest())
    report(latest(join(by_airline(cleaned), worst_days(cleaned))))
