"""Statistics of columns: computed by Spark, named by the table's metadata, and computed once for a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from health_world import NOW, health

from airflow_snowpack.iceberg import MetadataReader, TableName
from airflow_snowpack.iceberg.health import SnapshotLog
from airflow_snowpack.jobs.action_history import ActionRecord
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Job
from airflow_snowpack.maintenance import InvalidOption, PlanningContext, SparkEngine, in_order, parse_options, plan_action
from airflow_snowpack.maintenance.actions.compute_table_stats import ComputeTableStats
from airflow_snowpack.maintenance.planning import Facts, Finding
from airflow_snowpack.maintenance.submit import check_against

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ACTION = "compute_table_stats"


@pytest.fixture
def compute(engine: SparkEngine, job_for: Callable[..., Job]) -> Callable[..., ActionResult]:
    """Run the action with these options, where it is needed."""
    return lambda name, **options: engine.run(job_for(name, compute_table_stats={"only_if_needed": True, **options}), ACTION)


def preview(table: Table, catalog: Catalog, **options: Any) -> str:
    return plan_action(parse_options(ACTION, options), PlanningContext(MetadataReader(table), catalog, datetime.now(UTC))).message


def test_it_writes_a_statistics_file_that_the_metadata_names_once_for_each_snapshot(
    fragmented: Callable[..., TableName],
    compute: Callable[..., ActionResult],
    catalog: Catalog,
    append: Callable[..., None],
) -> None:
    name = fragmented(deletes=0)
    table = catalog.load_table(name.identifier)
    assert preview(table, catalog) == "Would compute statistics of all columns"

    result = compute(name)

    (written,) = table.refresh().metadata.statistics
    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Computed statistics of all columns")
    assert written.snapshot_id == table.metadata.current_snapshot_id
    assert table.io.new_input(written.statistics_path).exists()
    assert {field for blob in written.blob_metadata for field in blob.fields} == {1, 2, 3}
    assert preview(table, catalog) == f"Would compute no statistics: snapshot {written.snapshot_id} has statistics"
    again = compute(name)
    assert (again.outcome, again.message) == (
        ActionOutcome.SKIPPED,
        f"Nothing to do: snapshot {written.snapshot_id} has statistics",
    )

    append(name, id=[1], part=[1], note=["new"])
    assert compute(name, columns=["id"]).message == "Computed statistics of 1 column"
    assert preview(table.refresh(), catalog, columns=["id"]).startswith("Would compute no statistics")
    assert preview(table, catalog, columns=["id", "note"]) == "Would compute statistics of 2 columns"


def test_a_table_without_a_snapshot_is_skipped(new_table: Callable[..., TableName], compute: Callable[..., ActionResult]) -> None:
    assert compute(new_table("id BIGINT")).message == "Nothing to do: the table has no snapshot"


@pytest.mark.parametrize(
    ("options", "problem"), [({"columns": ["nope"]}, "has no such column"), ({"snapshot_id": 7}, "no such snapshot")]
)
def test_a_column_and_a_snapshot_that_the_table_does_not_have_are_refused(
    fragmented: Callable[..., TableName], table_of: Callable[[TableName], Table], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem):
        check_against(table_of(fragmented()), "db.t", {ACTION: options})


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
