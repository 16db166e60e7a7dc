"""Statistics of columns: computed by Spark, named by the table's metadata, and computed once for a snapshot."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import pytest
from health_world import NOW, health
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import SnapshotLog
from airflow_snowpack.jobs.action_history import ActionRecord
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import InvalidOption, in_order
from airflow_snowpack.maintenance.actions.compute_table_stats import ComputeTableStats
from airflow_snowpack.maintenance.planning import Facts, Finding
from airflow_snowpack.maintenance.submit import check_against

ACTION = "compute_table_stats"


def test_it_writes_a_statistics_file_that_the_metadata_names_once_for_each_snapshot(world: SparkWorld) -> None:
    name = world.fragmented(deletes=0)
    compute = partial(world.run, name, ACTION, only_if_needed=True)
    assert world.preview(name, ACTION).message == "Would compute statistics of all columns"

    result, table = compute(), world.table(name)

    (written,) = table.metadata.statistics
    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Computed statistics of all columns")
    assert written.snapshot_id == table.metadata.current_snapshot_id
    assert table.io.new_input(written.statistics_path).exists()
    assert {field for blob in written.blob_metadata for field in blob.fields} == {1, 2, 3}
    has_them = f"snapshot {written.snapshot_id} has statistics"
    assert world.preview(name, ACTION).message == f"Would compute no statistics: {has_them}"
    again = compute()
    assert (again.outcome, again.message) == (ActionOutcome.SKIPPED, f"Nothing to do: {has_them}")

    world.append(name, id=[1], part=[1], note=["new"])
    assert compute(columns=["id"]).message == "Computed statistics of 1 column"
    assert world.preview(name, ACTION, columns=["id"]).message.startswith("Would compute no statistics")
    assert world.preview(name, ACTION, columns=["id", "note"]).message == "Would compute statistics of 2 columns"
    empty = world.run(world.new_table("id BIGINT"), ACTION, engine=world.new_engine(), only_if_needed=True)
    assert empty.message == "Nothing to do: the table has no snapshot"


def test_a_column_and_a_snapshot_that_the_table_does_not_have_are_refused(world: SparkWorld, one_commit: TableName) -> None:
    refused = {"has no such column": {"columns": ["nope"]}, "no such snapshot": {"snapshot_id": 7}}
    for problem, options in refused.items():
        with pytest.raises(InvalidOption, match=problem):
            check_against(world.table(one_commit), "db.t", {ACTION: options})


def found(last: datetime | None, *operations: str) -> Finding:
    """What a plan finds for a table with one commit in each hour until now, by a threshold of two."""
    ids, hours = tuple(range(len(operations))), range(len(operations))
    committed = tuple(round((NOW - timedelta(hours=each)).timestamp() * 1000) for each in reversed(hours))
    log = SnapshotLog(ids, (None, *ids[:-1]), committed, operations)
    record = ActionRecord(last_success_at=last)
    return ComputeTableStats().find(Facts(health(snapshots=log), NOW, "lake", {"commits": 2}, None, 0, record))


def test_a_plan_needs_it_once_and_then_after_enough_commits_of_writers() -> None:
    since = NOW - timedelta(minutes=90)

    assert found(None, "append").needed
    assert found(None, "append").evidence == "1 commit; statistics were never computed; threshold 2"
    assert found(since, "append", "append", "overwrite").needed
    assert not found(since, "append", "append", "replace").needed
    assert found(since, "append", "replace", "replace").work is None
    assert found(None).work is None


def test_it_runs_after_the_actions_that_make_snapshots() -> None:
    assert in_order([ACTION, "expire_snapshots", "rewrite_data_files"]) == ("rewrite_data_files", "expire_snapshots", ACTION)
