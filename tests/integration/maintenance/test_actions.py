"""Each of the five actions on a real, fragmented merge-on-read table."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome, Job, TableChange
from airflow_snowpack.maintenance import Action, RewriteDataFiles, SparkEngine
from airflow_snowpack.maintenance.action_run import ActionRun
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.rewrites import _try
from airflow_snowpack.spark import SparkWork

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def data_files(spark: SparkSession, name: TableName) -> list[Any]:
    return spark.sql(f"SELECT file_path, partition.part AS part FROM {name.quoted}.data_files").collect()


def test_the_five_actions_make_a_fragmented_table_healthy_and_keep_its_rows(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    content_of: Callable[[TableName], Any],
    table_of: Callable[[TableName], Table],
    spark: SparkSession,
) -> None:
    name = fragmented()
    before, first = content_of(name), table_of(name).current_snapshot()
    job = job_for(name, rewrite_data_files={"min_input_files": 2}, expire_snapshots={"max_age": "PT0S", "retain_last": 1})

    results = {action: engine.run(job, action) for action in Action}

    assert {action: result.outcome for action, result in results.items()} == dict.fromkeys(Action, ActionOutcome.SUCCEEDED)
    assert results[Action.REWRITE_DATA_FILES].message == "Compacted 12 files into 2"
    assert results[Action.REWRITE_DATA_FILES].metrics["rewritten_data_files_count"] == 12
    assert results[Action.REWRITE_DATA_FILES].metrics["rewritten_bytes_count"] > 0
    assert results[Action.REWRITE_POSITION_DELETE_FILES].metrics["added_delete_files_count"] == 0
    assert results[Action.REWRITE_MANIFESTS].message == "Rewrote 2 manifests into 1"
    assert results[Action.EXPIRE_SNAPSHOTS].message.startswith("Expired 12 snapshots and deleted ")
    assert results[Action.EXPIRE_SNAPSHOTS].metrics["expired_snapshots_count"] == 12
    assert results[Action.REMOVE_ORPHAN_FILES].message == "No orphan files"
    assert all(result.error is None and result.elapsed_seconds > 0 for result in results.values())
    assert content_of(name) == before
    by_spark = sorted(tuple(row) for row in spark.table(name.quoted).collect())
    assert (len(by_spark), hash(tuple(by_spark))) == (before.rows, before.checksum), "Spark reads what PyIceberg reads"
    table = table_of(name)
    assert len(table.metadata.snapshots) == 1
    assert len(table.inspect.files()) == 2
    changes = [results[action].change for action in Action]
    assert first is not None
    assert changes[0] is not None
    assert (changes[0].before, changes[0].location) == (first.snapshot_id, table.location())
    moved = [change for change in changes if change is not None]
    assert [change.before for change in moved[1:]] == [change.after for change in moved[:-1]], "each goes on where the last ended"
    last = table.current_snapshot()
    assert last is not None
    assert results[Action.EXPIRE_SNAPSHOTS].change == TableChange(last.snapshot_id, last.snapshot_id, table.location())
    assert results[Action.REMOVE_ORPHAN_FILES].change is None, "it removed nothing"


def test_a_table_that_needs_nothing_gets_nothing(
    engine: SparkEngine, job_for: Callable[..., Job], fragmented: Callable[..., TableName], table_of: Callable[[TableName], Table]
) -> None:
    name = fragmented(commits=1, parts=1, deletes=0)
    head = table_of(name).metadata.current_snapshot_id
    wanted = job_for(name, **{action: {"only_if_needed": True} for action in Action})
    assert [engine.run(wanted, action).outcome for action in Action] == [ActionOutcome.SKIPPED] * 5
    messages = [engine.run(job_for(name), action).message for action in Action]
    assert messages == [
        "No files needed to be compacted",
        "No delete files needed to be compacted",
        "No manifests needed to be rewritten",
        "No snapshot was old enough to expire",
        "No orphan files",
    ]
    assert table_of(name).metadata.current_snapshot_id == head


def test_groups_that_come_out_even_in_fewer_commits_are_not_mistaken_for_failures(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    spark: SparkSession,
    catalog: Catalog,
) -> None:
    name = fragmented(commits=2, parts=5, deletes=0)
    options = RewriteDataFiles(min_input_files=2, partial_progress_max_commits=4)
    run = ActionRun(
        job_for(name).job_id, name, Action.REWRITE_DATA_FILES, spark, SparkWork(), catalog, datetime.now(UTC), tries=1
    )
    # 5 groups in at most 4 commits are 3 commits; Iceberg expects 4 and says that one failed.
    tried = _try(run, options, run.table(), strict=True)
    assert tried.doubt is None
    assert tried.counts["rewritten_data_files_count"] == 10
    assert tried.counts["added_data_files_count"] == 5


def test_an_empty_table_without_a_snapshot_is_fine(
    engine: SparkEngine, job_for: Callable[..., Job], new_table: Callable[..., TableName]
) -> None:
    job = job_for(new_table())
    assert {engine.run(job, action).outcome for action in Action} == {ActionOutcome.SUCCEEDED}


def test_where_rewrites_only_the_partition_that_it_names(
    engine: SparkEngine, job_for: Callable[..., Job], fragmented: Callable[..., TableName], spark: SparkSession
) -> None:
    name = fragmented(deletes=0)
    other = {file["file_path"] for file in data_files(spark, name) if file["part"] == 1}

    result = engine.run(job_for(name, rewrite_data_files={"where": "part = 0"}), Action.REWRITE_DATA_FILES)

    assert result.message == "Compacted 6 files into 1"
    assert {file["file_path"] for file in data_files(spark, name) if file["part"] == 1} == other


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "sort", "sort_order": "id DESC NULLS LAST"},
        {"strategy": "zorder", "zorder_columns": ["id", "note"]},
    ],
    ids=["sort", "zorder"],
)
def test_rows_can_be_laid_out_anew(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    content_of: Callable[[TableName], Any],
    spark: SparkSession,
    options: dict[str, Any],
) -> None:
    name = fragmented(deletes=1)
    before = content_of(name)
    result = engine.run(job_for(name, rewrite_data_files=options), Action.REWRITE_DATA_FILES)
    assert result.message == "Compacted 12 files into 2"
    assert content_of(name) == before
    if options["strategy"] == "sort":
        ids = [row["id"] for row in spark.sql(f"SELECT id FROM {name.quoted} WHERE part = 0").collect()]
        assert ids == sorted(ids, reverse=True)


def test_expiry_keeps_what_tags_and_branches_need(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    spark: SparkSession,
    table_of: Callable[[TableName], Table],
) -> None:
    name = fragmented(commits=5, deletes=0)
    tagged, branched = (snapshot.snapshot_id for snapshot in table_of(name).metadata.snapshots[1:3])
    spark.sql(f"ALTER TABLE {name.quoted} CREATE TAG monthly AS OF VERSION {tagged}")
    spark.sql(f"ALTER TABLE {name.quoted} CREATE BRANCH audit AS OF VERSION {branched}")
    job = job_for(name, expire_snapshots={"max_age": "PT0S", "retain_last": 1})

    result = engine.run(job, Action.EXPIRE_SNAPSHOTS)

    left = {snapshot.snapshot_id for snapshot in table_of(name).metadata.snapshots}
    assert {tagged, branched} <= left
    assert len(left) == 3
    assert result.metrics["expired_snapshots_count"] == 2
    assert spark.sql(f"SELECT count(*) AS n FROM {name.quoted} VERSION AS OF 'monthly'").collect()[0]["n"] == 80


def test_expiry_keeps_the_newest_whatever_their_age(
    spark: SparkSession,
    catalog: Catalog,
    removals: Removals,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
) -> None:
    name = fragmented(commits=5, deletes=0)
    a_year_on = datetime.now(UTC) + timedelta(days=365)
    engine = SparkEngine(lambda: spark, lambda: catalog, removals=removals, now=lambda: a_year_on)
    assert engine.run(job_for(name), Action.EXPIRE_SNAPSHOTS).metrics["expired_snapshots_count"] == 2


def test_a_request_without_options_expires_by_the_retention_of_the_tables_owner(
    spark: SparkSession,
    catalog: Catalog,
    removals: Removals,
    job_for: Callable[..., Job],
    new_table: Callable[..., TableName],
    append: Callable[..., None],
) -> None:
    days_36 = str(36 * 24 * 3_600_000)
    name = new_table("id BIGINT", **{"history.expire.max-snapshot-age-ms": days_36, "history.expire.min-snapshots-to-keep": "50"})
    for number in range(30):
        append(name, id=[number])

    def expired(days: int, **options: Any) -> int | float:
        later = datetime.now(UTC) + timedelta(days=days)
        engine = SparkEngine(lambda: spark, lambda: catalog, removals=removals, now=lambda: later)
        return engine.run(job_for(name, expire_snapshots=options), Action.EXPIRE_SNAPSHOTS).metrics["expired_snapshots_count"]

    assert expired(10) == 0
    assert expired(40) == 0, "50 are kept whatever their age"
    spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep' = '20')")
    assert expired(35) == 0
    assert expired(40) == 10
    assert expired(10, max_age="5d", retain_last=19) == 1, "the request is above the owner"


def test_a_table_whose_owner_wants_it_globally_sorted_is_compacted_to_its_target_in_that_order(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    new_table: Callable[..., TableName],
    append: Callable[..., None],
    spark: SparkSession,
    table_of: Callable[[TableName], Table],
) -> None:
    name, digits = new_table("id BIGINT"), random.Random(5)
    for _ in range(4):
        append(name, id=[digits.getrandbits(60) for _ in range(5000)])
    total = sum(file["file_size_in_bytes"] for file in table_of(name).inspect.data_files().to_pylist())
    spark.sql(f"ALTER TABLE {name.quoted} WRITE ORDERED BY id")
    spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ('write.target-file-size-bytes' = '{total // 2}')")

    result = engine.run(job_for(name, rewrite_data_files={"min_input_files": 2}), Action.REWRITE_DATA_FILES)

    assert result.message == "Compacted 4 files into 2", result
    metrics = [file["readable_metrics"]["id"] for file in table_of(name).inspect.data_files().to_pylist()]
    lower, upper = sorted(metrics, key=lambda each: each["lower_bound"])
    assert lower["upper_bound"] < upper["lower_bound"]


def test_our_commits_carry_the_job_and_those_of_others_do_not(
    engine: SparkEngine,
    job_for: Callable[..., Job],
    fragmented: Callable[..., TableName],
    spark: SparkSession,
    table_of: Callable[[TableName], Table],
) -> None:
    name = fragmented(deletes=0)
    job = job_for(name)
    engine.run(job, Action.REWRITE_DATA_FILES)
    spark.sql(f"INSERT INTO {name.quoted} VALUES (1, 1, 'later')")
    *_, ours, theirs = table_of(name).metadata.snapshots
    assert ours.summary is not None
    assert theirs.summary is not None
    assert ours.summary.additional_properties["snowpack.job-id"] == job.job_id
    assert ours.summary.additional_properties["snowpack.action"] == "rewrite_data_files"
    assert "snowpack.job-id" not in theirs.summary.additional_properties
