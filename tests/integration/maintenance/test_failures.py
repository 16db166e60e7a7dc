"""What cannot be done is told, with the reason that helps."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs.model import ActionOutcome, Job
from airflow_snowpack.maintenance import Action, InvalidOption, SparkEngine, UnknownAction
from airflow_snowpack.spark import SparkUnavailable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
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
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName, options: dict[str, Any], reason: str
) -> None:
    result = engine.run(job_for(one_commit, rewrite_data_files=options), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert result.message == "Failed before anything was committed"
    assert result.error is not None
    assert reason in result.error
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


def test_a_rewrite_on_a_full_disk_fails_with_that_reason(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    new_table: Callable[..., TableName],
    append: Callable[..., None],
    catalog: Catalog,
    small_disk: Path,
) -> None:
    name = new_table("id BIGINT", **{"write.data.path": small_disk.as_uri()})
    for first in (0, 10):
        append(name, id=range(first, first + 10))
    fill(small_disk)
    job = job_for(name, rewrite_data_files={"min_input_files": 2, "partial_progress": False})
    result = engine.run(job, Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert "No space left on device" in str(result.error)
    assert not result.final, "the disk may have space at the next attempt"
    assert sorted(catalog.load_table(name.identifier).scan().to_arrow()["id"].to_pylist()) == list(range(20))


@pytest.mark.parametrize("action", list(Action))
def test_a_missing_table_is_named(engine: SparkEngine, job_for: Callable[..., Job], action: Action) -> None:
    result = engine.run(job_for(TableName("lake", "db", "not_there")), action)
    assert result.outcome is ActionOutcome.FAILED
    assert result.error is not None
    assert "has no table 'db.not_there'" in result.error


def test_a_table_that_is_dropped_meanwhile_fails_the_action_and_nothing_else(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    catalog: Catalog,
    meanwhile: Callable[..., Any],
) -> None:
    name = fragmented(commits=3, parts=1, deletes=0)
    job = job_for(name, rewrite_data_files={"min_input_files": 2, "partial_progress": False})
    with meanwhile(lambda: catalog.drop_table(name.identifier)):
        result = engine.run(job, Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.FAILED
    assert result.message == "The table was dropped while the action ran"
    assert result.error is not None
    assert name.table in result.error


def test_a_catalog_that_the_session_does_not_know_is_named_instead_of_sparks_own(
    spark: SparkSession, job_for: Callable[..., Job], one_commit: TableName, lake: CatalogConfig
) -> None:
    stranger = TableName("stranger", one_commit.database, one_commit.table)
    # PyIceberg finds the table; only Spark was not told of the catalog.
    engine = SparkEngine(lambda: spark, lake.load)
    result = engine.run(job_for(stranger), Action.REWRITE_MANIFESTS)
    assert result.outcome is ActionOutcome.FAILED
    assert result.error is not None
    assert result.error.startswith("The Spark session has no Iceberg catalog named 'stranger'. Set spark.sql.catalog.stranger")


def test_what_is_not_an_action_or_an_option_is_an_error_of_the_caller(
    engine: SparkEngine, job_for: Callable[..., Job], one_commit: TableName
) -> None:
    with pytest.raises(UnknownAction):
        engine.run(job_for(one_commit), "vacuum")
    with pytest.raises(InvalidOption):
        engine.run(job_for(one_commit, rewrite_manifests={"fast": True}), Action.REWRITE_MANIFESTS)


def test_without_spark_nothing_is_pretended(catalog: Catalog, job_for: Callable[..., Job]) -> None:
    def no_java() -> SparkSession:
        raise SparkUnavailable("no Java")

    with pytest.raises(SparkUnavailable, match="no Java"):
        SparkEngine(no_java, lambda: catalog).run(job_for(TableName("lake", "db", "t")), Action.REWRITE_MANIFESTS)
