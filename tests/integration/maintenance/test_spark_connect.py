"""The engine on Spark Connect, where there is no JVM at hand. In a process of its own: one process cannot have both kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

from airflow_snowpack.spark.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import sys, threading, time
    from datetime import UTC, datetime
    from pathlib import Path
    from pyspark.sql import SparkSession
    from airflow_snowpack.iceberg import CatalogConfig, TableName
    from airflow_snowpack.jobs.model import Job, JobStatus
    from airflow_snowpack.maintenance import Action, SparkEngine
    from airflow_snowpack.spark import SparkConfig

    lake = CatalogConfig.embedded(Path(sys.argv[1]))
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages())
    builder = SparkSession.builder.remote("local[2]")
    for key, value in {**config.launch_conf(), **config.session_conf()}.items():
        if key != "spark.master":
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    name = TableName("lake", "db", "t")
    session.sql("CREATE NAMESPACE lake.db").collect()
    session.sql(f"CREATE TABLE {name.quoted} (id BIGINT, note STRING) USING iceberg").collect()

    def fill(rows):
        for _ in range(3):
            session.sql(f"INSERT INTO {name.quoted} SELECT id, uuid() FROM range(0, {rows}, 1, 1)").collect()

    def run(engine, action, **options):
        job = Job("j1", name, tuple(Action), {action: options}, False, JobStatus.RUNNING, datetime.now(UTC))
        result = engine.run(job, action)
        print(result.outcome, "|", result.message)
        return result

    fill(10)
    engine = SparkEngine(lambda: session, lake.load)
    run(engine, Action.REWRITE_DATA_FILES, min_input_files=2)
    error = run(engine, Action.REWRITE_DATA_FILES, where="nowhere = 1").error
    print(error.partition(";")[0], "cannot be resolved" in error, "at org.apache" in error)
    run(engine, Action.EXPIRE_SNAPSHOTS, max_age="PT0S", retain_last=1)
    run(engine, Action.REMOVE_ORPHAN_FILES)
    fill(30000)
    session.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES "
                "('write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19')").collect()
    head = lake.load().load_table("db.t").metadata.current_snapshot_id
    threading.Timer(0.3, engine.interrupt).start()
    run(engine, Action.REWRITE_DATA_FILES, min_input_files=2)
    print(lake.load().load_table("db.t").metadata.current_snapshot_id == head)
"""


def test_the_actions_and_the_interrupt_work_through_a_server(tmp_path: Path) -> None:
    # pyspark starts the server itself here, with the Java that the environment names.
    environment = {**os.environ, "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, "-c", dedent(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert done.stdout.splitlines() == [
        "succeeded | Compacted 3 files into 1",
        "failed | Failed before anything was committed",
        "IllegalArgumentException: Cannot parse predicates in where option: nowhere = 1 True False",
        "succeeded | Expired 3 snapshots and deleted 9 files",
        "succeeded | No orphan files",
        "interrupted | Interrupted before anything was committed",
        "True",
    ], done.stderr[-3000:]
