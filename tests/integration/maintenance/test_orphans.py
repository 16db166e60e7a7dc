"""Orphan files: planned first, and nothing but the plan removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome, Job
from airflow_snowpack.maintenance import Action, RemoveOrphanFiles, SparkEngine
from airflow_snowpack.maintenance.procedures import ProcedureCall
from airflow_snowpack.maintenance.removals.model import ItemOutcome
from airflow_snowpack.maintenance.removals.records import Removals

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

FOUR_DAYS = 4 * 24 * 3600


def folder_of(catalog: Catalog, name: TableName) -> Path:
    return Path(urlparse(catalog.load_table(name.identifier).location()).path)


def backdate(path: Path, seconds: int = FOUR_DAYS) -> Path:
    moment = path.stat().st_mtime - seconds
    os.utime(path, (moment, moment))
    return path


def stray_file(folder: Path, name: str, *, old: bool = True) -> Path:
    path = folder / "data" / name
    path.write_bytes(b"stray")
    return backdate(path) if old else path


def test_old_strays_go_and_everything_else_stays(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    catalog: Catalog,
    spark: SparkSession,
    removals: Removals,
) -> None:
    name = fragmented(commits=2)
    folder = folder_of(catalog, name)
    # Live files of the same age as the strays.
    for path in folder.rglob("*.*"):
        backdate(path)
    strays = [stray_file(folder, f"stray {number}.parquet") for number in range(3)]
    young = stray_file(folder, "young.parquet", old=False)
    live = {path for path in folder.rglob("*") if path.is_file()} - set(strays)
    job = job_for(name)

    result = engine.run(job, Action.REMOVE_ORPHAN_FILES)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == "Removed 3 orphan files"
    assert result.metrics == {"planned_files_count": 3, "removed_files_count": 3}
    assert not any(stray.exists() for stray in strays)
    assert young.exists()
    # Hadoop's local files have checksum files beside them.
    assert {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"} == {
        path for path in live if path.suffix != ".crc"
    }
    assert spark.sql(f"SELECT count(*) AS n FROM {name.quoted}").collect()[0]["n"] == 64
    (kept,) = removals.planned_by(job.job_id)
    outcomes = {Path(urlparse(item.name).path): item.outcome for item in removals.items(kept.removal_id)}
    assert outcomes == dict.fromkeys(strays, ItemOutcome.DELETED)
    assert engine.run(again := job_for(name), Action.REMOVE_ORPHAN_FILES).message == "No orphan files"
    assert removals.planned_by(again.job_id) == [], "a night without orphans leaves no list"


def test_a_file_whose_modification_time_is_not_known_stays(
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName, catalog: Catalog
) -> None:
    """Some storages report the epoch, or nothing, which Spark's own listing takes for a very old file."""
    folder = folder_of(catalog, one_commit)
    unknown, stray = stray_file(folder, "unknown.parquet"), stray_file(folder, "old.parquet")
    os.utime(unknown, (0, 0))

    result = engine.run(job_for(one_commit), Action.REMOVE_ORPHAN_FILES)

    assert result.metrics == {"planned_files_count": 1, "removed_files_count": 1}
    assert (unknown.exists(), stray.exists()) == (True, False)
    unknown.unlink()


@pytest.mark.parametrize("prefix_listing", [False, True], ids=["by_hadoop", "by_prefix_as_on_s3"])
def test_a_folder_inside_the_table_can_be_named(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    catalog: Catalog,
    prefix_listing: bool,
) -> None:
    name = fragmented(commits=1, deletes=0)
    folder = folder_of(catalog, name)
    outside = stray_file(folder, "outside.parquet")
    (folder / "data" / "part=0").mkdir(exist_ok=True)
    inside = stray_file(folder, "part=0/inside.parquet")
    options = {"location": f"file://{folder}/data/part=0", "prefix_listing": prefix_listing}
    assert engine.run(job_for(name, remove_orphan_files=options), Action.REMOVE_ORPHAN_FILES).message == "Removed 1 orphan file"
    assert outside.exists()
    assert not inside.exists()


def test_a_location_that_two_tables_share_is_refused(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    new_table: Callable[..., TableName],
    catalog: Catalog,
    spark: SparkSession,
) -> None:
    name = fragmented(commits=1, deletes=0)
    nested = new_table()
    folder = folder_of(catalog, name)
    stray = stray_file(folder, "stray.parquet")
    spark.sql(f"DROP TABLE {nested.quoted}")
    spark.sql(f"CREATE TABLE {nested.quoted} (id BIGINT) USING iceberg LOCATION 'file:{folder}/nested'")

    result = engine.run(job_for(name), Action.REMOVE_ORPHAN_FILES)
    spark.sql(f"DROP TABLE {nested.quoted}")

    assert result.outcome is ActionOutcome.FAILED
    assert result.error is not None
    assert f"{nested.dotted} (inside it at file:{folder}/nested)" in result.error
    assert stray.exists()


def test_a_table_that_appears_while_orphans_are_listed_keeps_its_files(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    one_commit: TableName,
    catalog: Catalog,
    meanwhile: Callable[..., AbstractContextManager[None]],
) -> None:
    """Its files are as old as the strays: a table that is registered brings them along."""
    folder = folder_of(catalog, one_commit)
    stray = stray_file(folder, "of another table.parquet")
    guest = ("db", f"guest_{folder.name}")

    def register() -> None:
        catalog.create_table(guest, catalog.load_table(one_commit.identifier).schema(), location=f"file://{folder}/data")

    with meanwhile(register):
        result = engine.run(job_for(one_commit), Action.REMOVE_ORPHAN_FILES)
    catalog.drop_table(guest)

    assert (result.outcome, result.message) == (ActionOutcome.FAILED, "Failed before anything was removed")
    assert result.metrics == {"planned_files_count": 1, "removed_files_count": 0}
    assert f"{'.'.join(guest)} (inside it at file://{folder}/data)" in (result.error or "")
    assert stray.exists()
    stray.unlink()


def test_a_table_that_moves_before_its_orphans_are_listed_takes_no_files_of_its_new_neighbour(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    one_commit: TableName,
    catalog: Catalog,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its old place was compared with those of the other tables, and Spark lists the new one."""
    folder = folder_of(catalog, one_commit)
    place = folder.with_name(f"{folder.name}_moved")
    guest = ("db", place.name)
    catalog.create_table(guest, catalog.load_table(one_commit.identifier).schema(), location=f"file://{place}")
    live = [backdate(path) for path in place.rglob("*.metadata.json")]
    really = RemoveOrphanFiles.planning_call

    def move_first(*args: Any, **options: Any) -> ProcedureCall:
        spark.sql(f"ALTER TABLE {one_commit.quoted} SET LOCATION 'file://{place}'")
        return really(*args, **options)

    monkeypatch.setattr(RemoveOrphanFiles, "planning_call", move_first)
    result = engine.run(job_for(one_commit), Action.REMOVE_ORPHAN_FILES)
    spark.sql(f"ALTER TABLE {one_commit.quoted} SET LOCATION 'file://{folder}'")

    assert (result.outcome, result.metrics) == (ActionOutcome.FAILED, {"planned_files_count": 1, "removed_files_count": 0})
    assert f"was moved from 'file://{folder}' to 'file://{place}'" in (result.error or "")
    assert live
    assert all(path.exists() for path in live)
    catalog.drop_table(guest)


def test_a_view_in_the_place_that_a_renamed_table_keeps_is_not_deleted(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    catalog: Catalog,
    spark: SparkSession,
) -> None:
    """A table is renamed, and a view of its old name takes over: both keep their metadata in one folder."""
    view = fragmented(commits=1, deletes=0)
    place = folder_of(catalog, view)
    table = TableName(view.catalog, view.database, f"{view.table}_base")
    catalog.rename_table(view.identifier, table.identifier)
    spark.sql(f"CREATE VIEW {view.quoted} AS SELECT count(*) AS n FROM {table.quoted}")
    before = spark.table(view.quoted).collect()
    for path in place.rglob("*.*"):
        backdate(path)
    stray = stray_file(place, "stray.parquet")

    result = engine.run(job_for(table), Action.REMOVE_ORPHAN_FILES)

    assert (result.message, stray.exists()) == ("Removed 1 orphan file", False)
    assert spark.table(view.quoted).collect() == before
    spark.sql(f"DROP VIEW {view.quoted}")
