"""Other commits come while a rewrite runs: its own, or those of PyIceberg, in this process but outside of Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs.model import Job

ROWS = pa.table(
    {"id": [1, 2], "part": [0, 0], "note": ["new", "new"]},
    schema=pa.schema([("id", pa.int64()), ("part", pa.int32()), ("note", pa.string())]),
)
COMPACT = {"min_input_files": 2, "max_concurrent_file_group_rewrites": 1}


def new_rows(spark: SparkSession, name: TableName) -> int:
    found: int = spark.sql(f"SELECT count(*) AS n FROM {name.quoted} WHERE note = 'new'").collect()[0]["n"]
    return found


def test_an_append_meanwhile_costs_nothing(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    spark: SparkSession,
    meanwhile: Callable[..., Any],
) -> None:
    name = rewritable(commits=3, parts=1, deletes=0)
    with meanwhile(lambda: table_of(name).append(ROWS)):
        result = engine.run(job_for(name, rewrite_data_files=COMPACT), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == "Compacted 3 files into 1"
    assert new_rows(spark, name) == 2


@pytest.mark.parametrize("partial_progress", [False, True])
def test_without_another_try_a_lost_rewrite_is_a_conflict_and_the_writer_wins(
    spark: SparkSession,
    catalog: Catalog,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    meanwhile: Callable[..., Any],
    partial_progress: bool,
) -> None:
    engine = SparkEngine(lambda: spark, lambda: catalog, tries=1)
    name = rewritable(commits=3, parts=1, deletes=0)
    options = {**COMPACT, "partial_progress": partial_progress}
    with meanwhile(lambda: table_of(name).overwrite(ROWS)):
        result = engine.run(job_for(name, rewrite_data_files=options), Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.CONFLICT
    assert not result.success
    assert result.error is not None
    assert result.error.startswith("A concurrent writer committed changes to files that were being rewritten")
    if not partial_progress:
        assert "ValidationException: Missing required files to delete" in result.error
    assert spark.sql(f"SELECT count(*) AS n FROM {name.quoted}").collect()[0]["n"] == new_rows(spark, name) == 2


def test_another_try_works_with_what_the_writer_left(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    spark: SparkSession,
    meanwhile: Callable[..., Any],
) -> None:
    name = rewritable(commits=3, parts=1, deletes=0)

    def replace_everything() -> None:
        table_of(name).overwrite(ROWS)
        table_of(name).append(ROWS)

    with meanwhile(replace_everything):
        result = engine.run(job_for(name, rewrite_data_files=COMPACT), Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == "Compacted 2 files into 1, in 2 tries beside a concurrent writer"
    assert result.metrics["tries"] == 2
    assert new_rows(spark, name) == 4


def test_a_rewrite_whose_rest_a_writer_has_replaced_ends_instead_of_trying_again(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    spark: SparkSession,
    meanwhile: Callable[..., Any],
) -> None:
    name = rewritable(commits=3, parts=1, deletes=0)
    with meanwhile(lambda: table_of(name).overwrite(ROWS)):
        job = job_for(name, rewrite_data_files={**COMPACT, "only_if_needed": True})
        result = engine.run(job, Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == (
        "No file was compacted beside a concurrent writer. "
        "Nothing to do: 1 data file, 1 of them too small or too large, and no partition has enough of those"
    )
    assert "tries" not in result.metrics
    assert engine._work.calls == 1
    assert new_rows(spark, name) == 2


def test_a_rewrite_that_lost_nothing_does_not_claim_that_a_writer_replaced_any_of_it(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    meanwhile: Callable[..., Any],
) -> None:
    name = rewritable(commits=3, deletes=0)
    with meanwhile(lambda: table_of(name).delete("part = 1")):
        job = job_for(name, rewrite_data_files={**COMPACT, "where": "part = 0", "only_if_needed": True})
        result = engine.run(job, Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == (
        "Compacted 3 files into 1 beside a concurrent writer. "
        "Nothing to do: 1 data file, 1 of them too small or too large, and no partition has enough of those"
    )
    assert engine._work.calls == 1


def test_what_other_partitions_had_committed_counts_when_one_is_lost(
    spark: SparkSession,
    catalog: Catalog,
    job_for: Callable[..., Job],
    rewritable: Callable[..., TableName],
    table_of: Callable[[TableName], Table],
    meanwhile: Callable[..., Any],
) -> None:
    engine = SparkEngine(lambda: spark, lambda: catalog, tries=1)
    name = rewritable(commits=3, deletes=0)
    with meanwhile(lambda: table_of(name).delete("part = 0")):
        result = engine.run(job_for(name, rewrite_data_files=COMPACT), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.PARTIAL
    assert result.success
    assert result.message == "Compacted 3 files into 1; the rest lost to a concurrent writer"
    assert spark.sql(f"SELECT DISTINCT part FROM {name.quoted}").collect()[0]["part"] == 1


@pytest.mark.parametrize("tries", [1, 3])
def test_file_groups_whose_commits_drop_the_same_delete_file_are_compacted_or_reported(
    spark: SparkSession,
    catalog: Catalog,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    append: Callable[..., None],
    table_of: Callable[[TableName], Table],
    tries: int,
) -> None:
    engine = SparkEngine(lambda: spark, lambda: catalog, tries=tries)
    name = fragmented(commits=1, parts=1, deletes=1)
    table_of(name).delete("part = 0")  # without the delete file, which every commit of Iceberg's drops from now on
    for first in (100, 200):
        append(name, id=range(first, first + 40), part=[number % 4 for number in range(40)], note=["new"] * 40)

    result = engine.run(job_for(name, rewrite_data_files={"min_input_files": 2}), Action.REWRITE_DATA_FILES)

    compacted = result.metrics["rewritten_data_files_count"]
    assert (result.outcome, compacted == 8) in {(ActionOutcome.SUCCEEDED, True), (ActionOutcome.PARTIAL, False)}
    if tries > 1:
        assert result.message.removesuffix(", in 2 tries") == "Compacted 8 files into 4"
    assert table_of(name).inspect.delete_files().num_rows == 0
    assert new_rows(spark, name) == 80


def test_a_commit_that_loses_to_other_commits_of_the_same_rewrite_is_reported(
    spark: SparkSession, catalog: Catalog, job_for: Callable[..., Job], rewritable: Callable[..., TableName], table_of: Any
) -> None:
    """Groups of files commit at the same time. Without retries of Iceberg's own, most of these commits fail."""
    engine = SparkEngine(lambda: spark, lambda: catalog, tries=1)
    name = rewritable(commits=2, parts=8, deletes=0)
    with table_of(name).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "0"})

    result = engine.run(job_for(name, rewrite_data_files={"min_input_files": 2}), Action.REWRITE_DATA_FILES)

    compacted = result.metrics["rewritten_data_files_count"]
    assert (result.outcome, compacted == 16) in {(ActionOutcome.SUCCEEDED, True), (ActionOutcome.PARTIAL, False)}
