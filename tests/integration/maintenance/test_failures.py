"""What cannot be done is told, with the reason that helps."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, InvalidOption, SparkEngine, UnknownAction
from airflow_snowpack.spark import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"where": "nowhere = 1"}, "with name `nowhere` cannot be resolved"),
        ({"where": "part = = 0"}, "Syntax error"),
        ({"where": "length(note) > 3"}, "Cannot convert Spark filter"),
        ({"strategy": "sort", "sort_order": "nowhere"}, "Cannot find field 'nowhere'"),
        ({"strategy": "zorder", "zorder_columns": ["nowhere"]}, "Cannot find column 'nowhere'"),
        ({"strategy": "sort"}, "is unsorted and no sort order is provided"),
    ],
)
def test_a_rewrite_that_spark_refuses_fails_with_its_reason(
    world: SparkWorld, one_commit: TableName, options: dict[str, Any], reason: str
) -> None:
    result = world.run(one_commit, Action.REWRITE_DATA_FILES, **options)
    assert (result.outcome, result.message) == (ActionOutcome.FAILED, "Failed before anything was committed")
    assert reason in str(result.error)
    assert result.final, "the same call would be refused again"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 2 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "snowpack", disk], capture_output=True, text=True)
    if mounting.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"0" * 4096):
            pass
    assert shutil.disk_usage(disk).free == 0


def test_a_rewrite_on_a_full_disk_fails_with_that_reason(world: SparkWorld, small_disk: Path) -> None:
    name = world.new_table("id BIGINT", **{"write.data.path": small_disk.as_uri()})
    for first in (0, 10):
        world.append(name, id=range(first, first + 10))
    fill(small_disk)
    result = world.run(name, Action.REWRITE_DATA_FILES, min_input_files=2, partial_progress=False)
    assert result.outcome is ActionOutcome.FAILED
    assert "No space left on device" in str(result.error)
    assert not result.final, "the disk may have space at the next attempt"
    assert world.ids(name) == list(range(20))


def test_a_missing_table_is_named(world: SparkWorld) -> None:
    for action in Action:
        result = world.run(TableName("lake", "db", "not_there"), action)
        assert result.outcome is ActionOutcome.FAILED, action
        assert "has no table 'db.not_there'" in str(result.error), action


def test_a_table_that_is_dropped_meanwhile_fails_the_action_and_nothing_else(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=1, deletes=0)
    with world.meanwhile(lambda: world.catalog.drop_table(name.identifier)):
        result = world.run(name, Action.REWRITE_DATA_FILES, min_input_files=2, partial_progress=False)
    assert (result.outcome, result.message) == (ActionOutcome.FAILED, "The table was dropped while the action ran")
    assert name.table in str(result.error)


def test_a_catalog_that_the_session_does_not_know_is_named_instead_of_sparks_own(
    world: SparkWorld, one_commit: TableName
) -> None:
    """PyIceberg finds the table; only Spark was not told of the catalog."""
    stranger = TableName("stranger", one_commit.database, one_commit.table)
    result = world.run(stranger, Action.REWRITE_MANIFESTS)
    assert result.outcome is ActionOutcome.FAILED
    expected = "The Spark session has no Iceberg catalog named 'stranger'. Set spark.sql.catalog.stranger"
    assert str(result.error).startswith(expected)


def test_what_is_not_an_action_or_an_option_is_an_error_of_the_caller(world: SparkWorld, one_commit: TableName) -> None:
    with pytest.raises(UnknownAction):
        world.run(one_commit, "vacuum")
    with pytest.raises(InvalidOption):
        world.run(one_commit, Action.REWRITE_MANIFESTS, fast=True)


def test_without_spark_nothing_is_pretended(world: SparkWorld) -> None:
    def no_java() -> SparkSession:
        raise SparkUnavailable("no Java")

    engine = SparkEngine(no_java, lambda: world.catalog)
    with pytest.raises(SparkUnavailable, match="no Java"):
        world.run(TableName("lake", "db", "t"), Action.REWRITE_MANIFESTS, engine=engine)
