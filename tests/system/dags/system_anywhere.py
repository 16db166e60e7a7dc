"""A table is handed from task to task, and the DAG says nothing of where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

with DAG(dag_id="system_anywhere", schedule=None, params={"tell": ""}):

    @task.snowpack
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 AS third")

    @task.snowpack
    def told(spark: SparkSession, numbers: DataFrame, params: dict[str, Any]) -> None:
        from pyspark.sql.functions import col, sum as total_of  # they make columns of the session's kind

        sums = {row["third"]: row["total"] for row in numbers.groupBy(col("third")).agg(total_of("id").alias("total")).collect()}
        where = {"master": spark.conf.get("spark.master"), "session": type(spark).__module__}
        Path(params["tell"]).write_text(json.dumps({"sums": [sums[third] for third in range(3)], **where}))

    told(numbers=numbers())
