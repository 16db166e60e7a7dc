"""An interrupt ends the Spark work, not just the record of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome, Job
from airflow_snowpack.maintenance import Action, SparkEngine

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("partial_progress", [False, True])
def test_an_interrupted_rewrite_leaves_the_table_as_it_was(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    content_of: Callable[[TableName], Any],
    table_of: Callable[[TableName], Table],
    meanwhile: Callable[..., Any],
    partial_progress: bool,
) -> None:
    name = fragmented(commits=3, parts=3 if partial_progress else 1, deletes=0)
    before, head = content_of(name), table_of(name).metadata.current_snapshot_id
    options = {
        "min_input_files": 2,
        "partial_progress": partial_progress,
        # One after the other: a single cancel would stop the first group only.
        "max_concurrent_file_group_rewrites": 1,
    }

    with meanwhile(engine.interrupt, until_the_end=True):
        result = engine.run(job_for(name, rewrite_data_files=options), Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.INTERRUPTED
    assert result.message == "Interrupted before anything was committed"
    assert not result.success
    assert table_of(name).metadata.current_snapshot_id == head
    assert content_of(name) == before


def test_what_was_committed_before_the_interrupt_stays_and_is_told(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    content_of: Callable[[TableName], Any],
    meanwhile: Callable[..., Any],
) -> None:
    name = fragmented(commits=3, parts=3, deletes=0)
    before = content_of(name)
    options = {"min_input_files": 2, "max_concurrent_file_group_rewrites": 1}

    with meanwhile(lambda: None, engine.interrupt, until_the_end=True):
        result = engine.run(job_for(name, rewrite_data_files=options), Action.REWRITE_DATA_FILES)

    assert result.outcome is ActionOutcome.INTERRUPTED
    assert result.message == "Interrupted after it had compacted 3 files into 1"
    assert result.metrics["rewritten_data_files_count"] == 3
    assert content_of(name) == before


def test_an_interrupt_before_the_start_starts_nothing(
    catalog: Catalog, job_for: Callable[..., Job], one_commit: TableName
) -> None:
    def no_session() -> SparkSession:
        raise AssertionError("a session was asked for")

    engine = SparkEngine(no_session, lambda: catalog)
    engine.interrupt()
    engine.interrupt()
    result = engine.run(job_for(one_commit), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.INTERRUPTED


def test_after_an_interrupt_the_next_action_does_not_run(
    engine: SparkEngine, job_for: Callable[..., Job], fragmented: Callable[..., TableName], table_of: Callable[[TableName], Table]
) -> None:
    name = fragmented(commits=5, deletes=0)
    job = job_for(name, expire_snapshots={"max_age": "PT0S", "retain_last": 1})
    head = table_of(name).metadata.current_snapshot_id
    engine.interrupt()
    assert {engine.run(job, action).outcome for action in Action} == {ActionOutcome.INTERRUPTED}
    assert table_of(name).metadata.current_snapshot_id == head
    assert len(table_of(name).metadata.snapshots) == 5


def test_an_interrupt_while_no_spark_job_is_active_is_not_lost(
    spark: SparkSession, catalog: Catalog, job_for: Callable[..., Job], fragmented: Callable[..., TableName]
) -> None:
    engine = SparkEngine(lambda: spark, lambda: interrupting(engine, catalog))
    name = fragmented(commits=5, deletes=0)
    # The engine connects to the catalog before it calls the procedure, when Spark has nothing to do.
    result = engine.run(job_for(name), Action.REWRITE_DATA_FILES)
    assert result.outcome is ActionOutcome.INTERRUPTED
    assert len(catalog.load_table(name.identifier).metadata.snapshots) == 5


def interrupting(engine: SparkEngine, catalog: Catalog) -> Catalog:
    engine.interrupt()
    return catalog
