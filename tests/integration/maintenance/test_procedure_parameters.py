"""Our options beside the parameters of the running Iceberg's procedures, so that an upgrade shows what is new.

Also the options at work that came after the first release.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from spark_world import SparkWorld

from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, action_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SET_BY_US = {
    Action.REWRITE_DATA_FILES: {"table", "options"},
    Action.REWRITE_POSITION_DELETE_FILES: {"table", "options"},
    Action.REWRITE_MANIFESTS: {"table"},
    # max_age is the option, because a job may wait.
    Action.EXPIRE_SNAPSHOTS: {"table"},
    # We always plan first, by dry_run, and remove exactly the files of that plan, which a streamed result would cut short.
    Action.REMOVE_ORPHAN_FILES: {"table", "dry_run", "file_list_view", "stream_results"},
}
OUR_NAMES = {
    Action.REWRITE_DATA_FILES: {"zorder_columns": "sort_order"},
    Action.EXPIRE_SNAPSHOTS: {"max_age": "older_than"},
}
NOT_OFFERED = {
    Action.REWRITE_DATA_FILES: {
        "partial-progress.max-failed-commits",  # set by us, to find commits that did not land
    },
}
OF_LISTS = {"only_if_needed", "spark_conf", "approve_above_files", "approve_above_bytes", "removal_id"}
FOR_THE_ENGINE = {
    Action.EXPIRE_SNAPSHOTS: {"equal_schemes", "equal_authorities"},
    Action.REMOVE_ORPHAN_FILES: {"follow_symlinks", "quarantine", "quarantine_copy", "restore", "restore_files"},
}
"""Options that decide whether the procedure is called at all, and with which list; :data:`OF_LISTS` those of several actions."""
SPARK_ACTIONS = {
    Action.REWRITE_DATA_FILES: "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction",
    Action.REWRITE_POSITION_DELETE_FILES: "org.apache.iceberg.spark.actions.RewritePositionDeleteFilesSparkAction",
}


def parameters(spark: SparkSession, action: Action) -> set[str]:
    """The names of the procedure's parameters, from the procedure itself."""
    jvm: Any = spark._jvm
    namespace = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)
    namespace[0] = "system"
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("lake")
    procedure = catalog.loadProcedure(jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, action.value))
    return {each.name() for each in procedure.bind(jvm.org.apache.spark.sql.types.StructType()).parameters()}


def settings(spark: SparkSession, action: Action) -> set[str]:
    """The keys of the procedure's ``options`` map that the action itself reads."""
    jvm: Any = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("lake")
    loaded = jvm.java.lang.Class.forName(SPARK_ACTIONS[action], True, catalog.getClass().getClassLoader())
    declared = loaded.getDeclaredField("VALID_OPTIONS")
    declared.setAccessible(True)
    return set(declared.get(None))


@pytest.mark.parametrize("action", list(Action))
def test_every_parameter_of_a_procedure_is_an_option_or_is_left_out_on_purpose(spark: SparkSession, action: Action) -> None:
    renamed = OUR_NAMES.get(action, {})
    ours = {renamed.get(each.name, each.name) for each in fields(action_class(action)) if not each.metadata["procedure_option"]}

    assert parameters(spark, action) - SET_BY_US[action] == ours - OF_LISTS - FOR_THE_ENGINE.get(action, set())


@pytest.mark.parametrize("action", list(SPARK_ACTIONS))
def test_every_setting_of_a_rewrite_is_an_option_or_is_left_out_on_purpose(spark: SparkSession, action: Action) -> None:
    ours = {each.metadata["procedure_option"] for each in fields(action_class(action))}

    assert settings(spark, action) - ours == NOT_OFFERED.get(action, set())


def test_a_rewrite_stops_at_so_many_files_as_its_dry_run_says(world: SparkWorld) -> None:
    name = world.fragmented(commits=6, parts=1, deletes=0)
    said = {"min_input_files": 2, "max_files_to_rewrite": 4, "rewrite_job_order": "bytes-asc"}
    planned = world.preview(name, Action.REWRITE_DATA_FILES, **said)
    result = world.run(name, Action.REWRITE_DATA_FILES, **said)

    assert result.outcome is ActionOutcome.SUCCEEDED, result.error
    assert result.metrics["rewritten_data_files_count"] == planned.metrics["rewritten_data_files_count"] == 4


def test_a_rewrite_of_a_branch_commits_to_the_branch_alone(world: SparkWorld) -> None:
    name = world.fragmented(commits=3, parts=1, deletes=0)
    main = world.table(name).current_snapshot()
    world.sql(f"ALTER TABLE {name.quoted} CREATE BRANCH audit")
    result = world.run(name, Action.REWRITE_DATA_FILES, min_input_files=2, branch="audit")

    assert result.outcome is ActionOutcome.SUCCEEDED, result.error
    assert result.metrics["rewritten_data_files_count"] == 3
    table = world.table(name)
    assert table.current_snapshot() == main
    branch = table.snapshot_by_name("audit")
    assert branch is not None
    assert main is not None
    assert result.change is not None
    assert (result.change.before, result.change.after) == (main.snapshot_id, branch.snapshot_id)


def test_exactly_the_snapshots_that_are_named_expire(world: SparkWorld) -> None:
    name = world.fragmented(commits=4, parts=1, deletes=0)
    for column in ("unused", "current"):
        world.sql(f"ALTER TABLE {name.quoted} ADD COLUMN {column} INT")
    first, second, *others = (snapshot.snapshot_id for snapshot in world.table(name).snapshots())
    said = {"snapshot_ids": [second], "clean_expired_metadata": True}
    planned = world.preview(name, Action.EXPIRE_SNAPSHOTS, **said)
    result = world.run(name, Action.EXPIRE_SNAPSHOTS, **said)

    assert result.outcome is ActionOutcome.SUCCEEDED, result.error
    assert result.metrics["expired_snapshots_count"] == planned.metrics["expired_snapshots_count"] == 1
    table = world.table(name)
    assert [snapshot.snapshot_id for snapshot in table.snapshots()] == [first, *others]
    assert [len(schema.fields) for schema in table.metadata.schemas] == [3, 5], "the unused schema is forgotten"


def test_manifests_are_sorted_and_prefixes_compared_as_the_options_say(world: SparkWorld) -> None:
    name = world.new_table("id BIGINT, part INT", "part")
    for part in range(3):
        world.append(name, id=range(3), part=[part] * 3)
    rewritten = world.run(name, Action.REWRITE_MANIFESTS, sort_by=["part"])
    said = {"prefix_mismatch_mode": "ignore", "equal_schemes": {"s3a,s3n": "s3"}, "equal_authorities": {"a,b": "c"}}
    removed = world.run(name, Action.REMOVE_ORPHAN_FILES, **said)

    assert rewritten.outcome is ActionOutcome.SUCCEEDED, rewritten.error
    assert rewritten.metrics["rewritten_manifests_count"] == 3
    assert removed.outcome is ActionOutcome.SUCCEEDED, removed.error
