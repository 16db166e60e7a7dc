"""Estimates of plans beside what Spark then did, over generated tables.

    python -m benchmarks estimates

Each table has random partitions, commits, sizes and deletes; its plan runs action by action on one warm session. What is compared
is the sum over all tables, and each table alone: files removed and bytes rewritten. The cost is compared twice: the second round
of tables is estimated with the factors that the first one has taught.
"""

from __future__ import annotations

import json
import random
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import Finding, Results

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import ActionFigures, Jobs
    from airflow_snowpack.maintenance.planning import Estimate

TABLES = 24
STREAMED = (30, 98, 130)
"""Commits of tables whose plans rewrite data files and their manifests; from 99 manifests on, the first merges them."""
AGE = timedelta(days=10)
FILES_OFF, BYTES_OFF = 0.05, 0.10
PARTITIONED_BY = ("", "day", "bucket(3, id)", "truncate(2, note)", "day, bucket(2, id)")
RULES = """
rules:
  - tables: "**"
    cadence: 1m
    actions:
      rewrite_data_files: {thresholds: {small_files: 8}, options: {min_input_files: 3}}
      rewrite_position_delete_files: {thresholds: {delete_files: 4}, options: {min_input_files: 2}}
      rewrite_manifests: {thresholds: {small_manifests: 4}}
      expire_snapshots: {thresholds: {old_snapshots: 2}, options: {retain_last: 1}}
  - tables: "*.deletes*"
    actions:
      rewrite_data_files: {enabled: false}
"""


@dataclass(frozen=True)
class Compared:
    """One action that ran: what was estimated, and what it did."""

    table: str
    action: str
    estimate: Estimate
    outcome: ActionFigures


def name_of(seed: int) -> str:
    """Name the table of a seed: of every third one, only the delete files are rewritten."""
    return f"{'deletes' if seed % 3 == 2 else 'table'}_{seed}"


def make_table(spark: SparkSession, name: TableName, seed: int, *, commits: tuple[int, int] = (6, 14), deletes: int = 5) -> None:
    """Make a table whose shape follows from the seed."""
    draw = random.Random(seed)
    partitions = PARTITIONED_BY[seed % len(PARTITIONED_BY)]
    by = f"PARTITIONED BY ({partitions}) " if partitions else ""
    # By default, a DELETE of Spark leaves no more than a delete file for each data file, and nothing to combine.
    granularity = "partition" if name.table.startswith("deletes") else "file"
    spark.sql(
        f"CREATE TABLE {name.quoted} (id BIGINT, day INT, note STRING) USING iceberg {by}TBLPROPERTIES ("
        "'format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none', "
        f"'write.spark.fanout.enabled' = 'true', 'write.delete.granularity' = '{granularity}')"
    )
    first = 0
    for _ in range(draw.randint(*commits)):
        rows, days = draw.choice((20, 200, 4_000)), draw.randint(1, 3)
        notes = "concat(substr('abcdef', 1 + id % 4, 2), repeat(sha2(cast(id AS STRING), 256), 2))"
        source = f"range({first}, {first + rows}, 1, {draw.randint(1, 2)})"
        spark.sql(f"INSERT INTO {name.quoted} SELECT id, cast(id % {days} AS INT), {notes} FROM {source}")
        first += rows
    for number in range(deletes if name.table.startswith("deletes") else draw.choice((0, 0, 2))):
        spark.sql(f"DELETE FROM {name.quoted} WHERE id % 50 = {number}")


def make_streamed(catalog: Catalog, name: TableName, commits: int, **properties: str) -> None:
    """Make a table as a stream leaves it: a file and a manifest for each commit, so that a plan rewrites both."""
    import pyarrow as pa

    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table(name.identifier, rows.schema, properties=properties)
    for _ in range(commits):
        table.append(rows)


def make_older(catalog: Catalog, name: TableName) -> None:
    """Let the commits of a table be ten days old, so that its snapshots may expire and no partition is being written to."""
    table = catalog.load_table(name.identifier)
    with table.io.new_input(table.metadata_location).open() as source:
        metadata = json.loads(source.read())
    moments = [*metadata["snapshots"], *metadata["snapshot-log"], *metadata["metadata-log"], metadata]
    for each in moments:
        key = next(key for key in ("timestamp-ms", "last-updated-ms") if key in each)
        each[key] -= AGE // timedelta(milliseconds=1)
    place = f"{table.location()}/metadata/90000-{uuid.uuid4()}.metadata.json"
    with table.io.new_output(place).create() as sink:
        sink.write(json.dumps(metadata).encode())
    catalog.drop_table(name.identifier)
    catalog.register_table(name.identifier, place)


def run_plan(spark: SparkSession, catalog: Catalog, jobs: Jobs, name: TableName) -> Iterator[Compared]:
    """Plan the table and run the plan."""
    from airflow_snowpack.inventory import HealthRecords
    from airflow_snowpack.jobs import ActionFigures, Attempt
    from airflow_snowpack.maintenance import SparkEngine
    from airflow_snowpack.maintenance.planning import Planner
    from airflow_snowpack.maintenance.removals.records import Removals

    planner = Planner(_policies(), HealthRecords(jobs.store), jobs)
    plan = planner.plan(catalog.load_table(name.identifier), name)
    request = plan.request()
    claim = jobs.submit_and_claim(name, request.actions, "benchmark", **request.rest)
    job = Attempt(jobs, claim, SparkEngine(lambda: spark, lambda: catalog, removals=Removals(jobs.store))).run()
    for result in job.results:
        estimate = plan.of(result.action).estimate
        if estimate is not None:
            assert result.success, result
            yield Compared(str(name), result.action, estimate, ActionFigures.of(result))


def _policies() -> Any:
    from airflow_snowpack.maintenance.policies import Policies

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.yaml"
        path.write_text(RULES)
        return Policies.load(path)


def run(results: Results) -> None:
    from airflow_snowpack.iceberg import CatalogConfig, TableName
    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.spark import SparkConfig, local_session
    from airflow_snowpack.store import open_store

    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        lake = CatalogConfig.embedded(Path(home))
        spark = local_session(SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="estimates"))
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
        catalog, rounds = lake.load(), list[list[Compared]]()
        with Jobs(open_store(f"sqlite:///{home}/store.db")) as jobs:
            names = [TableName(lake.name, "db", name_of(seed), lake.catalog_id) for seed in range(TABLES)]
            for _ in range(2):
                rounds.append([])
                for seed, name in enumerate(names):
                    spark.sql(f"DROP TABLE IF EXISTS {name.quoted} PURGE")
                    make_table(spark, name, seed)
                    make_older(catalog, name)
                    rounds[-1] += run_plan(spark, catalog, jobs, name)
                for commits in STREAMED:
                    name = TableName(lake.name, "db", f"streamed_{commits}", lake.catalog_id)
                    spark.sql(f"DROP TABLE IF EXISTS {name.quoted} PURGE")
                    make_streamed(catalog, name, commits)
                    rounds[-1] += run_plan(spark, catalog, jobs, name)
    report(results, rounds)


def report(results: Results, rounds: list[list[Compared]]) -> None:
    """Add the findings: by action over all tables, the worst table, and the cost before and after correction."""
    by_action: dict[str, list[Compared]] = defaultdict(list)
    for compared in rounds[0]:
        by_action[compared.action].append(compared)
    for action, found in by_action.items():
        for what, limit in (("files_removed", FILES_OFF), ("bytes_rewritten", BYTES_OFF)):
            if any(getattr(each.outcome, what) for each in found):
                estimated, done = (sum(getattr(getattr(each, side), what) for each in found) for side in ("estimate", "outcome"))
                worst = max(off([each], what) for each in found)
                figures = f"{estimated:,} : {done:,}; {len(found)} tables; worst {worst:.1%}"
                name = f"{action}, {what.replace('_', ' ')}: |estimate - outcome| / outcome"
                results.find(Finding(name, off(found, what), at_most=limit, says=figures))
    streamed = [each for each in rounds[0] if ".streamed_" in each.table]
    figures = f"{len(streamed)} actions on {len(STREAMED)} tables, data files and manifests"
    name = "plans that rewrite both, files removed: |estimate - outcome| / outcome"
    results.find(Finding(name, off(streamed, "files_removed"), at_most=FILES_OFF, says=figures))
    for number, found in enumerate(rounds, 1):
        name = f"GB·h of round {number}: |estimate - outcome| / outcome"
        results.find(Finding(name, off(found, "gb_hours"), says=f"{len(found)} actions"))


def off(found: list[Compared], what: str) -> float:
    """Return by how much the sum of the estimates is off that of the outcomes."""
    estimated = sum(getattr(each.estimate, what) for each in found)
    done = sum(getattr(each.outcome, what) or 0 for each in found)
    return abs(estimated - done) / max(done, 1e-9) if estimated or done else 0.0
