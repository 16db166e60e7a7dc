"""What a dry run says: from metadata, in the numbers of the real thing."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from clocks import ShiftedClock
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from airflow_snowpack.iceberg import TableUnreadable
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import PlanningContext
from airflow_snowpack.maintenance.expiry import plan_expiry
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.plan import plan_action, reader_for
from airflow_snowpack.maintenance.submit import MaintenanceRequest, plan_request
from airflow_snowpack.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table

    Flights = Callable[..., Table]
    Plan = Callable[..., ActionResult]

NOW, DAY = datetime(2026, 11, 23, tzinfo=UTC), timedelta(days=1)


class CountedSnapshots(list[Snapshot]):
    """Counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Snapshot]:
        self.times += 1
        return super().__iter__()


@pytest.fixture
def plan(catalog: Catalog) -> Plan:
    def make(table: Table, action: Action, *, later: timedelta = timedelta(0), **options: Any) -> ActionResult:
        now = datetime.now(UTC) + later
        parsed = parse_options(action, options)
        return plan_action(parsed, PlanningContext(reader_for(table, [parsed]), catalog, now))

    return make


def litter(table: Table, text: str = "12345") -> None:
    file = Path(table.location().removeprefix("file://")) / "data" / "stray.parquet"
    file.write_text(text)


def test_compaction_is_told_per_partition(flights: Flights, plan: Plan) -> None:
    table = flights(*[1] * 6, *[2] * 5, 3)

    result = plan(table, Action.REWRITE_DATA_FILES)

    assert result.message == "Would compact 11 files into 2"
    assert result.success
    assert result.metrics["rewritten_data_files_count"] == 11
    assert result.metrics["added_data_files_count"] == 2
    assert result.metrics["file_groups_count"] == 2


def test_a_table_without_a_snapshot_needs_nothing(flights: Flights, plan: Plan) -> None:
    table = flights()

    messages = [plan(table, action).message for action in Action]

    assert messages == [
        "Would compact no files",
        "Would compact no delete files",
        "Would rewrite no manifests",
        "Would expire none of 0 snapshots",
        "Would remove no orphan files",
    ]


def test_a_predicate_narrows_the_plan_where_metadata_can_tell_what_it_selects(flights: Flights, plan: Plan) -> None:
    table = flights(*[1] * 5, 2)

    for where in ("month = 1", "MONTH < 2"):  # the second is read as Spark reads names
        result = plan(table, Action.REWRITE_DATA_FILES, where=where)
        assert (result.message, result.metrics["considered_data_files_count"]) == ("Would compact 5 files into 1", 5)
    result = plan(table, Action.REWRITE_DATA_FILES, where="MONTH >= 2")
    assert (result.message, result.metrics["considered_data_files_count"]) == ("Would compact no files", 1)
    for where in ("hour(ts) = 3", "nothing = 1", "month = DATE '2013-01-01'", "month ="):
        message = plan(table, Action.REWRITE_DATA_FILES, where=where).message
        assert message.startswith("Would compact 5 files into 1; the predicate ")
        assert "cannot be evaluated from metadata" in message
        assert message.endswith("so this counts the whole table")


def test_many_manifests_become_one(flights: Flights, plan: Plan) -> None:
    single = flights(1, name="single")
    assert plan(single, Action.REWRITE_MANIFESTS).message == "Would rewrite no manifests"
    assert plan(single, Action.REWRITE_DATA_FILES).message == "Would compact no files"
    table = flights(1, 2, 3)
    assert plan(table, Action.REWRITE_MANIFESTS).message == "Would rewrite 3 manifests into 1"
    assert plan(table, Action.REWRITE_MANIFESTS, spec_id=5).message == "Would rewrite no manifests", "of another spec"


def test_the_table_says_how_large_a_manifest_should_be(flights: Flights, plan: Plan) -> None:
    table = flights(1, 2, 3, properties={"commit.manifest.target-size-bytes": "6000"})

    metrics = plan(table, Action.REWRITE_MANIFESTS).metrics

    assert metrics["rewritten_manifests_count"] == 3
    assert 1 < metrics["added_manifests_count"] <= 3


def test_young_snapshots_stay_and_old_ones_go_but_for_the_last_ones_and_those_that_a_tag_or_a_branch_needs(
    flights: Flights, plan: Plan
) -> None:
    table = flights(1, 2, 3, 4, 5)
    result = plan(table, Action.EXPIRE_SNAPSHOTS)
    assert result.message == "Would expire none of 5 snapshots"
    assert result.metrics["kept_snapshots_count"] == 5

    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6))
    assert result.metrics["expired_snapshots_count"] == 2
    assert result.metrics["deleted_manifest_lists_count"] == 2
    assert result.metrics["deleted_data_files_count"] == 0
    assert result.message == "Would expire 2 of 5 snapshots and delete 2 files"

    first, second = table.metadata.snapshots[:2]
    table.manage_snapshots().create_tag(first.snapshot_id, "audit").create_branch(second.snapshot_id, "try").commit()
    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)
    # The tag and the branch keep their own, main keeps its last.
    assert result.metrics["kept_snapshots_count"] == 3


def test_files_that_only_expired_snapshots_use_are_counted(flights: Flights, plan: Plan) -> None:
    table = flights(1, 1, 1)
    table.overwrite(pa.table({"month": pa.array([9], pa.int64()), "carrier": ["UA"]}))

    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    assert result.metrics["deleted_data_files_count"] == 3
    assert result.metrics["deleted_manifest_files_count"] >= 3


def test_a_branch_has_an_age_and_a_number_of_snapshots_of_its_own(flights: Flights, plan: Plan) -> None:
    table = flights(1, 2, 3, 4)
    first, *_, last = (each.snapshot_id for each in table.metadata.snapshots)
    table.manage_snapshots().create_tag(first, "short", max_ref_age_ms=86_400_000).commit()

    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    assert result.metrics["expired_refs_count"] == 1
    assert result.metrics["kept_snapshots_count"] == 1

    table.manage_snapshots().create_branch(last, "history", min_snapshots_to_keep=4).commit()
    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)
    assert result.metrics["kept_snapshots_count"] == 4

    table.manage_snapshots().remove_tag("short").remove_branch("history").commit()
    table.manage_snapshots().create_branch(last, "main", max_snapshot_age_ms=1).commit()
    result = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), snapshot_ids=[first])
    found = (result.metrics["expired_snapshots_count"], result.metrics["kept_snapshots_count"])
    assert found == (1, 3), "the age that a branch sets lets no snapshot expire beside the named ones"


def test_ten_thousand_snapshots_are_not_gone_through_for_each_of_them() -> None:
    now = int(NOW.timestamp() * 1000)
    snapshots = [
        Snapshot.model_validate({"snapshot-id": each, "parent-snapshot-id": each - 1, "timestamp-ms": now, "manifest-list": "m"})
        for each in range(1, 10_001)
    ]
    table = {
        "format-version": 2,
        "location": "file:///t",
        "last-column-id": 1,
        "schemas": [Schema()],
        "partition-specs": [{"spec-id": 0, "fields": []}],
    }
    refs = {"main": {"snapshot-id": 10_000, "type": "branch"}}
    metadata = TableMetadataV2.model_validate({**table, "refs": refs, "last-updated-ms": now, "last-sequence-number": 1})
    counted = CountedSnapshots(snapshots)

    expiry = plan_expiry(metadata.model_copy(update={"snapshots": counted}), older_than=NOW + DAY, retain_last=3, now=NOW)

    assert [each.snapshot_id for each in expiry.kept] == [9_998, 9_999, 10_000]
    assert counted.times < 10


def test_orphans_are_told_with_their_bytes(flights: Flights, plan: Plan) -> None:
    table = flights(1, 2)
    litter(table)

    result = plan(table, Action.REMOVE_ORPHAN_FILES, later=timedelta(days=4))

    assert result.message == "Would remove 1 orphan file of 5 bytes"
    assert result.metrics == {"planned_files_count": 1, "planned_bytes_count": 5}


def test_orphans_of_a_shared_location_and_a_location_outside_the_table_would_be_refused(flights: Flights, plan: Plan) -> None:
    table = flights(1)
    outside = plan(table, Action.REMOVE_ORPHAN_FILES, location=str(Path(table.location()).parent))
    assert not outside.success
    assert "is not inside the location of table" in outside.message
    flights(1, name="twin", location=table.location())

    result = plan(table, Action.REMOVE_ORPHAN_FILES, later=timedelta(days=4))

    assert result.outcome is ActionOutcome.FAILED
    assert result.message.startswith("Would be refused: other tables keep files where this one does")
    assert "db.twin" in (result.error or "")


def test_what_a_table_that_must_not_lose_files_forbids_would_be_skipped(flights: Flights, plan: Plan) -> None:
    table = flights(1, properties={"gc.enabled": "false"})
    for action in (Action.EXPIRE_SNAPSHOTS, Action.REMOVE_ORPHAN_FILES):
        result = plan(table, action)
        assert result.outcome is ActionOutcome.SKIPPED
        assert "gc.enabled is false" in result.message


def test_a_table_whose_manifests_are_gone_says_so(flights: Flights, plan: Plan) -> None:
    table = flights(1)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    os.remove(snapshot.manifest_list.removeprefix("file://"))

    with pytest.raises(TableUnreadable, match=r"metadata of table 'db\.flights' cannot be read"):
        plan(table, Action.REWRITE_DATA_FILES)


def test_a_plan_writes_nothing(flights: Flights, plan: Plan) -> None:
    table = flights(*[1] * 6)
    litter(table)
    folder = Path(table.location().removeprefix("file://"))
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}

    for action in Action:
        plan(table, action, later=timedelta(days=9))

    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often PyIceberg opened each file, by the file's name."""
    counter: Counter[str] = Counter()
    really = PyArrowFileIO.new_input

    def count(self: PyArrowFileIO, location: str) -> InputFile:
        counter[Path(location).name] += 1
        return really(self, location)

    monkeypatch.setattr(PyArrowFileIO, "new_input", count)
    return counter


def test_a_dry_run_of_all_actions_opens_each_metadata_file_once(
    flights: Flights, catalog: Catalog, opened: Counter[str], sqlite_url: str
) -> None:
    table = flights(*[1] * 3, *[2] * 3)
    table.delete("month = 1")
    litter(table)
    manifests = {Path(each.manifest_path).name for snapshot in table.snapshots() for each in snapshot.manifests(table.io)}
    lists = {Path(snapshot.manifest_list).name for snapshot in table.snapshots()}
    options = {"expire_snapshots": {"max_age": "PT0S", "retain_last": 1}}

    with open_store(sqlite_url, clock=ShiftedClock(timedelta(days=4))) as store:
        for where in (None, "month = 2"):
            request = MaintenanceRequest.parse("db.flights", list(Action), catalog="lake", where=where, options=options)
            opened.clear()
            results = plan_request(Jobs(store), catalog, request)

            numbers = {key: value for result in results for key, value in result.metrics.items()}
            assert numbers["expired_snapshots_count"] == 6
            assert numbers["planned_files_count"] == 1
            assert {name: opened[name] for name in manifests | lists} == dict.fromkeys(manifests | lists, 1)


def test_a_table_of_the_first_format_version_is_planned_the_same(flights: Flights, plan: Plan) -> None:
    table = flights(*[1] * 5, properties={"format-version": "1"})
    assert plan(table, Action.REWRITE_DATA_FILES).message == "Would compact 5 files into 1"
    table.overwrite(pa.table({"month": pa.array([9], pa.int64()), "carrier": ["UA"]}))

    expiry = plan(table, Action.EXPIRE_SNAPSHOTS, later=timedelta(days=6), retain_last=1)

    assert plan(table, Action.REWRITE_MANIFESTS).success
    assert expiry.metrics["deleted_data_files_count"] == 5
