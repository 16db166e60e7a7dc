"""The engine, map and reduce on Spark Connect, where there is no JVM at hand. One server serves all of these tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from subprocess import PIPE
from textwrap import dedent

import connect_scripts
import pytest
from bounded import started

from airflow_snowpack.spark.java import find_java

LONGEST_S = 600.0

MAINTENANCE = """
    import sys, threading, time
    from pathlib import Path
    from urllib.parse import urlparse
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.maintenance import Action, SparkEngine
    from airflow_snowpack.maintenance.removals.records import Removals
    from airflow_snowpack.store import open_store
    from running_jobs import running_job

    name = TableName("lake", "db", "t")
    session.sql("CREATE NAMESPACE lake.db").collect()
    session.sql(f"CREATE TABLE {name.quoted} (id BIGINT, note STRING) USING iceberg").collect()

    def fill(rows):
        for _ in range(3):
            note = "concat(uuid(), uuid(), uuid())"
            session.sql(f"INSERT INTO {name.quoted} SELECT id, {note} FROM range(0, {rows}, 1, 1)").collect()

    def run(engine, action, **options):
        job = running_job(store, name, {action: options})
        result = engine.run(job, action)
        print(result.outcome, "|", result.message)
        return result

    def files():
        return set(Path(urlparse(lake.load().load_table("db.t").location()).path).rglob("*.parquet"))

    def interrupt_once_it_writes(engine, before):
        while not files() - before:
            time.sleep(0.02)
        engine.interrupt()

    fill(10)
    store = open_store(f"sqlite:///{sys.argv[1]}/snowpack.db")
    session.conf.set("spark.sql.variable.substitute", "true")  # as a server or a user's own code may have it
    engine = SparkEngine(lambda: session, lake.load, removals=Removals(store))
    run(engine, Action.REWRITE_DATA_FILES, min_input_files=2)
    error = run(engine, Action.REWRITE_DATA_FILES, where="nowhere = 1", only_if_needed=False).error
    print(error.partition(";")[0], "cannot be resolved" in error, "at org.apache" in error)
    print(session.sql("SELECT '${env:HOME} ${system:user.home}'").collect()[0][0])
    run(engine, Action.EXPIRE_SNAPSHOTS, max_age="PT0S", retain_last=1)
    run(engine, Action.REMOVE_ORPHAN_FILES, only_if_needed=False)
    fill(30000)
    session.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES "
                "('write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19')").collect()
    head = lake.load().load_table("db.t").metadata.current_snapshot_id
    threading.Thread(target=interrupt_once_it_writes, args=(engine, files()), daemon=True).start()
    run(engine, Action.REWRITE_DATA_FILES, min_input_files=2)
    print(lake.load().load_table("db.t").metadata.current_snapshot_id == head)
"""

MAP_REDUCE = """
    import pyarrow.compute as pc
    from airflow_snowpack.interim import map_partitions, map_rows, reduce_rows
    from airflow_snowpack.interim.map_reduce.errors import FunctionFailed

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
        where_and_why = str(failed).partition(";")[0].partition(" at ")[2]
        print(where_and_why, "|", failed.__notes__[0].splitlines()[-1])
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[str]]]:
    """Run a script in a process with a Spark Connect session; returns the lines that it printed."""
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, connect_scripts.__file__, str(tmp_path_factory.mktemp("connect"))]
    with started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE, env=environment) as process:

        def run(script: str) -> list[str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(dedent(script)) + "\n")
            process.stdin.flush()
            return str(json.loads(process.stdout.readline())).splitlines()

        yield run


@pytest.mark.cell("Spark Connect", "SQL", "local files")
def test_the_actions_and_the_interrupt_work_through_a_server(printed: Callable[[str], list[str]]) -> None:
    assert printed(MAINTENANCE) == [
        "succeeded | Compacted 3 files into 1",
        "failed | Failed before anything was committed",
        "IllegalArgumentException: Cannot parse predicates in where option: nowhere = 1 True False",
        "${env:HOME} ${system:user.home}",
        "succeeded | Expired 3 snapshots and deleted 9 files",
        "succeeded | No orphan files",
        "interrupted | Interrupted before anything was committed",
        "True",
    ]


def test_functions_and_their_errors_go_through_a_server(printed: Callable[[str], list[str]]) -> None:
    assert printed(MAP_REDUCE) == [
        "pyspark.sql.connect.session",
        "50 → 5 → 1 4900 1970-01-01T00:01:38+00:00 4900",
        "layer 0, rows 49 to 49: ValueError: one alone | ValueError: one alone",
    ]
