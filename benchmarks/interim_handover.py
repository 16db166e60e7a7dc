"""Handing 1,000,000 rows of 10 columns to the next task, beside writing and reading a plain Iceberg table by hand.

Both write the same Parquet input as a fresh table in the same session and read all of it again, in turns. Ours also puts the
table on record before it exists, hands it on with a pin for its consumer, holds it while it is read, and renews all leases
meanwhile; the store is on Postgres. Seconds are the wall clock's; CPU is that of this process and the JVM. What the store costs
for each table is measured apart, with tables that nobody writes. Run in a process of its own:
`python -m benchmarks.interim_handover results.json 5 postgresql://…`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_snowpack.interim.registry import Output
from benchmarks.harness import Meter
from benchmarks.results import Finding, Measurement, Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim import InterimRegistry
    from airflow_snowpack.interim.model import TaskAttempt
    from benchmarks.postgres import Server

ROWS, TABLES = 1_000_000, 300
MOST, MOST_MS = 1.1, 10.0
WARM_UPS = 10
"""Turns of each. The JVM compiles what both of them use for about as long, and whoever is measured meanwhile pays for it."""
BY_HAND, OURS = "write and read by hand", "hand over"
WHAT, BOOKS = "hand 1M rows over", "bookkeeping of a table"


def run(server: Server, results: Results, *, rounds: int) -> None:
    url = server.fresh_database("bench_interim_handover", durable=True)
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        out = Path(home) / "seconds.json"
        command = [sys.executable, "-m", "benchmarks.interim_handover", str(out), str(rounds), url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The handover on Spark failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        for each in json.loads(out.read_text()):
            results.add(Measurement(**each))
    ours, own = (results.median("seconds", WHAT, contender) for contender in (OURS, BY_HAND))
    cpu = results.median("cpu_us", WHAT, OURS) / results.median("cpu_us", WHAT, BY_HAND)
    says = f"{ours:.2f} s : {own:.2f} s, medians; CPU {cpu:.2f}"
    results.find(Finding("hand over / write and read by hand, 1M rows of 10 columns", ours / own, at_most=MOST, says=says))
    per_table = results.median("seconds", BOOKS, OURS) / TABLES * 1000
    results.find(Finding("ms of bookkeeping for each interim table, on Postgres", per_table, at_most=MOST_MS))


def _measure(out: Path, rounds: int, url: str) -> None:
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.interim import InterimRegistry
    from airflow_snowpack.spark import SparkConfig, local_session
    from airflow_snowpack.store import Store, upgrade_schema
    from airflow_snowpack.store.opening import open_engine

    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder, Store(open_engine(url)) as store:
        upgrade_schema(store)
        lake = CatalogConfig.embedded(Path(folder) / "lake")
        session = local_session(SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages()))
        session.sql("CREATE NAMESPACE lake.db")
        _make_input(session, f"{folder}/input")
        registry, catalog = InterimRegistry(store), lake.load()

        def read_input() -> DataFrame:
            return session.read.parquet(f"{folder}/input")

        ways: dict[str, Callable[[], None]] = {
            BY_HAND: lambda: _by_hand(read_input(), session),
            OURS: lambda: _handed_over(read_input(), session, registry, catalog),
        }
        measured = []
        for number in range(-WARM_UPS, rounds):
            # In turns, and with the first place changing hands: what warms up or fills up must not favour one.
            for name in sorted(ways, reverse=bool(number % 2)):
                each = _metered(WHAT, name, ROWS, number, ways[name])
                measured += [each] if number >= 0 else []
        session.stop()
        for number in range(-1, rounds):
            each = _metered(BOOKS, OURS, TABLES, number, lambda: _books(registry))
            measured += [each] if number >= 0 else []
        out.write_text(json.dumps(measured))


def _by_hand(df: DataFrame, session: SparkSession) -> None:
    name = f"lake.db.t_{uuid4().hex}"
    df.writeTo(name).using("iceberg").create()
    session.table(name).write.format("noop").mode("overwrite").save()


def _handed_over(df: DataFrame, session: SparkSession, registry: InterimRegistry, catalog: Catalog) -> None:
    from airflow_snowpack.interim import TableHandover

    run_id = uuid4().hex
    with TableHandover(registry, lambda: catalog, _holder(run_id, "clean"), catalog_name="lake", consumers=["report"]) as clean:
        ref = clean.run(session, lambda: clean.give(df))
    with TableHandover(registry, lambda: catalog, _holder(run_id, "report"), catalog_name="lake", consumers=[]) as report:
        report.run(session, lambda: report.read(ref, session).write.format("noop").mode("overwrite").save())


def _books(registry: InterimRegistry) -> None:
    """All that the store has to do with a table from its announcement to its reader's end."""
    run_id = uuid4().hex
    for number in range(TABLES):
        writer, reader = _holder(run_id, f"clean_{number}"), _holder(run_id, f"report_{number}")
        writing = registry.begin(writer, catalog="lake")
        ref = registry.commit(Output(writing, 1, 1), consumers=[reader.task.task_id])[0]
        registry.release(registry.consume([ref], attempt=reader))


def _holder(run_id: str, task_id: str) -> TaskAttempt:
    from airflow_snowpack.airflow.task_ref import TaskRef
    from airflow_snowpack.interim.model import TaskAttempt

    return TaskAttempt(TaskRef("bench", run_id, task_id), id=uuid4().hex)


def _metered(what: str, name: str, n: int, number: int, work: Callable[[], None]) -> dict[str, Any]:
    with Meter() as meter:
        work()
    time.sleep(0.2)
    return {
        "what": what,
        "contender": name,
        "n": n,
        "seconds": round(meter.seconds, 4),
        "per_s": round(n / meter.seconds, 1),
        "cpu_us": round(meter.own_cpu / n * 1e6, 2),
        "foreign_cpu": round(meter.foreign_cores, 2),
        "setting": {"round": number},
        "extra": {},
    }


def _make_input(session: SparkSession, path: str) -> None:
    """Ten columns as a table of events has them."""
    session.range(0, ROWS, 1, 4).selectExpr(
        "id",
        "(id * 7919) % 1000003 AS user_id",
        "concat('user-', (id * 7919) % 1000003) AS user",
        "CAST(id % 97 AS INT) AS visits",
        "rand(1) AS score",
        "rand(2) * 1000 AS amount",
        "timestamp_seconds(1356998400 + id) AS seen_at",
        "date_add(DATE '2013-01-01', CAST(id % 365 AS INT)) AS day",
        "concat('segment-', id % 20) AS segment",
        "id % 3 = 0 AS active",
    ).write.parquet(path)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _measure(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
