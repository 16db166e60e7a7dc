"""Reading the health of a table beside Spark's metadata tables in a warm session, its memory for a million files, stored health.

The entries of the manifests name data files that do not exist, because neither way opens one. They have the statistics of ten
columns, as Iceberg writes them by default, and Spark has written the manifests, as ``rewrite_manifests`` does. Spark answers five
queries for what health has: counts by partition, when each partition was last written to, manifests, snapshots, branches and
tags; the histogram of sizes is left out. Both run in turns on the same table in one process:
`python -m benchmarks.health beside results.json 3`.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.parse import _environment
from benchmarks.results import Finding, Results

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

FILES = 100_000
COMMITS = 10
COPIES = 10
PARTITIONS = 90
COLUMNS = 10
ROWS_A_FILE = 1_000
MIB = 1024**2
BYTES_A_FILE = (MIB, 700 * MIB)
AT_MOST = 0.33
AT_MOST_MIB = 1024.0
AT_MOST_S = 2.0
TABLES = 10_000
LISTED = 10
WARM_UPS = 2
LOW, HIGH = 384 * MIB, int(1.8 * 512 * MIB)
COUNTS = (
    "count(*), sum(file_size_in_bytes), sum(record_count), "
    f"count_if(file_size_in_bytes < {LOW}), sum(if(file_size_in_bytes < {LOW}, file_size_in_bytes, 0)), "
    f"count_if(file_size_in_bytes > {HIGH}), sum(if(file_size_in_bytes > {HIGH}, file_size_in_bytes, 0))"
)


def run(results: Results, *, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder:
        home = Path(folder)
        beside = _in_process(home, "beside", rounds)
        ours, spark = (statistics.median(beside[name]) for name in ("ours", "spark"))
        cpu = statistics.median(beside["ours_cpu"]), statistics.median(beside["spark_cpu"])
        what = f"health of {FILES:,} files / Spark's metadata tables"
        says = f"{cpu[0]:.2f} s : {cpu[1]:.2f} s, medians of {rounds}"
        results.find(Finding(f"{what}, CPU", cpu[0] / cpu[1], at_most=AT_MOST, says=says))
        says = f"{ours:.2f} s : {spark:.2f} s, medians of {rounds}"
        results.find(Finding(f"{what}, by the clock", ours / spark, at_most=AT_MOST, says=says))
        stored = _in_process(home, "stored", 1)
        says = f"{stored['seconds'][0]:.2f} s for {stored['tables'][0]:,.0f} tables with {LISTED} listed partitions each"
        results.find(Finding("stored health of many tables, CPU in s", stored["cpu"][0], at_most=AT_MOST_S, says=says))
        million = _in_process(home, "million", 1)
        says = (
            f"{million['files'][0]:,.0f} files, {million['cpu'][0]:.1f} s of CPU; {million['before'][0]:.0f} MiB before it began"
        )
        results.find(
            Finding("health of a table of many files: the most memory, MiB", million["peak"][0], at_most=AT_MOST_MIB, says=says)
        )


def _stored(_: int) -> dict[str, list[float]]:
    """Store the health of the table, as that of many tables, and read it back."""
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.iceberg import TableName, read_health
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.store import open_store, upgrade_schema
    from airflow_snowpack.store.opening import open_engine
    from airflow_snowpack.store.store import Store

    url = f"sqlite:///{os.environ['AIRFLOW__SNOWPACK__HOME']}/stored.db"
    upgrade_schema(Store(open_engine(url)))
    health = read_health(IcebergCatalogHook().catalog.load_table("bench.files"), now=datetime.now(UTC))
    kept = replace(health, partitions=health.partitions[:LISTED])
    with open_store(url) as store:
        records, names = Installation(store).health_records, [TableName("lake", "bench", f"t{each}") for each in range(TABLES)]
        for name in names:
            records.put(name, kept)
        cpu, began = time.process_time(), time.monotonic()
        found = records.get(names)
        return {"cpu": [time.process_time() - cpu], "seconds": [time.monotonic() - began], "tables": [len(found)]}


def _in_process(home: Path, what: str, rounds: int) -> dict[str, list[float]]:
    out = home / f"{what}.json"
    command = [sys.executable, "-m", "benchmarks.health", what, str(out), str(rounds)]
    environment = _environment(home) | {"AIRFLOW__SNOWPACK__HOME": str(home / "lake")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Reading the health failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    measured: dict[str, list[float]] = json.loads(out.read_text())
    return measured


def _beside_spark(rounds: int) -> dict[str, list[float]]:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook

    session, catalog = IcebergSparkHook().session(), IcebergCatalogHook().catalog
    catalog.create_namespace("bench")
    _make(catalog, "bench.files")
    session.sql("CALL lake.system.rewrite_manifests(table => 'bench.files')").collect()
    ways: dict[str, Callable[[], int]] = {"ours": lambda: _ours(catalog), "spark": lambda: _spark(session)}
    measured: dict[str, list[float]] = {f"{name}{figure}": [] for name in ways for figure in ("", "_cpu")}
    for number in range(WARM_UPS + rounds):
        # In turns, and with the first place changing hands: what warms up must not favour one.
        for name in sorted(ways, reverse=bool(number % 2)):
            cpu, began = _cpu_seconds(), time.monotonic()
            files = ways[name]()
            if files != FILES:
                raise RuntimeError(f"{name} counts {files} files")
            if number >= WARM_UPS:
                measured[name].append(time.monotonic() - began)
                measured[f"{name}_cpu"].append(_cpu_seconds() - cpu)
    return measured


def _ours(catalog: Catalog) -> int:
    from airflow_snowpack.iceberg import read_health

    return read_health(catalog.load_table("bench.files"), now=datetime.now(UTC)).data_files


def _spark(session: Any) -> int:
    table = "lake.bench.files"
    by_partition = session.sql(
        f"SELECT partition, spec_id, content, file_format, {COUNTS} FROM {table}.files GROUP BY ALL"
    ).collect()
    session.sql(
        f"SELECT content, count(*), sum(length), count_if(length < {4 * MIB}) FROM {table}.manifests GROUP BY 1"
    ).collect()
    session.sql(f"SELECT snapshot_id, parent_id, committed_at, operation, summary FROM {table}.snapshots").collect()
    session.sql(f"SELECT * FROM {table}.refs").collect()
    return sum(row[4] for row in by_partition)


def _cpu_seconds() -> float:
    """Return the CPU of this process and of Spark's."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _million(_: int) -> dict[str, list[float]]:
    """Read the table of :func:`_beside_spark` after each of its manifests was copied several times."""
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.iceberg import read_health

    table = IcebergCatalogHook().catalog.load_table("bench.files")
    if os.environ.get("SNOWPACK_BENCH_COPIED") is None:
        # In a process of its own, so that its memory does not count.
        command = [sys.executable, "-m", "benchmarks.health", *sys.argv[1:]]
        _copy_manifests(table)
        os.execve(sys.executable, command, os.environ | {"SNOWPACK_BENCH_COPIED": "1"})
    before, began = _peak_mib(), time.process_time()
    health = read_health(table, now=datetime.now(UTC))
    return {
        "files": [health.data_files],
        "cpu": [time.process_time() - began],
        "before": [before],
        "peak": [_peak_mib()],
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _copy_manifests(table: Table) -> None:
    """Write the manifest list of the current snapshot again, with copies of its manifests."""
    from pyiceberg.manifest import ManifestFile, write_manifest_list

    snapshot = table.current_snapshot()
    assert snapshot is not None
    copies: list[ManifestFile] = []
    for manifest in snapshot.manifests(table.io):
        for number in range(COPIES):
            copy = f"{manifest.manifest_path.removesuffix('.avro')}-{number}.avro"
            shutil.copyfile(_path(manifest.manifest_path), _path(copy))
            values = [copy if place == 0 else manifest[place] for place in range(len(manifest))]
            copies.append(ManifestFile(*values))
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(snapshot.manifest_list),
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests(copies)


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:"))


def _make(catalog: Catalog, name: str) -> None:
    """Commit entries of files of many sizes in many partitions, each with the statistics of all columns."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType, NestedField

    columns, chance = range(1, COLUMNS + 1), random.Random(18)
    schema = Schema(*[NestedField(column, f"c{column}", LongType(), required=False) for column in columns])
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c1"))
    table = catalog.create_table(name, schema, partition_spec=spec)
    data = f"{table.location()}/data"
    for commit in range(COMMITS):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in range(FILES // COMMITS):
                partition = chance.randrange(PARTITIONS)
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{data}/c1={partition}/{commit:05d}-{number:08d}-{chance.getrandbits(128):032x}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(partition),
                    record_count=ROWS_A_FILE,
                    file_size_in_bytes=chance.randrange(*BYTES_A_FILE),
                    column_sizes={column: chance.randrange(MIB) for column in columns},
                    value_counts=dict.fromkeys(columns, ROWS_A_FILE),
                    null_value_counts=dict.fromkeys(columns, 0),
                    nan_value_counts={},
                    lower_bounds={column: chance.randbytes(8) for column in columns},
                    upper_bounds={column: chance.randbytes(8) for column in columns},
                    key_metadata=None,
                    split_offsets=[4],
                    equality_ids=None,
                    sort_order_id=0,
                )
                file.spec_id = 0
                append.append_data_file(file)


MEASURES = {"beside": _beside_spark, "stored": _stored, "million": _million}

if __name__ == "__main__":
    _what, _out, _rounds = sys.argv[1:]
    Path(_out).write_text(json.dumps(MEASURES[_what](int(_rounds))))
