"""An action that has nothing to do is skipped with the numbers that show it, and starts no Spark."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from airflow_snowpack.iceberg import DeleteKind, LiveDelete, LiveFile, MetadataReader, TableFiles, TableName
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Job, JobStatus
from airflow_snowpack.maintenance import (
    Action,
    PlanningContext,
    RewriteDataFiles,
    RewritePositionDeleteFiles,
    SparkEngine,
    parse_options,
)
from airflow_snowpack.maintenance.actions.rewrite_data_files import data_file_groups
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.submit import MaintenanceRequest, check_against
from airflow_snowpack.spark import SparkFailed, SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.maintenance import ActionEffect, ActionOptions

    Flights = Callable[..., Table]
    Run = Callable[..., ActionResult | str]

SPARK_STARTS = "Spark starts"
BY_MONTH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))


@pytest.fixture
def run(catalog: Catalog) -> Run:
    """Run an action on ``db.flights`` where Spark cannot start: the result, or ``SPARK_STARTS``."""

    def no_spark() -> SparkSession:
        raise SparkUnavailable(SPARK_STARTS)

    def make(action: Action, *, later: timedelta = timedelta(0), **options: Any) -> ActionResult | str:
        engine = SparkEngine(no_spark, lambda: catalog, now=lambda: datetime.now(UTC) + later)
        try:
            return engine.run(job({action.value: options}), action.value)
        except SparkUnavailable as unavailable:
            return str(unavailable)

    return make


def job(options: dict[str, Any]) -> Job:
    name = TableName("lake", "db", "flights")
    return Job("j1", name, tuple(Action), options, False, JobStatus.RUNNING, datetime.now(UTC))


def test_an_action_that_has_nothing_to_do_is_skipped_with_its_evidence_and_starts_spark_when_wanted_in_any_case(
    flights: Flights, run: Run
) -> None:
    flights(1)
    for action, message, metrics in (
        (
            Action.REWRITE_DATA_FILES,
            "Nothing to do: 1 data file, 1 of them too small or too large, and no partition has enough of those",
            {
                "rewritten_data_files_count": 0,
                "added_data_files_count": 0,
                "rewritten_bytes_count": 0,
                "considered_data_files_count": 1,
                "off_size_data_files_count": 1,
            },
        ),
        (
            Action.REWRITE_POSITION_DELETE_FILES,
            "Nothing to do: no position-delete files",
            {
                "rewritten_delete_files_count": 0,
                "added_delete_files_count": 0,
                "rewritten_bytes_count": 0,
                "considered_delete_files_count": 0,
            },
        ),
        (
            Action.REWRITE_MANIFESTS,
            "Nothing to do: 1 manifest, and none to combine",
            {"rewritten_manifests_count": 0, "added_manifests_count": 0, "considered_manifests_count": 1},
        ),
        (
            Action.EXPIRE_SNAPSHOTS,
            "Nothing to do: 1 snapshot, none of them due to expire",
            {"expired_snapshots_count": 0, "expired_refs_count": 0, "kept_snapshots_count": 1},
        ),
        (
            Action.REMOVE_ORPHAN_FILES,
            "Nothing to do: 5 files in the storage, none of them an orphan that is old enough",
            {"planned_files_count": 0, "removed_files_count": 0, "considered_files_count": 5},
        ),
    ):
        result = run(action)
        assert isinstance(result, ActionResult), action
        assert (result.outcome, result.success, result.message) == (ActionOutcome.SKIPPED, True, message)
        assert (result.metrics, result.change) == (metrics, None)
        assert run(action, only_if_needed=False) == SPARK_STARTS, action


def test_an_empty_table_has_nothing_to_do(flights: Flights, run: Run) -> None:
    flights()
    for action in Action:
        result = run(action)
        assert isinstance(result, ActionResult), action
        assert result.outcome is ActionOutcome.SKIPPED


def test_spark_starts_for_what_metadata_cannot_show_and_for_what_spark_refuses(flights: Flights, run: Run) -> None:
    table = flights(1)
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "a_tag").commit()

    assert run(Action.REMOVE_ORPHAN_FILES, prefix_mismatch_mode="ignore") == SPARK_STARTS
    assert run(Action.REMOVE_ORPHAN_FILES, equal_schemes={"s3a": "s3"}) == SPARK_STARTS
    assert run(Action.REWRITE_DATA_FILES, remove_dangling_deletes=True) == SPARK_STARTS
    assert run(Action.REWRITE_MANIFESTS, sort_by=["month"]) == SPARK_STARTS
    assert run(Action.EXPIRE_SNAPSHOTS, clean_expired_metadata=True) == SPARK_STARTS
    assert run(Action.REWRITE_DATA_FILES, branch="gone") == SPARK_STARTS
    assert run(Action.REWRITE_DATA_FILES, branch="a_tag") == SPARK_STARTS
    assert run(Action.REWRITE_MANIFESTS, spec_id=7) == SPARK_STARTS
    assert isinstance(run(Action.REWRITE_DATA_FILES, branch="main"), ActionResult)


def test_spark_starts_when_there_is_something_to_do(flights: Flights, run: Run) -> None:
    flights(*[1] * 5)

    assert run(Action.REWRITE_DATA_FILES) == SPARK_STARTS
    assert run(Action.REWRITE_DATA_FILES, rewrite_all=True, min_input_files=100) == SPARK_STARTS
    assert run(Action.REWRITE_MANIFESTS) == SPARK_STARTS
    assert run(Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6)) == SPARK_STARTS


def test_spark_starts_for_an_orphan_that_is_old_enough(flights: Flights, run: Run) -> None:
    folder = flights(1).location().removeprefix("file://")
    Path(folder, "data", "stray.parquet").write_text("stray")

    assert isinstance(run(Action.REMOVE_ORPHAN_FILES), ActionResult)
    assert run(Action.REMOVE_ORPHAN_FILES, later=timedelta(days=4)) == SPARK_STARTS
    assert isinstance(run(Action.REMOVE_ORPHAN_FILES, later=timedelta(days=4), location=f"{folder}/metadata"), ActionResult)


def test_the_storage_of_a_large_table_is_left_to_spark(flights: Flights, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flights(1, 2)
    for limit in ("MOST_FILES", "MOST_SNAPSHOTS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"airflow_snowpack.maintenance.actions.remove_orphan_files.{limit}", 1)
            assert run(Action.REMOVE_ORPHAN_FILES) == SPARK_STARTS
    assert isinstance(run(Action.REMOVE_ORPHAN_FILES), ActionResult)


def test_a_branch_that_is_past_its_own_age_is_something_to_do(flights: Flights, run: Run) -> None:
    table = flights(1)
    table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "short", max_ref_age_ms=86_400_000).commit()

    assert isinstance(run(Action.EXPIRE_SNAPSHOTS, retain_last=3), ActionResult)
    assert run(Action.EXPIRE_SNAPSHOTS, retain_last=3, later=timedelta(days=2)) == SPARK_STARTS


def test_what_the_tables_properties_forbid_is_skipped_with_the_property_as_the_reason(flights: Flights, run: Run) -> None:
    table = flights(1, 1, 1, 1, 1, 1)
    for properties, forbidden in (
        ({"gc.enabled": "false"}, {Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES}),
        ({"gc.enabled": "flase"}, {Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES}),
        ({"history.expire.max-snapshot-age-ms": "a week"}, {Action.EXPIRE_SNAPSHOTS}),
        ({"history.expire.min-snapshots-to-keep": "-1"}, {Action.EXPIRE_SNAPSHOTS}),
        ({"history.expire.max-ref-age-ms": "9" * 5000}, {Action.EXPIRE_SNAPSHOTS}),
        ({"write.target-file-size-bytes": "128 MiB"}, {Action.REWRITE_DATA_FILES}),
        ({"write.delete.target-file-size-bytes": "9" * 30}, {Action.REWRITE_POSITION_DELETE_FILES}),
        ({"commit.manifest.target-size-bytes": "0"}, {Action.REWRITE_MANIFESTS}),
    ):
        (name,) = properties
        with table.transaction() as transaction:
            transaction.set_properties(properties)
        found = {action: run(action, max_age="0m") if action is Action.EXPIRE_SNAPSHOTS else run(action) for action in Action}
        with table.transaction() as transaction:
            transaction.remove_properties(name)

        results = {action: each for action, each in found.items() if isinstance(each, ActionResult)}
        assert {action for action, each in results.items() if each.message.startswith("Skipped: ")} == forbidden, properties
        for action in forbidden:
            assert results[action].outcome is ActionOutcome.SKIPPED
            assert name in results[action].message


def test_sizes_that_do_not_fit_the_target_of_the_table_fail_the_job_for_good_without_spark(flights: Flights, run: Run) -> None:
    flights(1, 1, properties={"write.target-file-size-bytes": "1000"})

    result = run(Action.REWRITE_DATA_FILES, min_file_size_bytes=2000)

    assert isinstance(result, ActionResult)
    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert "is 1000 by the table property write.target-file-size-bytes" in str(result.error)


def test_a_predicate_is_left_to_spark_unless_the_whole_table_has_nothing_to_do(flights: Flights, run: Run) -> None:
    flights(*[1] * 5, 2)

    assert run(Action.REWRITE_DATA_FILES, where="month = 2") == SPARK_STARTS
    assert isinstance(run(Action.REWRITE_DATA_FILES, where="month = 2", min_input_files=6), ActionResult)
    assert isinstance(run(Action.REWRITE_DATA_FILES, where="hour(ts) = 2", min_input_files=6), ActionResult)


def test_a_plan_that_fails_leaves_the_action_to_spark(flights: Flights, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    snapshot = flights(1).current_snapshot()
    assert snapshot is not None
    os.remove(snapshot.manifest_list.removeprefix("file://"))

    assert run(Action.REWRITE_DATA_FILES) == SPARK_STARTS
    assert "plan_failed: Spark runs rewrite_data_files on lake.db.flights without a plan" in caplog.text


def test_a_table_that_is_gone_ends_the_action_without_spark(flights: Flights, catalog: Catalog, run: Run) -> None:
    flights(1)
    catalog.drop_table("db.flights")

    result = run(Action.REWRITE_DATA_FILES)

    assert isinstance(result, ActionResult)
    assert (result.outcome, result.message) == (ActionOutcome.FAILED, "Failed before anything was done")
    assert "db.flights" in (result.error or "")


def test_an_interrupted_engine_neither_skips_nor_starts_spark(flights: Flights, catalog: Catalog) -> None:
    flights(1)

    def interrupted_meanwhile() -> Catalog:
        engine.interrupt()
        return catalog

    engine = SparkEngine(lambda: pytest.fail("Spark starts"), interrupted_meanwhile)

    assert engine.run(job({}), Action.REWRITE_DATA_FILES).outcome is ActionOutcome.INTERRUPTED


def test_a_job_for_another_table_of_this_name_does_nothing(flights: Flights, catalog: Catalog) -> None:
    wanted = str(flights(1).metadata.table_uuid)
    engine = SparkEngine(lambda: pytest.fail("Spark starts"), lambda: catalog)
    assert engine.run(job({}), Action.REWRITE_DATA_FILES).outcome is ActionOutcome.SKIPPED
    catalog.drop_table("db.flights")
    flights(*[1] * 9)

    assert "was dropped and created again" in str(engine.run(job({}), Action.EXPIRE_SNAPSHOTS).error), "that of the first action"
    for only_if_needed in (True, False):
        submitted = job({Action.REWRITE_DATA_FILES: {"only_if_needed": only_if_needed}})
        for known in (replace(submitted, table_uuid=wanted), replace(submitted, plan={"table_uuid": wanted})):
            engine = SparkEngine(lambda: pytest.fail("Spark starts"), lambda: catalog)
            result = engine.run(known, Action.REWRITE_DATA_FILES)
            assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
            assert str(result.error).startswith("The job is for another table of this name: db.flights was dropped")


def test_a_table_that_is_replaced_while_an_action_runs_is_the_reason_why_it_failed(flights: Flights, catalog: Catalog) -> None:
    flights(*[1] * 9)

    def replace_table() -> Any:
        catalog.drop_table("db.flights")
        flights(1)
        raise SparkFailed("Table UUID does not match: current=… != refreshed=…")

    result = SparkEngine(replace_table, lambda: catalog).run(job({}), Action.REWRITE_DATA_FILES)

    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert str(result.error).startswith("The job is for another table of this name: db.flights was dropped")


def test_the_actions_of_a_job_open_each_manifest_once(
    flights: Flights, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights(1, 2, 3)
    opened: Counter[str] = Counter()
    really = PyArrowFileIO.new_input

    def count(self: PyArrowFileIO, location: str) -> InputFile:
        opened[Path(location).suffix] += 1
        return really(self, location)

    # By then every file is old enough to be an orphan, so that all snapshots are read for what they name.
    later = datetime.now(UTC) + timedelta(days=4)
    engine = SparkEngine(lambda: pytest.fail("Spark starts"), lambda: catalog, now=lambda: later)
    monkeypatch.setattr(PyArrowFileIO, "new_input", count)
    for action in (action for action in Action if action is not Action.REWRITE_MANIFESTS):
        assert engine.run(job({}), action).outcome is ActionOutcome.SKIPPED

    assert opened == {".json": 4, ".avro": 3 + 3}, "the metadata for each action, three manifest lists, three manifests"


def test_no_part_of_files_that_have_nothing_to_do_has_something_to_do() -> None:
    """However Spark groups the files, and whatever it selects of them."""
    draw, skipped = random.Random(13), 0
    for _ in range(300):
        sizes = [draw.choice([5, 40, 90, 100, 170, 200]) for _ in range(draw.randint(1, 6))]
        files = [LiveFile(f"f{number}", size, 10, 0, (draw.randint(1, 2),), 1) for number, size in enumerate(sizes)]
        options = RewriteDataFiles(target_file_size_bytes=100, min_input_files=draw.randint(1, 5))
        if skipped_by_metadata(options, Snapshot(files)) is None:
            continue
        skipped += 1
        for _ in range(20):
            part = draw.sample(files, draw.randint(0, len(files)))
            limit = draw.choice([1, 50, 100, 150, 10_000])
            limited = RewriteDataFiles(
                target_file_size_bytes=100,
                min_input_files=options.min_input_files,
                max_file_group_size_bytes=limit,
                max_file_group_input_files=draw.choice([None, 1, 3]),
            )
            assert data_file_groups(TableFiles(tuple(part)), limited, BY_MONTH) == []
    assert skipped > 50


@pytest.mark.parametrize(
    ("partitions", "format_version", "is_skipped"),
    [
        ([(0, (3,))] * 4, 2, True),
        ([(0, (3,))] * 2 + [(0, (4,))] * 4, 2, True),
        ([(0, (3,))] * 2 + [(1, (3, None))] * 3, 2, False),
        ([(0, (3,))], 3, False),
    ],
    ids=["too few", "too few in each partition", "perhaps one partition of two specs", "perhaps rewritten as vectors"],
)
def test_position_deletes_are_left_to_spark_where_it_may_group_them_otherwise(
    partitions: list[tuple[int, tuple[Any, ...]]], format_version: int, is_skipped: bool
) -> None:
    deletes = [
        LiveDelete(f"d{number}", 10, 1, spec_id, partition, 1, DeleteKind.POSITION)
        for number, (spec_id, partition) in enumerate(partitions)
    ]
    skip = skipped_by_metadata(RewritePositionDeleteFiles(), Snapshot([], deletes, format_version))
    assert (skip is not None) is is_skipped


def skipped_by_metadata(options: ActionOptions, of: Any, catalog: Any = None) -> ActionEffect | None:
    return options.nothing_to_do(PlanningContext(of, catalog, datetime.now(UTC)))


class Snapshot:
    """What the planner reads of a table, with these files."""

    properties: ClassVar[dict[str, str]] = {}

    def __init__(self, files: Sequence[LiveFile], deletes: Sequence[LiveDelete] = (), format_version: int = 2) -> None:
        self._files = TableFiles(tuple(files), tuple(deletes))
        self.format_version = format_version
        self.table = self

    def spec(self) -> Any:
        return BY_MONTH

    def files(self, _branch: str | None = None) -> TableFiles:
        return self._files


def test_a_request_says_it_for_all_its_actions() -> None:
    asked = ["rewrite_data_files", "expire_snapshots"]
    own = {"expire_snapshots": {"only_if_needed": True}}

    def said(**request: Any) -> Any:
        return MaintenanceRequest.parse("db.flights", asked, catalog="lake", **request).options

    assert said() == {}
    assert said(only_if_needed=True) == {}
    assert said(only_if_needed=False) == {action: {"only_if_needed": False} for action in asked}
    assert said(only_if_needed=False, options=own) == {"rewrite_data_files": {"only_if_needed": False}, **own}
    assert not parse_options(Action.EXPIRE_SNAPSHOTS, {"only_if_needed": "false"}).only_if_needed


def test_a_rewrite_of_a_single_file_group_goes_without_partial_progress(flights: Flights) -> None:
    table, options = flights(1, 1, 2), RewriteDataFiles(min_input_files=2)

    one = options.for_groups_of(MetadataReader(table))

    assert one == replace(options, partial_progress=False)
    assert one.procedure_options()["partial-progress.enabled"] == "false"
    assert options.for_groups_of(None) is options, "that of a table that was not read does not"
    table.append(pa.table({"month": pa.array([2], pa.int64()), "carrier": ["UA"]}))
    assert options.for_groups_of(MetadataReader(table)) is options, "nor that of several file groups"
    snapshot = table.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    assert options.for_groups_of(MetadataReader(table)) is options


def test_a_partition_spec_that_the_table_does_not_have_is_refused(flights: Flights) -> None:
    table = flights()
    for action, option in ((Action.REWRITE_DATA_FILES, "output_spec_id"), (Action.REWRITE_MANIFESTS, "spec_id")):
        check_against(table, "a.t", {action: {option: table.spec().spec_id}})
        with pytest.raises(InvalidOption, match=f"'{option}' of {action} names 7, and a.t has no such partition spec"):
            check_against(table, "a.t", {action: {option: 7}})
