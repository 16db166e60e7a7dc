"""Orphan files: planned first, and nothing but the plan removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from spark_world import SparkWorld, aged

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, RemoveOrphanFiles
from airflow_snowpack.maintenance.procedures import ProcedureCall
from airflow_snowpack.maintenance.removals.model import ItemOutcome


def test_old_strays_go_and_everything_else_stays(world: SparkWorld) -> None:
    name = world.fragmented(commits=2)
    folder = world.folder(name)
    # Live files of the same age as the strays.
    for path in folder.rglob("*.*"):
        aged(path)
    strays = [world.stray(name, f"stray {number}.parquet") for number in range(3)]
    young = folder / "data" / "young.parquet"
    young.write_bytes(b"stray")
    live = files_in(folder) - set(strays)
    job = world.job(name)

    result = world.engine.run(job, Action.REMOVE_ORPHAN_FILES)

    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Removed 3 orphan files")
    assert result.metrics == {"planned_files_count": 3, "removed_files_count": 3}
    assert young in live
    assert files_in(folder) == live
    assert world.value(f"SELECT count(*) FROM {name.quoted}") == 64
    (kept,) = world.removals.planned_by(job.job_id)
    outcomes = {Path(urlparse(item.name).path): item.outcome for item in world.removals.items(kept.removal_id)}
    assert outcomes == dict.fromkeys(strays, ItemOutcome.DELETED)
    again = world.job(name)
    assert world.engine.run(again, Action.REMOVE_ORPHAN_FILES).message == "No orphan files"
    assert world.removals.planned_by(again.job_id) == [], "a night without orphans leaves no list"


def files_in(folder: Path) -> set[Path]:
    """Return the files but those with checksums, which Hadoop writes beside its local files."""
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"}


def test_a_file_whose_modification_time_is_not_known_stays(world: SparkWorld, one_commit: TableName) -> None:
    """Some storages report the epoch, or nothing, which Spark's own listing takes for a very old file."""
    unknown, stray = world.stray(one_commit, "unknown.parquet"), world.stray(one_commit, "old.parquet")
    os.utime(unknown, (0, 0))

    result = world.run(one_commit, Action.REMOVE_ORPHAN_FILES)

    assert result.metrics == {"planned_files_count": 1, "removed_files_count": 1}
    assert (unknown.exists(), stray.exists()) == (True, False)


@pytest.mark.parametrize("prefix_listing", [False, True], ids=["by_hadoop", "by_prefix_as_on_s3"])
def test_a_folder_inside_the_table_can_be_named(world: SparkWorld, one_commit: TableName, prefix_listing: bool) -> None:
    outside, inside = world.stray(one_commit, "outside.parquet"), world.stray(one_commit, "part=0/inside.parquet")
    options = {"location": f"file://{inside.parent}", "prefix_listing": prefix_listing}
    assert world.run(one_commit, Action.REMOVE_ORPHAN_FILES, **options).message == "Removed 1 orphan file"
    assert (outside.exists(), inside.exists()) == (True, False)


def test_a_location_that_two_tables_share_is_refused(world: SparkWorld, one_commit: TableName) -> None:
    stray, nested = world.stray(one_commit, "stray.parquet"), TableName("lake", "db", f"{one_commit.table}_nested")
    inside = f"file:{world.folder(one_commit)}/nested"
    world.sql(f"CREATE TABLE {nested.quoted} (id BIGINT) USING iceberg LOCATION '{inside}'")

    result = world.run(one_commit, Action.REMOVE_ORPHAN_FILES)

    assert result.outcome is ActionOutcome.FAILED
    assert f"{nested.dotted} (inside it at {inside})" in str(result.error)
    assert stray.exists()


def test_a_table_that_appears_while_orphans_are_listed_keeps_its_files(world: SparkWorld, one_commit: TableName) -> None:
    """Its files are as old as the strays: a table that is registered brings them along."""
    stray, place = world.stray(one_commit, "of another table.parquet"), f"file://{world.folder(one_commit)}/data"
    guest = ("db", f"guest_{one_commit.table}")

    with world.meanwhile(lambda: world.catalog.create_table(guest, world.table(one_commit).schema(), location=place)):
        result = world.run(one_commit, Action.REMOVE_ORPHAN_FILES)

    assert (result.outcome, result.message) == (ActionOutcome.FAILED, "Failed before anything was removed")
    assert result.metrics == {"planned_files_count": 1, "removed_files_count": 0}
    assert f"{'.'.join(guest)} (inside it at {place})" in str(result.error)
    assert stray.exists()


def test_a_table_that_moves_before_its_orphans_are_listed_takes_no_files_of_its_new_neighbour(
    world: SparkWorld, one_commit: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old place was compared with those of the other tables, and Spark lists the new one."""
    folder = world.folder(one_commit)
    place = folder.with_name(f"{folder.name}_moved")
    world.catalog.create_table(("db", place.name), world.table(one_commit).schema(), location=f"file://{place}")
    live = [aged(path) for path in place.rglob("*.metadata.json")]
    really = RemoveOrphanFiles.planning_call

    def move_first(*args: Any, **options: Any) -> ProcedureCall:
        world.sql(f"ALTER TABLE {one_commit.quoted} SET LOCATION 'file://{place}'")
        return really(*args, **options)

    monkeypatch.setattr(RemoveOrphanFiles, "planning_call", move_first)
    result = world.run(one_commit, Action.REMOVE_ORPHAN_FILES)

    assert (result.outcome, result.metrics) == (ActionOutcome.FAILED, {"planned_files_count": 1, "removed_files_count": 0})
    assert f"was moved from 'file://{folder}' to 'file://{place}'" in str(result.error)
    assert live
    assert all(path.exists() for path in live)


def test_a_view_in_the_place_that_a_renamed_table_keeps_is_not_deleted(world: SparkWorld, one_commit: TableName) -> None:
    """A table is renamed, and a view of its old name takes over: both keep their metadata in one folder."""
    view, table = one_commit, TableName("lake", "db", f"{one_commit.table}_base")
    world.catalog.rename_table(view.identifier, table.identifier)
    world.sql(f"CREATE VIEW {view.quoted} AS SELECT count(*) AS n FROM {table.quoted}")
    before = world.sql(f"SELECT * FROM {view.quoted}")
    for path in world.folder(table).rglob("*.*"):
        aged(path)
    stray = world.stray(table, "stray.parquet")

    result = world.run(table, Action.REMOVE_ORPHAN_FILES)

    assert (result.message, stray.exists()) == ("Removed 1 orphan file", False)
    assert world.sql(f"SELECT * FROM {view.quoted}") == before
    world.sql(f"DROP VIEW {view.quoted}")
