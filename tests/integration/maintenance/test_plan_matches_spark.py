"""What a dry run says is what Spark then does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from spark_world import SparkWorld, aged

from airflow_snowpack.iceberg import MetadataReader, TableName, read_health, read_numbers
from airflow_snowpack.maintenance import Action, PlanningContext, parse_options

Metrics = dict[str, int | float]
Both = Callable[..., tuple[Metrics, Metrics]]
SIX_DAYS = timedelta(days=6)


@pytest.fixture
def both(world: SparkWorld) -> Both:
    """Plan an action, then do it: what both say about the same numbers. ``later`` moves the clock that ages count back from."""

    def run(name: TableName, action: Action, *, later: timedelta = timedelta(0), **options: Any) -> tuple[Metrics, Metrics]:
        planned = world.preview(name, action, later=later, **options)
        table, now = world.table(name), datetime.now(UTC) + later
        skip = parse_options(action, options).nothing_to_do(PlanningContext(MetadataReader(table), world.catalog, now))
        engine = world.new_engine(later=later)
        done = world.run(name, action, engine=engine, **options)
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
def test_data_files(world: SparkWorld, both: Both, options: dict[str, Any]) -> None:
    planned, done = both(world.fragmented(), Action.REWRITE_DATA_FILES, **options)

    assert planned == done


def test_data_files_in_groups_of_limited_size(world: SparkWorld, both: Both) -> None:
    """All files are rewritten: Spark does not promise an order, so which files share a group could decide which are rewritten."""
    # One commit: of several, Iceberg would leave out one that the catalog refuses for a moment, and not count its files.
    options = {"max_file_group_size_bytes": 3000, "rewrite_all": True, "partial_progress": False}
    planned, done = both(world.fragmented(), Action.REWRITE_DATA_FILES, **options)

    assert planned == done
    assert planned["added_data_files_count"] > 3


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_data_files_whose_deletes_are_about_one_file_or_a_partition(world: SparkWorld, both: Both, granularity: str) -> None:
    name = world.fragmented(deletes=1, **{"write.delete.granularity": granularity})

    planned, done = both(name, Action.REWRITE_DATA_FILES, min_input_files=100, delete_file_threshold=1)

    assert planned == done
    assert planned["rewritten_data_files_count"] > 0


def test_files_with_deletion_vectors(world: SparkWorld, both: Both) -> None:
    name = world.fragmented(inserted_by_spark=True, **{"format-version": "3"})
    health = read_health(world.table(name), now=datetime.now(UTC))
    assert (health.deletion_vectors > 0, health.position_delete_files) == (True, 0)

    planned, done = both(name, Action.REWRITE_POSITION_DELETE_FILES)
    assert planned == done
    planned, done = both(name, Action.REWRITE_DATA_FILES, min_input_files=100, delete_ratio_threshold=0.15)
    assert planned == done


def test_data_files_of_two_partition_specs(world: SparkWorld, both: Both) -> None:
    name = world.fragmented(commits=3, deletes=0)
    world.sql(f"ALTER TABLE {name.quoted} DROP PARTITION FIELD part")
    world.append(name, id=[1], part=[1], note=["after"])

    planned, done = both(name, Action.REWRITE_DATA_FILES)

    assert planned["rewritten_data_files_count"] == done["rewritten_data_files_count"] == 7


@pytest.mark.parametrize("granularity", ["file", "Partition"])
@pytest.mark.parametrize("options", [{}, {"rewrite_all": True}, {"where": "part = 0"}, {"min_input_files": 100}], ids=str)
def test_position_delete_files(world: SparkWorld, both: Both, granularity: str, options: dict[str, Any]) -> None:
    name = world.fragmented(deletes=6, **{"write.delete.granularity": granularity})

    planned, done = both(name, Action.REWRITE_POSITION_DELETE_FILES, **options)

    assert without(planned, "added_bytes_count") == without(done, "added_bytes_count")


@pytest.mark.parametrize("target", [None, 9000])
def test_manifests(world: SparkWorld, both: Both, target: int | None) -> None:
    properties = {"commit.manifest.target-size-bytes": str(target)} if target else {}

    planned, done = both(world.fragmented(**properties), Action.REWRITE_MANIFESTS)

    assert planned["rewritten_manifests_count"] == done["rewritten_manifests_count"]
    if target is None:
        assert planned == done


def test_a_single_manifest(one_commit: TableName, both: Both) -> None:
    planned, done = both(one_commit, Action.REWRITE_MANIFESTS)

    assert planned == done


@pytest.mark.parametrize("options", [{}, {"retain_last": 1}, {"max_age": "30d"}], ids=str)
def test_snapshots(world: SparkWorld, both: Both, options: dict[str, Any]) -> None:
    planned, done = both(world.fragmented(), Action.EXPIRE_SNAPSHOTS, later=SIX_DAYS, **options)

    assert planned == done


def test_snapshots_of_a_compacted_table_with_a_tag_and_a_branch(world: SparkWorld, both: Both) -> None:
    name = world.fragmented()
    second = world.table(name).metadata.snapshots[1].snapshot_id
    world.sql(f"ALTER TABLE {name.quoted} CREATE TAG audit AS OF VERSION {second}")
    world.sql(f"ALTER TABLE {name.quoted} CREATE BRANCH `try`")
    world.sql(f"INSERT INTO {name.quoted}.`branch_try` VALUES (1, 1, 'on the branch')")
    both(name, Action.REWRITE_DATA_FILES, remove_dangling_deletes=True)
    both(name, Action.REWRITE_MANIFESTS)

    planned, done = both(name, Action.EXPIRE_SNAPSHOTS, later=SIX_DAYS, retain_last=1)

    assert planned == done
    assert planned["expired_snapshots_count"] > 0
    assert planned["deleted_manifest_files_count"] > 0


def test_data_files_that_only_old_snapshots_use(world: SparkWorld, both: Both) -> None:
    name = world.fragmented()
    both(name, Action.REWRITE_DATA_FILES, remove_dangling_deletes=True)

    planned, done = both(name, Action.EXPIRE_SNAPSHOTS, later=SIX_DAYS, retain_last=1)

    assert planned == done
    assert planned["deleted_data_files_count"] == 12
    assert read_numbers(world.table(name)).snapshots == 1


def test_orphans(world: SparkWorld, both: Both) -> None:
    name = world.fragmented()
    for path in ("stray.parquet", "part=0/stray.parquet", "../metadata/stray.avro", "_hidden/x", ".hidden"):
        world.stray(name, path)

    planned, done = both(name, Action.REMOVE_ORPHAN_FILES)

    assert planned == done
    assert planned["planned_files_count"] == 3


def test_orphans_after_everything_else(world: SparkWorld, both: Both) -> None:
    name = world.fragmented()
    for action in (Action.REWRITE_DATA_FILES, Action.REWRITE_POSITION_DELETE_FILES, Action.REWRITE_MANIFESTS):
        both(name, action)
    both(name, Action.EXPIRE_SNAPSHOTS, later=SIX_DAYS, retain_last=1)
    for file in world.folder(name).rglob("*"):
        aged(file)

    planned, done = both(name, Action.REMOVE_ORPHAN_FILES)

    assert planned == done


def test_numbers_and_health_are_those_that_spark_sees(world: SparkWorld) -> None:
    name = world.fragmented(deletes=3)
    health = read_health(world.table(name), now=datetime.now(UTC))
    seen = {
        each: world.value(f"SELECT count(*) FROM {name.quoted}.{each}")
        for each in ("data_files", "delete_files", "snapshots", "manifests", "partitions")
    }
    assert seen == {
        "data_files": health.totals.data_files,
        "delete_files": health.position_delete_files,
        "snapshots": health.totals.snapshots,
        "manifests": health.totals.manifests,
        "partitions": len(health.partitions),
    }
    assert health.totals.bytes == world.value(f"SELECT sum(file_size_in_bytes) FROM {name.quoted}.files")
