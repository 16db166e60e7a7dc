"""What a dry run says is what Spark then does."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import MetadataReader, TableName, read_health, read_numbers
from airflow_snowpack.jobs.model import Job
from airflow_snowpack.maintenance import Action, PlanningContext, SparkEngine, parse_options, plan_action
from airflow_snowpack.maintenance.plan import reader_for
from airflow_snowpack.maintenance.removals.records import Removals

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

Metrics = dict[str, int | float]
Both = Callable[..., tuple[Metrics, Metrics]]


@pytest.fixture
def both(spark: SparkSession, catalog: Catalog, removals: Removals, job_for: Callable[..., Job]) -> Both:
    """Plan an action, then do it: what both say about the same numbers. ``later`` moves the clock that ages count back from."""

    def run(name: TableName, action: Action, *, later: timedelta = timedelta(0), **options: Any) -> tuple[Metrics, Metrics]:
        now = datetime.now(UTC) + later
        table = catalog.load_table(name.identifier)
        parsed = parse_options(action, options)
        planned = plan_action(parsed, PlanningContext(reader_for(table, [parsed]), catalog, now))
        skip = parsed.nothing_to_do(lambda: MetadataReader(table), now=now)
        engine = SparkEngine(lambda: spark, lambda: catalog, removals=removals, now=lambda: now)
        done = engine.run(job_for(name, **{action.value: options}), action.value)
        assert (planned.success, done.success) == (True, True), f"{planned}\n{done}"
        assert skip is None or not any(done.metrics.values()), f"{skip}\n{done}"
        shared = planned.metrics.keys() & done.metrics.keys()
        assert shared, f"{planned.metrics} and {done.metrics} have no number in common"
        return {key: planned.metrics[key] for key in shared}, {key: done.metrics[key] for key in shared}

    return run


def without(metrics: Metrics, *names: str) -> Metrics:
    return {name: number for name, number in metrics.items() if name not in names}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"where": "part = 1"},
        {"where": "id < 40"},
        {"min_input_files": 100, "delete_file_threshold": 1},
        {"min_input_files": 100, "delete_file_threshold": 100, "delete_ratio_threshold": 0.2},
        {"min_input_files": 100, "delete_file_threshold": 100, "delete_ratio_threshold": 1.0},
        {"rewrite_all": True},
    ],
    ids=str,
)
def test_data_files(fragmented: Callable[..., TableName], both: Both, options: dict[str, Any]) -> None:
    planned, done = both(fragmented(), Action.REWRITE_DATA_FILES, **options)

    assert planned == done


def test_data_files_in_groups_of_limited_size(fragmented: Callable[..., TableName], both: Both) -> None:
    """All files are rewritten: Spark does not promise an order, so which files share a group could decide which are rewritten."""
    name = fragmented()

    # One commit: of several, Iceberg would leave out one that the catalog refuses for a moment, and not count its files.
    options = {"max_file_group_size_bytes": 3000, "rewrite_all": True, "partial_progress": False}
    planned, done = both(name, Action.REWRITE_DATA_FILES, **options)

    assert planned == done
    assert planned["added_data_files_count"] > 3


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_data_files_whose_deletes_are_about_one_file_or_a_partition(
    fragmented: Callable[..., TableName], both: Both, granularity: str
) -> None:
    name = fragmented(deletes=1, **{"write.delete.granularity": granularity})

    planned, done = both(name, Action.REWRITE_DATA_FILES, min_input_files=100, delete_file_threshold=1)

    assert planned == done
    assert planned["rewritten_data_files_count"] > 0


def test_data_files_with_deletion_vectors(fragmented: Callable[..., TableName], both: Both, catalog: Catalog) -> None:
    name = fragmented(inserted_by_spark=True, **{"format-version": "3"})
    health = read_health(catalog.load_table(name.identifier), now=datetime.now(UTC))
    assert (health.deletion_vectors > 0, health.position_delete_files) == (True, 0)

    planned, done = both(name, Action.REWRITE_DATA_FILES, min_input_files=100, delete_ratio_threshold=0.15)

    assert planned == done


def test_data_files_of_two_partition_specs(fragmented: Callable[..., TableName], both: Both, spark: SparkSession) -> None:
    name = fragmented(commits=3, deletes=0)
    spark.sql(f"ALTER TABLE {name.quoted} DROP PARTITION FIELD part")
    spark.sql(f"INSERT INTO {name.quoted} VALUES (1, 1, 'after')")

    planned, done = both(name, Action.REWRITE_DATA_FILES)

    assert planned["rewritten_data_files_count"] == done["rewritten_data_files_count"] == 7


@pytest.mark.parametrize("granularity", ["file", "Partition"])
@pytest.mark.parametrize("options", [{}, {"rewrite_all": True}, {"where": "part = 0"}, {"min_input_files": 100}], ids=str)
def test_position_delete_files(
    fragmented: Callable[..., TableName], both: Both, granularity: str, options: dict[str, Any]
) -> None:
    name = fragmented(deletes=6, **{"write.delete.granularity": granularity})

    planned, done = both(name, Action.REWRITE_POSITION_DELETE_FILES, **options)

    assert without(planned, "added_bytes_count") == without(done, "added_bytes_count")


def test_position_delete_files_of_a_table_with_vectors(fragmented: Callable[..., TableName], both: Both) -> None:
    planned, done = both(fragmented(inserted_by_spark=True, **{"format-version": "3"}), Action.REWRITE_POSITION_DELETE_FILES)

    assert planned == done


@pytest.mark.parametrize("target", [None, 9000])
def test_manifests(fragmented: Callable[..., TableName], both: Both, target: int | None) -> None:
    properties = {"commit.manifest.target-size-bytes": str(target)} if target else {}

    planned, done = both(fragmented(**properties), Action.REWRITE_MANIFESTS)

    assert planned["rewritten_manifests_count"] == done["rewritten_manifests_count"]
    if target is None:
        assert planned == done


def test_a_single_manifest(fragmented: Callable[..., TableName], both: Both) -> None:
    planned, done = both(fragmented(commits=1, deletes=0), Action.REWRITE_MANIFESTS)

    assert planned == done


@pytest.mark.parametrize("options", [{}, {"retain_last": 1}, {"max_age": "30d"}], ids=str)
def test_snapshots(fragmented: Callable[..., TableName], both: Both, options: dict[str, Any]) -> None:
    planned, done = both(fragmented(), Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), **options)

    assert planned == done


def test_snapshots_of_a_compacted_table_with_a_tag_and_a_branch(
    fragmented: Callable[..., TableName], both: Both, spark: SparkSession, catalog: Catalog
) -> None:
    name = fragmented()
    second = catalog.load_table(name.identifier).metadata.snapshots[1].snapshot_id
    spark.sql(f"ALTER TABLE {name.quoted} CREATE TAG audit AS OF VERSION {second}")
    spark.sql(f"ALTER TABLE {name.quoted} CREATE BRANCH `try`")
    spark.sql(f"INSERT INTO {name.quoted}.`branch_try` VALUES (1, 1, 'on the branch')")
    both(name, Action.REWRITE_DATA_FILES, remove_dangling_deletes=True)
    both(name, Action.REWRITE_MANIFESTS)

    planned, done = both(name, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    assert planned == done
    assert planned["expired_snapshots_count"] > 0
    assert planned["deleted_manifest_files_count"] > 0


def test_data_files_that_only_old_snapshots_use(fragmented: Callable[..., TableName], both: Both, catalog: Catalog) -> None:
    name = fragmented()
    both(name, Action.REWRITE_DATA_FILES, remove_dangling_deletes=True)

    planned, done = both(name, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    assert planned == done
    assert planned["deleted_data_files_count"] == 12
    assert read_numbers(catalog.load_table(name.identifier)).snapshots == 1


def test_orphans(fragmented: Callable[..., TableName], both: Both, catalog: Catalog) -> None:
    name = fragmented()
    folder = Path(catalog.load_table(name.identifier).location().removeprefix("file:"))
    long_ago = (datetime.now(UTC) - timedelta(days=9)).timestamp()
    for path in ("data/stray.parquet", "data/part=0/stray.parquet", "metadata/stray.avro", "data/_hidden/x", "data/.hidden"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("left behind")
        os.utime(folder / path, (long_ago, long_ago))

    planned, done = both(name, Action.REMOVE_ORPHAN_FILES)

    assert planned == done
    assert planned["planned_files_count"] == 3


def test_orphans_after_everything_else(fragmented: Callable[..., TableName], both: Both, catalog: Catalog) -> None:
    name = fragmented()
    for action in (Action.REWRITE_DATA_FILES, Action.REWRITE_POSITION_DELETE_FILES, Action.REWRITE_MANIFESTS):
        both(name, action)
    both(name, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    long_ago = (datetime.now(UTC) - timedelta(days=9)).timestamp()
    for file in Path(catalog.load_table(name.identifier).location().removeprefix("file:")).rglob("*"):
        os.utime(file, (long_ago, long_ago))

    planned, done = both(name, Action.REMOVE_ORPHAN_FILES)

    assert planned == done


def test_numbers_and_health_are_those_that_spark_sees(
    fragmented: Callable[..., TableName], spark: SparkSession, catalog: Catalog
) -> None:
    name = fragmented(deletes=3)
    health = read_health(catalog.load_table(name.identifier), now=datetime.now(UTC))

    def seen(sql: str) -> int:
        return int(spark.sql(sql).collect()[0][0])

    assert health.totals.data_files == seen(f"SELECT count(*) FROM {name.quoted}.data_files")
    assert health.position_delete_files == seen(f"SELECT count(*) FROM {name.quoted}.delete_files")
    assert health.totals.bytes == seen(f"SELECT sum(file_size_in_bytes) FROM {name.quoted}.files")
    assert health.totals.snapshots == seen(f"SELECT count(*) FROM {name.quoted}.snapshots")
    assert health.totals.manifests == seen(f"SELECT count(*) FROM {name.quoted}.manifests")
    assert len(health.partitions) == seen(f"SELECT count(*) FROM {name.quoted}.partitions")
