"""What a replay says about a table is what becomes of another one, with the same commits, on which Spark runs the actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from spark_world import SparkWorld
from table_zoo import Zoo, append, commit_times

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.maintenance.planning import Estimate, plan_table
from airflow_snowpack.maintenance.policies import Policies, Rule, TablePolicy
from airflow_snowpack.maintenance.replay.history import read_history
from airflow_snowpack.maintenance.replay.simulation import recorded, simulate

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)
PASSES = (BEGIN + DAY * 2.5, BEGIN + DAY * 5.5)
"""After the third and after the sixth day."""
OPTIONS: dict[str, dict[str, Any]] = {
    "rewrite_data_files": {"min_input_files": 2},
    "rewrite_position_delete_files": {"min_input_files": 2},
    "expire_snapshots": {"max_age": "0s", "retain_last": 2},
}
THRESHOLDS = {
    "rewrite_data_files": "small_files",
    "rewrite_position_delete_files": "delete_files",
    "expire_snapshots": "old_snapshots",
}
BYTES_TOLERANCE = 0.2
"""Spark compresses in another way than PyIceberg, and one large file better than several small ones."""


def write_day(spark: SparkSession, table: Table, day: int, deletes: Mapping[int, str]) -> None:
    """Write rows into two partitions, and delete what the day's predicate selects."""
    append(table, [1] * 10_000 + [2] * 10_000, start=day * 20_000)
    if day in deletes:
        spark.sql(f"DELETE FROM {'.'.join(('lake', *table.name()))} WHERE {deletes[day]}")


@pytest.fixture
def new(zoo: Zoo) -> Callable[[], TableName]:
    """Make an empty table with two partitions."""
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType

    def make(**properties: str) -> TableName:
        name = zoo.named(f"replayed_{uuid4().hex[:8]}")
        zoo.create(name.table, LongType(), IdentityTransform(), **{"write.delete.mode": "merge-on-read", **properties})
        return name

    return make


@pytest.mark.parametrize(
    ("deletes", "granularity", "options"),
    [
        ({1: "id = 7"}, "file", {}),
        # The last commits before the passes, so the compacted files are not newer than the deletes.
        (
            {2: "id % 50 = 8", 5: "id % 50 = 9"},
            "partition",
            {"rewrite_data_files": {"partial_progress": False}, "rewrite_position_delete_files": {"rewrite_all": True}},
        ),
    ],
)
def test_a_replay_agrees_with_the_actions_that_really_ran(
    zoo: Zoo,
    new: Callable[..., TableName],
    world: SparkWorld,
    deletes: Mapping[int, str],
    granularity: str,
    options: Mapping[str, Mapping[str, Any]],
) -> None:
    properties = {"write.delete.granularity": granularity}
    replayed, maintained = new(**properties), new(**properties)
    real: list[dict[str, Any]] = []
    for day in range(6):
        write_day(zoo.session, zoo.load(replayed), day, deletes)
        write_day(zoo.session, zoo.load(maintained), day, deletes)
        if day in (2, 5):
            real.append(run_plan(world, policy(maintained, options), zoo.load(maintained)) | numbers(zoo.load(maintained)))
    times = [BEGIN + DAY * each for day in range(6) for each in ((day, day + 0.1) if day in deletes else (day,))]
    commit_times(zoo, replayed, times)

    found = simulate(read_history(zoo.load(replayed), BEGIN - DAY), policy(replayed, options), PASSES, label="new")

    for at, what in zip(PASSES, real, strict=True):
        runs = {run.action: run.done for run in found.runs if run.at == at}
        assert list(runs) == what["actions"]
        point = next(point for point in reversed(found.points) if point.at == at)
        compacted, expired = runs["rewrite_data_files"], runs["expire_snapshots"]
        assert (compacted.files_removed, compacted.files_added) == (what["removed"], what["added"])
        assert compacted.bytes_rewritten == pytest.approx(what["bytes"], rel=BYTES_TOLERANCE)
        assert expired.snapshots_expired == what["expired"]
        assert (point.data_files, point.snapshots) == (what["data"], what["snapshots"])
        deletes_rewritten = runs.get("rewrite_position_delete_files", Estimate()).files_removed
        assert deletes_rewritten == what["removed_deletes"]
        if options:
            assert point.delete_files == what["deletes"] == 0
        # A commit that Iceberg repeats, because that of another partition was faster, leaves old deletes to the next commit.
        assert point.delete_files <= what["deletes"] <= what["deletes_before"]


def test_recorded_maintenance_is_left_out_and_what_writers_remove_is_found_in_it(
    zoo: Zoo, new: Callable[[], TableName], world: SparkWorld
) -> None:
    name = new()
    for day in range(3):
        append(zoo.load(name), [1] * 400 + [2] * 400, start=day * 800)
    world.run(name, "rewrite_data_files", **OPTIONS["rewrite_data_files"])
    zoo.load(name).delete("value = 1")  # a whole compacted file
    history = read_history(zoo.load(name), BEGIN)
    until = history.commits[-1].at

    with_it, without = recorded(history, until, maintained=True), recorded(history, until, maintained=False)

    assert [point.files for point in with_it.points] == [2, 4, 6, 4, 2, 1, 1]
    assert [point.files for point in without.points] == [2, 4, 6, 3, 3]
    assert 0 < history.compaction_ratio < 1


def run_plan(world: SparkWorld, policy: TablePolicy, table: Table) -> dict[str, Any]:
    """Run the actions that the policy's plan of the real table runs, a day later, when no partition is being written to."""
    later = datetime.now(UTC) + DAY
    health = read_health(table, now=later)
    plan = plan_table(health, policy, now=later)
    job = world.job(policy.table, **{each.action: each.options for each in plan.decisions if each.runs})
    found = {action: world.engine.run(job, action).metrics for action in plan.actions}
    data = found["rewrite_data_files"]
    return {
        "actions": list(plan.actions),
        "deletes_before": health.delete_files,
        "removed_deletes": found.get("rewrite_position_delete_files", {}).get("rewritten_delete_files_count", 0),
        "removed": data["rewritten_data_files_count"],
        "added": data["added_data_files_count"],
        "bytes": data["rewritten_bytes_count"],
        "expired": found["expire_snapshots"]["expired_snapshots_count"],
    }


def numbers(table: Table) -> dict[str, int]:
    health = read_health(table, now=datetime.now(UTC))
    return {"data": health.data_files, "deletes": health.delete_files, "snapshots": len(health.snapshots)}


def policy(name: TableName, options: Mapping[str, Mapping[str, Any]]) -> TablePolicy:
    """A policy that runs whatever has something to do."""
    actions: dict[str, Any] = {
        action: {"options": {**own, **options.get(action, {})}, "thresholds": {THRESHOLDS[action]: 1}}
        for action, own in OPTIONS.items()
    }
    return Policies([Rule("**", cadence="1h", actions={**actions, "rewrite_manifests": {"enabled": False}})]).of(name, {})
