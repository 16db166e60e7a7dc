"""Build a snapshot of all aeroplanes for look-ups by tail number, once a day.

Each run builds data as of the end of its data interval. A backfill of older days, in any order, never replaces newer data:

    airflow backfill create --dag-id snowpack_build_shards --from-date 2013-01-05 --to-date 2013-01-07
    airflow dags test snowpack_build_shards -f "$PWD/dags/snowpack_build_shards.py" -c '{"tail_number": "N14228"}'

If the table of flights does not exist, the first task creates it with the demo's first two weeks (`airflow-snowpack[demo]`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, task

from airflow_snowpack.operators import ShardedBuildOperator

DATASET = "flights_by_tail"

with DAG(
    dag_id="snowpack_build_shards",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    is_paused_upon_creation=True,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        ),
        "tail_number": Param("N14228", type="string", title="Tail number", description="What the last task looks up"),
    },
):

    @task
    def load_flights(table: str) -> int:
        """Load two weeks of the demo's flights if the table does not exist, and return how many were loaded."""
        from airflow_snowpack.hooks import IcebergCatalogHook
        from examples.demo.tables import make_flights

        hook = IcebergCatalogHook()
        return make_flights(hook.catalog, hook.table_name(table))

    build = ShardedBuildOperator(
        task_id="build",
        dataset=DATASET,
        sql=(
            "SELECT tailnum, count(*) AS flights, sum(distance) AS miles, avg(arr_delay) AS mean_delay, "
            "max(flight_date) AS last_seen FROM {{ params.table }} "
            "WHERE tailnum IS NOT NULL AND flight_date < DATE '{{ data_interval_end | ds }}' GROUP BY tailnum"
        ),
        key="tailnum",
        num_shards=8,
        shard_format="sqlite",
        keep_runs=7,
    )

    @task
    def look_up(tail_number: str) -> dict[str, Any] | None:
        """Read one aeroplane from the current build."""
        from airflow_snowpack.builds import SnapshotReader
        from airflow_snowpack.hooks import BuildStorageHook

        hook = BuildStorageHook()
        with SnapshotReader(hook.storage(hook.url_of(DATASET))) as planes:
            found = planes.get(tail_number)
        return None if found is None else {name: str(value) for name, value in found.items()}

    load_flights("{{ params.table }}") >> build >> look_up("{{ params.tail_number }}")
