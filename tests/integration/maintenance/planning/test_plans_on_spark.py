"""Plans that Spark runs: what they select is rewritten, nothing else is, and the numbers turn out as estimated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from health_world import policy
from spark_world import SparkWorld
from table_zoo import Zoo

from airflow_snowpack.iceberg import MetadataReader, TableName
from airflow_snowpack.iceberg.health import read_health, score
from airflow_snowpack.jobs import ActionFigures, Jobs
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.store import open_store
from benchmarks.estimates import BYTES_OFF, FILES_OFF, Compared, make_older, make_streamed, make_table, name_of, off, run_plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

DATABASE = "db"
DATA = "rewrite_data_files"
EXPIRE = "expire_snapshots"
EXACT = (DATA, "rewrite_position_delete_files")
EXPIRY_OFF = 0.25
"""How far the files that an expiry removes after a rewrite in the same plan may be off their estimate."""
LATER = datetime.now(UTC) + timedelta(days=1)
"""When no partition counts as being written to."""
ANY_FILE = {"options": {"min_input_files": 2}, "thresholds": {"small_files": 1, "large_files": 1, "files_with_deletes": 1}}


def files_by_partition(table: Table) -> dict[tuple[object, ...], set[str]]:
    found: dict[tuple[object, ...], set[str]] = {}
    for file in MetadataReader(table).files().data:
        found.setdefault((file.spec_id, *file.partition), set()).add(file.path)
    return found


def test_only_the_sick_partitions_that_no_writer_adds_to_are_rewritten(world: SparkWorld) -> None:
    name = world.new_table("id BIGINT, part STRING", "part")
    for number in range(3):
        world.append(name, id=range(number * 3, number * 3 + 3), part=["it's", "b", None])
    world.append(name, id=[9], part=["healthy"])
    table, rows = world.table(name), world.content(name)
    health, before = read_health(table, now=LATER), files_by_partition(table)
    written_to = [replace(each, newest_at=LATER) if each.values == ("b",) else each for each in health.partitions]

    decision = plan_table(replace(health, partitions=tuple(written_to)), policy({DATA: ANY_FILE}), now=LATER).of(DATA)
    result = world.run(name, DATA, **decision.options)

    after = files_by_partition(world.table(name))
    assert {key[1] for key in before if before[key] != after[key]} == {"it's", None}
    assert decision.estimate is not None
    assert result.metrics["rewritten_data_files_count"] == decision.estimate.files_removed == 6
    assert result.metrics["rewritten_bytes_count"] == decision.estimate.bytes_rewritten
    assert world.content(name) == rows


def test_manifests_that_a_rewrite_leaves_without_files_cost_no_points_and_go_with_the_next_commit(world: SparkWorld) -> None:
    name = world.new_table("id BIGINT")
    for number in range(12):
        world.append(name, id=[number])
    few = policy({DATA: ANY_FILE, "rewrite_manifests": {"thresholds": {"small_manifests": 2}}})
    planned = plan_table(read_health(world.table(name), now=LATER), few, now=LATER).of(DATA)

    world.run(name, DATA, **planned.options)

    after = read_health(world.table(name), now=LATER)
    assert (after.data_manifests, after.empty_data_manifests, after.small_manifests) == (13, 12, 1)
    assert score(after).parts[2].points == 15
    assert plan_table(after, few, now=LATER).of("rewrite_manifests").verdict == "skip"
    world.append(name, id=[12])
    later = read_health(world.table(name), now=LATER)
    assert (later.data_manifests, later.empty_data_manifests) == (2, 0)


@pytest.mark.parametrize("kind", ["evolved_spec", "void"])
def test_files_of_older_specs_are_rewritten_with_the_whole_table(zoo: Zoo, kind: str, world: SparkWorld) -> None:
    name = zoo.new(kind)
    decision = plan_table(read_health(zoo.load(name), now=LATER), policy({DATA: ANY_FILE}), now=LATER).of(DATA)
    rows = world.content(name)

    result = world.run(name, DATA, **decision.options)

    assert decision.estimate is not None
    assert "where" not in decision.options
    assert result.metrics["rewritten_data_files_count"] == decision.estimate.files_removed
    assert world.content(name) == rows


def test_estimates_are_what_spark_does_and_the_cost_is_corrected(world: SparkWorld, tmp_path: Path) -> None:
    found = []
    with Jobs(open_store(f"sqlite:///{tmp_path}/store.db")) as jobs:
        for seed in (1, 2):
            name = TableName("lake", DATABASE, f"{name_of(seed)}_{uuid4().hex[:6]}")
            make_table(world.spark, name, seed, commits=(4, 4), deletes=2)
            make_older(world.catalog, name)
            rows = world.content(name)
            found += run_plan(world.spark, world.catalog, jobs, name)
            assert world.content(name) == rows
        records = jobs.action_histories([name])[name].records

    assert {each.action for each in found} >= {DATA, "rewrite_position_delete_files", "expire_snapshots"}
    exact = [each for each in found if each.action in EXACT]
    assert off(exact, "files_removed") <= FILES_OFF
    assert off(exact, "bytes_rewritten") <= BYTES_OFF
    assert off([each for each in found if each.action == EXPIRE], "files_removed") <= EXPIRY_OFF
    assert off(found, "snapshots_expired") == 0
    assert all(record.runs == 1 and record.cost_factor != 1 for record in records.values())


@pytest.mark.parametrize("retain_last", [1, 4])
def test_the_expiry_after_a_rewrite_in_the_same_plan_removes_as_many_files_as_estimated(
    retain_last: int, world: SparkWorld
) -> None:
    name = world.fragmented(commits=7, parts=3)
    make_older(world.catalog, name)
    expiring = {"options": {"retain_last": retain_last}, "thresholds": {"old_snapshots": 1}}
    now = datetime.now(UTC)

    plan = plan_table(read_health(world.table(name), now=now), policy({DATA: ANY_FILE, EXPIRE: expiring}), now=now)
    request = plan.request()
    assert {DATA, EXPIRE} <= set(request.actions)
    job, found = world.job(name, **request.options), list[Compared]()
    for action in request.actions:
        result, estimate = world.engine.run(job, action), plan.of(action).estimate
        if estimate is not None:
            found.append(Compared(str(name), action, estimate, ActionFigures.of(result)))

    assert off(found, "snapshots_expired") == 0
    assert off([each for each in found if each.action == EXPIRE], "files_removed") <= EXPIRY_OFF, found


@pytest.mark.parametrize(("merged_from", "empty"), [("11", 9), ("10", 0)])
def test_manifests_that_the_rewrite_of_data_files_empties_or_merges_are_not_rewritten_in_the_same_plan(
    world: SparkWorld, tmp_path: Path, merged_from: str, empty: int
) -> None:
    """The commit of the rewrite makes the tenth manifest, and merges them if the table has them merged from ten on."""
    name = TableName("lake", DATABASE, f"streamed_{uuid4().hex[:6]}")
    make_streamed(world.catalog, name, 9, **{"commit.manifest.min-count-to-merge": merged_from})
    with Jobs(open_store(f"sqlite:///{tmp_path}/store.db")) as jobs:
        found = {each.action: (each.estimate, each.outcome) for each in run_plan(world.spark, world.catalog, jobs, name)}

    assert {action: estimate.files_removed for action, (estimate, _) in found.items()} == {
        action: outcome.files_removed for action, (_, outcome) in found.items()
    }
    assert "rewrite_manifests" not in found
    after = read_health(world.table(name), now=LATER)
    assert (after.data_manifests - after.empty_data_manifests, after.empty_data_manifests) == (1, empty)
