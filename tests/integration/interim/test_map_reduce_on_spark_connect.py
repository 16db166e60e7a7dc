"""Mapping and reducing through Spark Connect, in a process of its own: one process cannot have both kinds of sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent

from airflow_snowpack.spark.java import find_java

SCRIPT = """
    import pyarrow.compute as pc
    from pyspark.sql import SparkSession
    from airflow_snowpack.interim import map_partitions, map_rows, reduce_rows
    from airflow_snowpack.interim.function_errors import FunctionFailed

    builder = SparkSession.builder.remote("local[2]")
    for key, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    print(type(session).__module__)
    numbers = session.range(0, 100, 1, 2).selectExpr("(id * 37) % 100 AS id", "timestamp_seconds(id) AS at")

    def even(row):
        return row if row["id"] % 2 == 0 else None

    def doubled(batches):
        for batch in batches:
            yield batch.set_column(0, "id", pc.multiply(batch["id"], 2))

    def first(rows):
        if len(rows) == 1:
            raise ValueError("one alone")
        return {"id": sum(row["id"] for row in rows), "at": rows[0]["at"]}

    table = map_partitions(doubled, map_rows(even, numbers))
    reduced = reduce_rows(first, table, 10, order_by="at desc")
    print(reduced.layers, reduced.row["id"], reduced.row["at"].isoformat(), reduced.df.collect()[0]["id"])
    try:
        reduce_rows(first, table, 49)
    except FunctionFailed as failed:
        print(failed.place, "|", failed.cause.partition(";")[0], "|", failed.__notes__[0].splitlines()[-1])
"""


def test_functions_and_their_errors_go_through_a_server() -> None:
    # pyspark starts the server itself here, with the Java that the environment names.
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", dedent(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert done.stdout.splitlines() == [
        "pyspark.sql.connect.session",
        "50 → 5 → 1 4900 1970-01-01T00:01:38+00:00 4900",
        "layer 0, rows 49 to 49 | ValueError: one alone | ValueError: one alone",
    ], done.stderr[-3000:]
