"""Wear a table down with Spark, run all five actions on it, pass interim tables from task to task, and build shards."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from airflow_snowpack.operators import MaintainTableOperator, ShardedBuildOperator
from airflow_snowpack.spark.runtimes import NEWEST, installed_runtime

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TABLE = "demo.flights"
DAY_S = 24 * 3600

with DAG("compat", schedule=None):

    @task
    def wear() -> int:
        """Delete rows without rewriting their files, and leave a file that no snapshot has."""
        from airflow_snowpack.hooks import IcebergCatalogHook, IcebergSparkHook

        catalog, session = IcebergCatalogHook(), IcebergSparkHook().session()
        name = catalog.table_name(TABLE)
        properties = "'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition'"
        properties = "'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition'"
        session.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({properties})")
        for day in (3, 4):
            session.sql(f"DELETE FROM {name.quoted} WHERE day(flight_date) = {day} AND carrier = 'UA'")
        orphan = Path(catalog.catalog.load_table(name.identifier).location().removeprefix("file://")) / "data" / "orphan.parquet"
        orphan.write_bytes(b"0" * 100)
        os.utime(orphan, (time.time() - 9 * DAY_S,) * 2)
        return int(session.table(name.quoted).count())

    @task.snowpack
    def airlines() -> pa.Table:
        """Write an interim table with Arrow."""
        from airflow_snowpack.hooks import IcebergCatalogHook

        hook = IcebergCatalogHook()
        return hook.catalog.load_table(hook.table_name(TABLE).identifier).scan(selected_fields=("carrier", "distance")).to_arrow()

    @task.snowpack
    def counted(flights: DataFrame) -> DataFrame:
        """Read it with Spark, and write another."""
        from pyspark.sql.functions import count, sum as total

        return flights.groupBy("carrier").agg(count("*").alias("flights"), total("distance").alias("miles"))

    @task.snowpack
    def report(rows: pa.Table) -> list[dict[str, Any]]:
        """Read that one with Arrow."""
        return rows.sort_by("carrier").to_pylist()

    maintain = MaintainTableOperator(
        task_id="maintain",
        table=TABLE,
        only_if_needed=False,
        options={
            "rewrite_data_files": {"min_input_files": 2, "where": "flight_date < DATE '2013-01-03'"},
            "rewrite_position_delete_files": {"rewrite_all": True},
            "expire_snapshots": {"max_age": "1s", "retain_last": 1},
        },
    )
    rows: Any = airlines()
    wear() >> maintain >> rows
    reported = report(counted(rows))
    if installed_runtime() is NEWEST:  # older versions of Spark cannot build
        reported >> ShardedBuildOperator(
            task_id="build",
            dataset="miles_by_tail",
            sql=f"SELECT tailnum, sum(distance) AS miles FROM {TABLE} WHERE tailnum IS NOT NULL GROUP BY tailnum",
            key="tailnum",
            num_shards=4,
            shard_format="sqlite",
        )
