"""Runs scripts on Spark Connect: ``python connect_scripts.py <home of the catalog>``.

Each line on its standard input is a script as a JSON string, in which ``session`` and ``lake`` are defined. The answer is a line
of JSON: what the script printed. It is a process of its own because one process cannot have both kinds of sessions.
"""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.spark import SparkConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(lake: CatalogConfig) -> SparkSession:
    """Return a session on a server that pyspark starts itself, with the Java that the environment names."""
    from pyspark.sql import SparkSession

    for_small_tables = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "2"}
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), conf=for_small_tables)
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**config.launch_conf(), **config.session_conf()}.items():
        if key != "spark.master":
            builder = builder.config(key, value)
    return builder.getOrCreate()


def main(home: str) -> None:
    lake = CatalogConfig.embedded(Path(home))
    session = connected(lake)
    for line in sys.stdin:
        printed = StringIO()
        with redirect_stdout(printed):
            try:
                # Spark sends functions of this module name by value.
                exec(json.loads(line), {"__name__": "__main__", "session": session, "lake": lake})
            except Exception:  # noqa: BLE001 - the test compares what is printed
                print(traceback.format_exc())
        print(json.dumps(printed.getvalue()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
