"""Writing a build's shards on Spark, beside Spark's own ``df.repartition(8).write.parquet`` of the same rows in the same session.

Both read the same Parquet files and write 1,000,000 rows into 8 parts on the local disk. Ours also hash every key, sort each
shard by it, sum up each file, and write its record; as SQLite they are indexed by key as well. The runs take turns. Seconds are
the wall clock's; CPU is that of this process, the JVM and Spark's Python workers together, which depends less on what else is
going on. Run in a process of its own: `python -m benchmarks.builds_write results.json 5`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Meter
from benchmarks.results import Finding, Measurement, Results

ROWS, SHARDS = 1_000_000, 8
MOST_PARQUET = 1.5
LEAST_SQLITE_ROWS = 100_000
WARM_UPS = 2
KEYS = {"integer": "user_id", "string": "user"}
OWN = "repartition().write"


def run(results: Results, *, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        out = Path(home) / "seconds.json"
        command = [sys.executable, "-m", "benchmarks.builds_write", str(out), str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The builds on Spark failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        for each in json.loads(out.read_text()):
            results.add(Measurement(**each))
    for kind in KEYS:
        _compare(results, kind)


def _compare(results: Results, kind: str) -> None:
    what = "write build"
    own = results.median("seconds", what, OWN)
    parquet = results.median("seconds", what, f"parquet, {kind} keys")
    per_s = results.median("per_s", what, f"sqlite, {kind} keys")
    cpu = results.median("cpu_us", what, f"parquet, {kind} keys") / results.median("cpu_us", what, OWN)
    says = f"{parquet:.2f} s : {own:.2f} s, medians; CPU {cpu:.2f}"
    results.find(
        Finding(f"8 Parquet shards / Spark's own write, 1M rows, {kind} keys", parquet / own, at_most=MOST_PARQUET, says=says)
    )
    results.find(Finding(f"rows/s into 8 SQLite shards, 1M rows, {kind} keys", per_s, at_least=LEAST_SQLITE_ROWS))


def _measure(out: Path, rounds: int) -> None:
    from airflow_snowpack.builds.build_spec import BuildSpec, Interrupt
    from airflow_snowpack.builds.model import ShardFormat, Sharding
    from airflow_snowpack.builds.storage import Storage
    from airflow_snowpack.builds.write.spark_source import SparkSource
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.spark import SparkConfig, local_session

    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder:
        home = Path(folder)
        lake = CatalogConfig.embedded(home / "lake")
        session = local_session(SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages()))
        _make_input(session, str(home / "input"))

        def own(name: str) -> None:
            session.read.parquet(str(home / "input")).repartition(SHARDS).write.parquet(str(home / name))

        def ours(shard_format: ShardFormat, key: str) -> Callable[[str], None]:
            def write(name: str) -> None:
                df = session.read.parquet(str(home / "input"))
                spec = BuildSpec(dataset="set", key=key, sharding=(sharding := Sharding.hash(SHARDS)), shard_format=shard_format)
                SparkSource(df).write(Storage(home / name), "run", spec, sharding, Interrupt())

            return write

        ways = {OWN: own} | {
            f"{shard_format.value}, {kind} keys": ours(shard_format, key)
            for shard_format in ShardFormat
            for kind, key in KEYS.items()
        }
        measured = []
        for number in range(-WARM_UPS, rounds):
            # In turns, and with the first place changing hands: what warms up or fills up must not favour one.
            for name in sorted(ways, reverse=bool(number % 2)):
                each = _metered(name, ways[name], home, number)
                measured += [each] if number >= 0 else []
        out.write_text(json.dumps(measured))
        session.stop()


def _metered(name: str, write: Callable[[str], None], home: Path, number: int) -> dict[str, Any]:
    target = f"out_{number + WARM_UPS}"
    with Meter() as meter:
        write(target)
    files = [file for file in (home / target).rglob("*") if file.suffix in {".parquet", ".sqlite"}]
    size = sum(file.stat().st_size for file in files)
    shutil.rmtree(home / target)
    return {
        "what": "write build",
        "contender": name,
        "n": ROWS,
        "seconds": round(meter.seconds, 3),
        "per_s": round(ROWS / meter.seconds, 1),
        "cpu_us": round(meter.own_cpu / ROWS * 1e6, 2),
        "foreign_cpu": round(meter.foreign_cores, 2),
        "setting": {"round": number},
        "extra": {"MB": round(size / 1e6, 1)},
    }


def _make_input(session: Any, path: str) -> None:
    """Features by user: the keys in no order, as a source has them."""
    session.range(0, ROWS, 1, 4).selectExpr(
        "(id * 7919) % 1000003 AS user_id",
        "concat('user-', (id * 7919) % 1000003) AS user",
        "CAST(id % 97 AS INT) AS visits",
        "rand(1) AS score",
        "timestamp_seconds(1356998400 + id) AS seen_at",
        "concat('segment-', id % 20) AS segment",
    ).write.parquet(path)


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
