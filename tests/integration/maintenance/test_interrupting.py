"""An interrupt ends the Spark work, not just the record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, SparkEngine

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

# One group after the other: a single cancel would stop the first one only.
ONE_BY_ONE = {"min_input_files": 2, "max_concurrent_file_group_rewrites": 1}


@pytest.mark.parametrize("partial_progress", [False, True])
def test_an_interrupted_rewrite_leaves_the_table_as_it_was(world: SparkWorld, partial_progress: bool) -> None:
    name = world.fragmented(commits=3, parts=3 if partial_progress else 1, deletes=0)
    before, head = world.content(name), world.table(name).metadata.current_snapshot_id

    with world.meanwhile(world.engine.interrupt, until_the_end=True):
        result = world.run(name, Action.REWRITE_DATA_FILES, partial_progress=partial_progress, **ONE_BY_ONE)

    assert result.outcome is ActionOutcome.INTERRUPTED
    assert result.message == "Interrupted before anything was committed"
    assert not result.success
    assert world.table(name).metadata.current_snapshot_id == head
    assert world.content(name) == before


def test_what_was_committed_before_the_interrupt_stays_and_is_told(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=3, deletes=0)
    before = world.content(name)

    with world.meanwhile(lambda: None, world.engine.interrupt, until_the_end=True):
        result = world.run(name, Action.REWRITE_DATA_FILES, **ONE_BY_ONE)

    assert result.outcome is ActionOutcome.INTERRUPTED
    assert result.message == "Interrupted after it had compacted 3 files into 1"
    assert result.metrics["rewritten_data_files_count"] == 3
    assert world.content(name) == before


def test_an_interrupt_before_the_start_starts_nothing(world: SparkWorld, one_commit: TableName) -> None:
    def no_session() -> SparkSession:
        raise AssertionError("a session was asked for")

    engine = SparkEngine(no_session, lambda: world.catalog)
    engine.interrupt()
    engine.interrupt()
    assert world.run(one_commit, Action.REWRITE_DATA_FILES, engine=engine).outcome is ActionOutcome.INTERRUPTED


def test_an_interrupt_between_actions_or_while_no_spark_job_is_active_keeps_the_table_as_it_is(world: SparkWorld) -> None:
    name = world.fragmented(commits=5, deletes=0)
    head = world.table(name).metadata.current_snapshot_id

    def interrupting() -> Catalog:
        """The engine connects to the catalog before it calls the procedure, when Spark has nothing to do."""
        connecting.interrupt()
        return world.catalog

    connecting = SparkEngine(lambda: world.spark, interrupting)
    assert world.run(name, Action.REWRITE_DATA_FILES, engine=connecting).outcome is ActionOutcome.INTERRUPTED
    world.engine.interrupt()
    job = world.job(name, expire_snapshots={"max_age": "PT0S", "retain_last": 1})
    assert {world.engine.run(job, action).outcome for action in Action} == {ActionOutcome.INTERRUPTED}
    assert world.table(name).metadata.current_snapshot_id == head
    assert len(world.table(name).metadata.snapshots) == 5
