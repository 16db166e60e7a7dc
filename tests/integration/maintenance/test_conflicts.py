"""Other commits come while a rewrite runs: its own, or those of PyIceberg, in this process but outside of Spark's JVM."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from iceberg_texts import thrown_texts
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.commits import is_conflict
from airflow_snowpack.spark import SparkFailed
from airflow_snowpack.spark.errors import JavaCause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table(
    {"id": [1, 2], "part": [0, 0], "note": ["new", "new"]},
    schema=pa.schema([("id", pa.int64()), ("part", pa.int32()), ("note", pa.string())]),
)
NOT_OF_OTHER_COMMITS = {
    "BaseOverwriteFiles": {"Cannot append file with rows that do not match filter: %s: %s"},
    "BaseReplacePartitions": {"Cannot commit file that conflicts with existing partition: %s"},
    "BaseRewriteManifests": {"Replaced and created manifests must have the same number of active files: %d (new), %d (old)"},
    "BaseRowDelta": {"Cannot delete data files %s that are referenced by new delete files"},
    "DeleteFileIndex": {
        "DV data sequence number (%s) must be greater than or equal to data file sequence number (%s)",
        "Mismatched partition specs (%s, %s) for delete file %s and data file %s: metadata is corrupted",
        "Mismatched partition tuples (%s, %s) for delete file %s and data file %s: metadata is corrupted",
    },
    "ManifestFilterManager": {"Cannot delete file where some, but not all, rows match filter %s: %s"},
    "ManifestFilterManager$DeleteException": {"Operation would delete existing data"},
    "MergingSnapshotProducer": set(),
    "RemoveDanglingDeleteFilesAction": set(),
    "RemoveSnapshots": {"Cannot expire snapshots: GC is disabled (deleting files may corrupt other tables)"},
    "SnapshotProducer": set(),
    "TableMetadata$Builder": {
        "Attempting to add a snapshot before a partition spec is added",
        "Attempting to add a snapshot before a schema is added",
        "Attempting to add a snapshot before a sort order is added",
        "Cannot add a snapshot: first-row-id is null",
        "Cannot set %s to a tag, it must be a branch",
        "Cannot set %s to unknown snapshot: %s",
        "Cannot set invalid snapshot log: latest entry is not the current snapshot",
        "Cannot set last added schema: no schema has been added",
        "Cannot set last added sort order: no sort order has been added",
        "Cannot set last added spec: no spec has been added",
        "Cannot update branch: %s is a tag",
        "Last sequence number %s is less than existing snapshot sequence number %s",
        "Snapshot already exists for id: %s",
        "Spec does not use sequential IDs that are required in v1: %s",
    },
}
"""By the class that throws, what Iceberg validates of a commit beside other commits: its own files, options and metadata."""
NEVER_OF_OTHER_COMMITS = {
    *("BaseUpdatePartitionSpec", "MetricsConfig", "PartitionSpec", "Partitioning", "SortOrder", "SortOrder$Builder"),
    *("TableMetadata", "UpdateRequirement", "IndexByName", "PropertyUtil", "ViewMetadata$Builder"),  # metadata
    *("ExpressionVisitors$BoundExpressionVisitor", "NamedReference", "UnboundExtract", "UnboundPredicate", "UnboundTransform"),
    *("CatalogUtil", "DynamoDbCatalog", "GlueCatalog", "GlueTableOperations", "IcebergToGlueConverter", "CachedClientPool"),
    *("BigQueryTableOperations", "HadoopTableOperations", "HiveTableOperations", "HiveViewOperations"),  # catalogs
    *("OSSInputFile", "OSSURI", "S3FileIOProperties", "S3URI", "ADLSLocation", "GCSLocation", "ContentCache", "ResolvingFileIO"),
    *("HadoopMetricsContext", "DeleteFileIndex$Builder", "SparkExceptionUtil", "ValidationException"),
    *("CherryPickOperation", "CherrypickAncestorCommitException", "DuplicateWAPCommitException", "WapUtil"),  # no maintenance
    *("SetSnapshotOperation", "PublishChangesProcedure", "SetCurrentSnapshotProcedure"),
    *(
        "SparkCatalog",
        "SparkSchemaUtil",
        "SparkTable",
        "BaseProcedure",
        "BaseFileRewriteCoordinator",
        "RewriteManifestsSparkAction",
    ),
    *("BaseSparkAction$DeleteSummary", "DeleteOrphanFilesSparkAction", "DeleteReachableFilesSparkAction"),
    *("ExpireSnapshotsSparkAction", "SparkPartitioningAwareScan", "SparkStagedScan", "RetryableValidationException"),
}
COMPACT = {"min_input_files": 2, "max_concurrent_file_group_rewrites": 1}


def new_rows(world: SparkWorld, name: TableName) -> int:
    return int(world.value(f"SELECT count(*) FROM {name.quoted} WHERE note = 'new'"))


@pytest.fixture(scope="module")
def iceberg_jar(spark: SparkSession) -> Path:
    """The jar of Iceberg that the session runs."""
    java: Any = spark.sparkContext._jvm
    table = java.java.lang.Thread.currentThread().getContextClassLoader().loadClass("org.apache.iceberg.Table")
    return Path(table.getProtectionDomain().getCodeSource().getLocation().getPath())


def test_each_validation_of_the_shipped_iceberg_is_known_to_be_about_another_commit_or_not(iceberg_jar: Path) -> None:
    for thrower, text in thrown_texts(iceberg_jar, "ValidationException"):
        if thrower in NEVER_OF_OTHER_COMMITS:
            of_other_commits = False
        else:
            assert thrower in NOT_OF_OTHER_COMMITS, f"Classify what {thrower} validates: {text}"
            of_other_commits = text not in NOT_OF_OTHER_COMMITS[thrower]
        message = text.replace("%s", "s3://lake/m.avro").replace("%d", "7")
        failure = SparkFailed("failed", (JavaCause("org.apache.iceberg.exceptions.ValidationException", message),))
        on_connect = SparkFailed(f"SparkConnectGrpcException: (org.apache.iceberg.exceptions.ValidationException) {message}")
        assert is_conflict(failure) == is_conflict(on_connect) == of_other_commits, f"{thrower}: {text}"


def test_metadata_that_another_commit_has_replaced_is_a_conflict_whatever_the_catalog_says() -> None:
    cause = JavaCause("org.apache.iceberg.exceptions.CommitFailedException", "failed")
    assert is_conflict(SparkFailed("failed", (cause,)))
    assert is_conflict(SparkFailed(f"SparkConnectGrpcException: ({cause.class_name}) failed"))


def test_manifests_that_a_writer_has_replaced_meanwhile_are_rewritten_in_another_try(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, deletes=0)
    with world.meanwhile(lambda: world.table(name).delete("part = 1")):
        result = world.run(name, Action.REWRITE_MANIFESTS)

    assert (result.outcome, result.error) == (ActionOutcome.SUCCEEDED, None)
    assert result.message == "Rewrote 4 manifests into 1, in 2 tries beside a concurrent writer"
    table = world.table(name)
    assert len(table.current_snapshot().manifests(table.io)) == 1


def test_an_append_meanwhile_costs_nothing(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=1, deletes=0)
    with world.meanwhile(lambda: world.table(name).append(ROWS)):
        result = world.run(name, Action.REWRITE_DATA_FILES, **COMPACT)
    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Compacted 3 files into 1")
    assert new_rows(world, name) == 2


@pytest.mark.parametrize("partial_progress", [False, True])
def test_without_another_try_a_lost_rewrite_is_a_conflict_and_the_writer_wins(world: SparkWorld, partial_progress: bool) -> None:
    name, engine = world.fragmented(commits=3, parts=1, deletes=0), world.new_engine(tries=1)
    with world.meanwhile(lambda: world.table(name).overwrite(ROWS)):
        result = world.run(name, Action.REWRITE_DATA_FILES, engine=engine, partial_progress=partial_progress, **COMPACT)

    assert result.outcome is ActionOutcome.CONFLICT
    assert not result.success
    assert result.error is not None
    assert result.error.startswith("A concurrent writer committed changes to files that were being rewritten")
    if not partial_progress:
        assert "ValidationException: Missing required files to delete" in result.error
    assert world.value(f"SELECT count(*) FROM {name.quoted}") == new_rows(world, name) == 2


@pytest.mark.cell("Local Spark", "SQL", "local files")
def test_another_try_works_with_what_the_writer_left(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=1, deletes=0)

    def replace_everything() -> None:
        world.table(name).overwrite(ROWS)
        world.table(name).append(ROWS)

    with world.meanwhile(replace_everything):
        result = world.run(name, Action.REWRITE_DATA_FILES, **COMPACT)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == "Compacted 2 files into 1, in 2 tries beside a concurrent writer"
    assert result.metrics["tries"] == 2
    assert new_rows(world, name) == 4


def test_a_rewrite_whose_rest_a_writer_has_replaced_ends_instead_of_trying_again(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=1, deletes=0)
    with world.meanwhile(lambda: world.table(name).overwrite(ROWS)):
        result = world.run(name, Action.REWRITE_DATA_FILES, only_if_needed=True, **COMPACT)

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert result.message == (
        "No file was compacted beside a concurrent writer. "
        "Nothing to do: 1 data file, 1 of them too small or too large, and no partition has enough of those"
    )
    assert "tries" not in result.metrics
    assert world.engine._work.calls == 2  # the comparison of the table with that of Spark, and one rewrite
    assert new_rows(world, name) == 2


def test_a_rewrite_that_lost_nothing_does_not_claim_that_a_writer_replaced_any_of_it(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, deletes=0)
    with world.meanwhile(lambda: world.table(name).delete("part = 1")):
        result = world.run(name, Action.REWRITE_DATA_FILES, where="part = 0", only_if_needed=True, **COMPACT)

    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Compacted 3 files into 1")
    assert world.engine._work.calls == 2  # the comparison of the table with that of Spark, and one rewrite


def test_what_other_partitions_had_committed_counts_when_one_is_lost(world: SparkWorld) -> None:
    name, engine = world.fragmented(commits=3, deletes=0), world.new_engine(tries=1)
    with world.meanwhile(lambda: world.table(name).delete("part = 0")):
        result = world.run(name, Action.REWRITE_DATA_FILES, engine=engine, **COMPACT)
    assert result.outcome is ActionOutcome.PARTIAL
    assert result.success
    assert result.message == "Compacted 3 files into 1; the rest lost to a concurrent writer"
    assert world.value(f"SELECT DISTINCT part FROM {name.quoted}") == 1


@pytest.mark.parametrize("tries", [1, 3])
def test_file_groups_whose_commits_drop_the_same_delete_file_are_compacted_or_reported(world: SparkWorld, tries: int) -> None:
    name, engine = world.fragmented(commits=1, parts=1, deletes=1), world.new_engine(tries=tries)
    world.table(name).delete("part = 0")  # without the delete file, which every commit of Iceberg's drops from now on
    for first in (100, 200):
        world.append(name, id=range(first, first + 40), part=[number % 4 for number in range(40)], note=["new"] * 40)

    result = world.run(name, Action.REWRITE_DATA_FILES, engine=engine, min_input_files=2)

    compacted = result.metrics["rewritten_data_files_count"]
    assert (result.outcome, compacted == 8) in {(ActionOutcome.SUCCEEDED, True), (ActionOutcome.PARTIAL, False)}
    if tries > 1:
        assert result.message.removesuffix(", in 2 tries") == "Compacted 8 files into 4"
    assert world.table(name).inspect.delete_files().num_rows == 0
    assert new_rows(world, name) == 80


@pytest.mark.parametrize(("parts", "where"), [(8, None), (8, "`part` < 8"), (12, "`part` < 12")])
def test_a_commit_that_loses_to_other_commits_of_the_same_rewrite_is_reported(
    world: SparkWorld, parts: int, where: str | None
) -> None:
    """Groups of files commit at the same time. Without retries of Iceberg's own, most of these commits fail."""
    name, engine = world.fragmented(commits=2, parts=parts, deletes=0), world.new_engine(tries=1)
    with world.table(name).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "0"})

    result = world.run(name, Action.REWRITE_DATA_FILES, engine=engine, min_input_files=2, where=where)

    compacted = result.metrics["rewritten_data_files_count"]
    assert (result.outcome, compacted == 2 * parts) in {(ActionOutcome.SUCCEEDED, True), (ActionOutcome.PARTIAL, False)}


def test_more_file_groups_than_commits_are_not_taken_for_failed_commits(world: SparkWorld) -> None:
    name = world.fragmented(commits=2, parts=12, deletes=1)

    result = world.run(name, Action.REWRITE_DATA_FILES, where="`part` < 12", **COMPACT)

    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Compacted 24 files into 12")
