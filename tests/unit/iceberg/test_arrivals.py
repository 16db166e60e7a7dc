"""What arrives is read from the snapshots themselves: each one once, and only what added data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from counted_reads import counted_reads
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType
from scripted_engine import eventually

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.arrivals import EXPIRED, HistoryPlace, head_of, read_arrivals
from airflow_snowpack.iceberg.gains import ROW_ID

if TYPE_CHECKING:
    from pyiceberg.table import Table

START = HistoryPlace(None, 0, None)


@pytest.fixture(params=["1", "2"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return new_table(tmp_path, request.param)


def new_table(tmp_path: Path, version: str) -> Table:
    catalog = CatalogConfig.embedded(tmp_path).load()
    catalog.create_namespace("web")
    schema = Schema(NestedField(1, "day", StringType()), NestedField(2, "n", IntegerType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
    properties = {"format-version": version}
    return catalog.create_table(("web", "views"), schema, partition_spec=spec, properties=properties)


def made_again(table: Table) -> Table:
    """Another table of the same name and kind."""
    catalog, properties = table.catalog, {"format-version": str(table.format_version)}
    catalog.drop_table(table.name())
    return catalog.create_table(table.name(), table.schema(), partition_spec=table.spec(), properties=properties)


def rows(*days: str) -> Any:
    return pa.table({"day": pa.array(days, pa.string()), "n": pa.array([1] * len(days), pa.int32())})


def numbers(**days: list[int]) -> Any:
    pairs = [(day, n) for day, ns in days.items() for n in ns]
    return pa.table({"day": pa.array([day for day, _ in pairs], pa.string()), "n": pa.array([n for _, n in pairs], pa.int32())})


@pytest.fixture
def numbered(tmp_path: Path) -> Table:
    """A table of format version 2, whose commits have sequence numbers."""
    return new_table(tmp_path, "2")


def expire_all_but_the_head(table: Table) -> None:
    kept = table.metadata.current_snapshot_id
    gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != kept]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    table.refresh()


class Compaction(_OverwriteFiles):
    """PyIceberg cannot compact: an overwrite that says so."""

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(Operation.REPLACE, **summary.additional_properties)


def compact(table: Table) -> None:
    """Write each partition into one file."""
    old, content = [task.file for task in table.scan().plan_files()], table.scan().to_arrow()
    with table.transaction() as transaction:
        new = list(_dataframe_to_data_files(transaction.table_metadata, content, table.io))
        with Compaction(operation=Operation.OVERWRITE, transaction=transaction, io=table.io) as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in new:
                snapshot.append_data_file(file)


def replace_files(
    table: Table, content: Any, properties: dict[str, str] | None = None, *, without_row_id: dict[str, int] | None = None
) -> None:
    """One commit that removes all files of the table and adds others, as copy-on-write does.

    :param without_row_id: how many rows of the new files have no row id yet, by day, as the metrics of format version 3 have it.
    """
    old = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction:
        new = list(_dataframe_to_data_files(transaction.table_metadata, content, table.io))
        for file in new:
            if without_row_id is not None and file.partition[0] in without_row_id:
                file.null_value_counts[ROW_ID] = without_row_id[file.partition[0]]
        with transaction.update_snapshot(snapshot_properties=properties or {}).overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for file in new:
                snapshot.append_data_file(file)


def test_a_commit_tells_its_partitions_files_records_and_bytes(table: Table) -> None:
    table.append(rows("mon", "tue", "tue"))

    (arrival,) = read_arrivals(table, START).new
    assert arrival.partitions == ("day=mon", "day=tue")
    assert (arrival.partition_count, arrival.files, arrival.records) == (2, 2, 3)
    assert arrival.bytes == sum(task.file.file_size_in_bytes for task in table.scan().plan_files())


def test_each_snapshot_is_read_once_and_in_order(table: Table) -> None:
    table.append(rows("mon"))
    place = head_of(table)
    table.append(rows("tue"))
    table.append(rows("wed"))

    found = read_arrivals(table, place)
    assert [arrival.partitions for arrival in found.new] == [("day=tue",), ("day=wed",)]
    assert found.expired == 0
    assert read_arrivals(table, found.head).new == ()


def test_a_commit_that_only_deletes_is_no_arrival(table: Table) -> None:
    table.append(rows("mon", "tue"))
    place = head_of(table)
    table.delete("day = 'mon'")

    found = read_arrivals(table, place)
    assert found.new == ()
    assert found.head.snapshot_id == table.metadata.current_snapshot_id


def test_a_copy_on_write_delete_is_no_arrival(table: Table) -> None:
    """It writes the rows that stay into a new file."""
    table.append(numbers(mon=[1, 2, 3]))
    place = head_of(table)
    table.delete("n = 2")
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    assert newest.summary.operation.value == "overwrite"
    assert read_arrivals(table, place).new == ()


def test_an_update_is_no_arrival_and_a_merge_is_one_of_the_rows_that_it_inserts(table: Table) -> None:
    table.append(numbers(mon=[1, 2, 3], tue=[4]))
    place = head_of(table)
    replace_files(table, numbers(mon=[1, 2, 9], tue=[4]))
    assert read_arrivals(table, place).new == ()

    replace_files(table, numbers(mon=[1, 2, 9, 10, 11], tue=[5]))
    (merged,) = read_arrivals(table, place).new
    assert (merged.partitions, merged.files, merged.records) == (("day=mon",), 0, 2)
    assert merged.bytes < 500


def test_where_rows_keep_their_ids_a_merge_that_deletes_one_row_and_inserts_one_brings_one(table: Table) -> None:
    table.append(numbers(mon=[1, 2, 3], tue=[4]))
    place = head_of(table)
    replace_files(table, numbers(mon=[1, 2, 9], tue=[4]), without_row_id={"mon": 1, "tue": 0})
    (merged,) = read_arrivals(table, place).new
    assert (merged.partitions, merged.files, merged.records) == (("day=mon",), 1, 1)
    assert 0 < merged.bytes < sum(task.file.file_size_in_bytes for task in table.scan().plan_files()) / 2

    place = head_of(table)
    replace_files(table, numbers(tue=[1], wed=[2, 4, 9]), without_row_id={"tue": 0, "wed": 0})
    assert read_arrivals(table, place).new == (), "rows that move to another partition are not new"


def test_a_partition_with_a_file_that_does_not_tell_its_row_ids_gets_its_net_gain(table: Table) -> None:
    table.append(numbers(mon=[1, 2, 3], tue=[4]))
    place = head_of(table)
    replace_files(table, numbers(mon=[1, 2, 9], tue=[5, 6]), without_row_id={"mon": 1})
    (merged,) = read_arrivals(table, place).new
    assert (merged.partitions, merged.records) == (("day=mon", "day=tue"), 2)


def test_changes_are_all_but_rewrites_with_what_they_added_or_removed(table: Table) -> None:
    def changed() -> list[tuple[Any, ...]]:
        nonlocal place
        found = read_arrivals(table, place)
        place = found.head
        return [(change.operation, change.partitions, change.files, change.records) for change in found.changes]

    place = head_of(table)
    table.append(numbers(mon=[1, 2, 3], tue=[4]))
    assert changed() == [("append", ("day=mon", "day=tue"), 2, 4)]
    replace_files(table, numbers(mon=[1, 2, 9]))
    assert changed() == [("overwrite", ("day=mon", "day=tue"), 2, 4)]
    compact(table)
    assert changed() == []
    table.delete("day = 'mon'")
    assert changed() == [("delete", ("day=mon",), 1, 3)]


def test_a_partition_from_which_nothing_was_removed_gets_all_that_an_overwrite_adds(table: Table) -> None:
    table.append(numbers(mon=[1, 2, 3]))
    place = head_of(table)
    replace_files(table, numbers(mon=[1], sun=[7, 8]))
    (arrival,) = read_arrivals(table, place).new
    assert (arrival.partitions, arrival.files, arrival.records) == (("day=sun",), 1, 2)


def test_an_overwrite_of_whole_partitions_brings_all_that_it_writes(table: Table) -> None:
    """Spark's INSERT OVERWRITE in dynamic mode: what it writes was not there before, however much that is."""
    table.append(numbers(mon=[1, 2, 3]))
    place = head_of(table)
    replace_files(table, numbers(mon=[7, 8]), {"replace-partitions": "true"})
    (arrival,) = read_arrivals(table, place).new
    assert (arrival.partitions, arrival.files, arrival.records) == (("day=mon",), 1, 2)


def test_rows_that_move_to_partitions_of_another_spec_are_no_arrival(table: Table) -> None:
    table.append(numbers(mon=[1, 2, 3]))
    place = head_of(table)
    with table.update_spec() as spec:
        spec.add_field("n", IdentityTransform(), "n")
    table.refresh()
    replace_files(table, numbers(mon=[1, 2]))
    assert read_arrivals(table, place).new == ()

    replace_files(table, numbers(mon=[1, 2, 3, 4]))
    assert [arrival.records for arrival in read_arrivals(table, place).new] == [2]


def test_what_an_overwrite_adds_arrives(table: Table) -> None:
    table.append(rows("mon"))
    place = head_of(table)
    table.overwrite(rows("mon", "sun"))

    assert {name for arrival in read_arrivals(table, place).new for name in arrival.partitions} == {"day=mon", "day=sun"}


def test_snapshots_that_were_expired_unread_arrive_all_the_same(table: Table) -> None:
    table.append(rows("mon"))
    place = head_of(table)
    for day in ("tue", "wed", "thu"):
        table.append(rows(day))
    expire_all_but_the_head(table)

    found = read_arrivals(table, place)
    if table.format_version == 1:  # it has no numbers to tell them by
        assert ([arrival.partitions for arrival in found.new], found.expired) == ([("day=thu",)], 0)
        return
    assert [arrival.partitions for arrival in found.new] == [("day=tue",), ("day=wed",), ("day=thu",)]
    assert [arrival.operation for arrival in found.new] == [EXPIRED, EXPIRED, "append"]
    assert all((arrival.files, arrival.records) == (1, 1) for arrival in found.new)
    assert all(arrival.bytes > 0 for arrival in found.new)
    assert found.expired == 2
    assert [arrival.partitions for arrival in read_arrivals(table, found.new[0].place).new] == [("day=wed",), ("day=thu",)]
    assert read_arrivals(table, found.head).new == ()


def cherry_pick(table: Table, snapshot_id: int, content: Any) -> None:
    """PyIceberg cannot cherry-pick: an append with the same content that names its source as Iceberg does."""
    table.refresh().append(content, snapshot_properties={"source-snapshot-id": str(snapshot_id)})


@pytest.mark.parametrize("first", ["the cherry-pick", "its source"])
def test_a_snapshot_and_its_cherry_pick_arrive_once_whichever_main_is_set_to_first(table: Table, first: str) -> None:
    table.append(rows("mon"))
    base, place = table.metadata.current_snapshot_id, head_of(table)
    assert base is not None
    table.manage_snapshots().create_branch(base, "audit").commit()
    table.refresh().append(rows("tue"), branch="audit")
    source = table.refresh().metadata.refs["audit"].snapshot_id

    def publish(what: str) -> None:
        if what == "the cherry-pick":
            cherry_pick(table, source, rows("tue"))
        else:
            table.refresh().manage_snapshots().set_current_snapshot(snapshot_id=source).commit()
        table.refresh()

    arrived = []
    publish(first)
    for _ in range(2):
        found = read_arrivals(table, place)
        arrived += [arrival.partitions for arrival in found.new]
        place = found.head
        if first == "its source":
            table.manage_snapshots().rollback_to_snapshot(base).commit()
            place = read_arrivals(table.refresh(), place).head
        publish("its source" if first == "the cherry-pick" else "the cherry-pick")
    table.append(rows("wed"))
    arrived += [arrival.partitions for arrival in read_arrivals(table, place).new]
    assert arrived == [("day=tue",), ("day=wed",)]


def test_what_was_compacted_and_expired_unread_arrives_once(numbered: Table) -> None:
    """Two appends, a compaction and an expiry between two reads."""
    numbered.append(numbers(mon=[1, 2]))
    place = head_of(numbered)
    numbered.append(numbers(tue=[3]))
    numbered.append(numbers(mon=[4], wed=[5, 6]))
    compact(numbered)
    expire_all_but_the_head(numbered)

    found = read_arrivals(numbered, place)
    assert [(arrival.partitions, arrival.records) for arrival in found.new] == [(("day=tue",), 1), (("day=mon", "day=wed"), 3)]
    assert [arrival.snapshot_id for arrival in found.new] == [None, None]
    assert read_arrivals(numbered, found.new[0].place).new == found.new[1:]
    assert read_arrivals(numbered, found.head).new == ()


@pytest.mark.parametrize("fate", ["kept", "dropped"])
def test_the_snapshots_of_a_branch_do_not_count_as_expired_unread(numbered: Table, fate: str) -> None:
    numbered.append(numbers(mon=[1]))
    base, place = numbered.metadata.current_snapshot_id, head_of(numbered)
    assert base is not None
    numbered.manage_snapshots().create_branch(base, "trial").commit()
    for _ in range(2):
        numbered.refresh().append(numbers(tue=[2]), branch="trial")
    if fate == "dropped":
        numbered.manage_snapshots().remove_branch("trial").commit()
    for day in ("wed", "thu"):
        numbered.refresh().append(rows(day))
    head, branch = numbered.metadata.current_snapshot_id, {"kept": [2, 3], "dropped": []}[fate]
    gone = [
        one.snapshot_id for one in numbered.metadata.snapshots if one.sequence_number not in branch and one.snapshot_id != head
    ]
    numbered.maintenance.expire_snapshots().by_ids(gone).commit()

    found = read_arrivals(numbered.refresh(), place)
    assert [(arrival.operation, arrival.partitions) for arrival in found.new] == [
        (EXPIRED, ("day=wed",)),
        ("append", ("day=thu",)),
    ]
    assert found.expired == 1


def test_a_compaction_that_was_expired_unread_is_no_arrival(numbered: Table) -> None:
    numbered.append(numbers(mon=[1, 2]))
    numbered.append(numbers(mon=[3]))
    place = head_of(numbered)
    compact(numbered)
    compact(numbered)
    expire_all_but_the_head(numbered)

    found = read_arrivals(numbered, place)
    assert (found.new, found.expired) == ((), 1)


def test_an_append_and_a_compaction_that_were_expired_unread_bring_no_more_than_the_table_has_gained(numbered: Table) -> None:
    numbered.append(numbers(mon=list(range(50))))
    place = head_of(numbered)
    numbered.append(numbers(mon=[50]))
    compact(numbered)
    numbered.append(numbers(tue=[51]))
    expire_all_but_the_head(numbered)

    found = read_arrivals(numbered, place)
    assert [(arrival.partitions, arrival.records) for arrival in found.new] == [(("day=mon",), 1), (("day=tue",), 1)]


def test_a_table_that_was_empty_when_it_was_read_tells_what_was_expired_since(numbered: Table) -> None:
    place = read_arrivals(numbered, START).head
    numbered.append(numbers(mon=[1]))
    numbered.append(numbers(tue=[2]))
    expire_all_but_the_head(numbered)
    assert [arrival.partitions for arrival in read_arrivals(numbered, place).new] == [("day=mon",), ("day=tue",)]


def test_from_a_moment_on_nothing_counts_that_was_expired_before(numbered: Table) -> None:
    for day in ("mon", "tue", "wed"):
        numbered.append(rows(day))
    expire_all_but_the_head(numbered)
    committed = head_of(numbered).committed_at
    assert committed is not None
    found = read_arrivals(numbered, HistoryPlace.at(committed))
    assert ([arrival.partitions for arrival in found.new], found.expired) == ([("day=wed",)], 0)


def test_after_a_rollback_what_was_read_is_not_read_again(table: Table) -> None:
    table.append(rows("mon"))
    first = table.metadata.current_snapshot_id
    table.append(rows("tue"))
    place = head_of(table)
    assert first is not None
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.refresh()
    assert read_arrivals(table, place).new == ()

    table.append(rows("wed"))
    assert [arrival.partitions for arrival in read_arrivals(table, place).new] == [("day=wed",)]


def test_the_commits_of_a_branch_arrive_when_it_is_published_although_main_had_a_newer_commit(table: Table) -> None:
    """Write, audit, publish: the branch has lower sequence numbers than what was read and rolled back on main."""
    table.append(rows("mon"))
    base = table.metadata.current_snapshot_id
    assert base is not None
    table.manage_snapshots().create_branch(base, "audit").commit()
    table.refresh()
    table.append(rows("tue"), branch="audit")
    table.append(rows("wed"), branch="audit")
    table.append(rows("thu"))
    place = read_arrivals(table, START).head
    table.manage_snapshots().rollback_to_snapshot(base).commit()
    rolled_back = read_arrivals(table.refresh(), place)
    assert rolled_back.new == ()

    table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    for since in (place, rolled_back.head):
        found = read_arrivals(table.refresh(), since)
        assert [arrival.partitions for arrival in found.new] == [("day=tue",), ("day=wed",)]
        assert all(arrival.arrived_at > arrival.committed_at for arrival in found.new)
        assert found.expired == 0
        assert read_arrivals(table, found.head).new == ()
        assert read_arrivals(table, found.new[0].place).new[0].partitions == ("day=wed",)


def test_a_snapshot_that_was_read_before_a_rollback_is_not_read_again_when_main_returns_to_it(table: Table) -> None:
    table.append(rows("mon"))
    first = table.metadata.current_snapshot_id
    table.append(rows("tue"))
    second = table.metadata.current_snapshot_id
    assert first is not None
    place = read_arrivals(table, START).head
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows("wed"))
    found = read_arrivals(table, place)
    assert [arrival.partitions for arrival in found.new] == [("day=wed",)]

    table.manage_snapshots().set_current_snapshot(second).commit()
    again = read_arrivals(table.refresh(), found.head)
    assert again.new == ()
    table.append(rows("thu"))
    assert [arrival.partitions for arrival in read_arrivals(table, again.head).new] == [("day=thu",)]


def test_a_branch_that_is_published_after_a_moment_arrives_after_it_although_it_was_committed_before(table: Table) -> None:
    table.append(rows("mon"))
    base = table.metadata.current_snapshot_id
    assert base is not None
    table.manage_snapshots().create_branch(base, "audit").commit()
    table.refresh()
    table.append(rows("tue"), branch="audit")
    audited = table.snapshot_by_name("audit")
    assert audited is not None
    moment = datetime.fromtimestamp(audited.timestamp_ms / 1000 + 0.001, UTC)
    eventually(lambda: datetime.now(UTC) > moment + timedelta(milliseconds=1), PATIENCE_S)
    table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()

    found = read_arrivals(table.refresh(), HistoryPlace.at(moment))
    assert [arrival.partitions for arrival in found.new] == [("day=tue",)]
    assert found.new[0].arrived_at > moment


def test_from_a_moment_on_only_what_was_committed_since_arrives(table: Table) -> None:
    table.append(rows("mon"))
    committed = head_of(table).committed_at
    assert committed is not None

    assert len(read_arrivals(table, HistoryPlace.at(committed)).new) == 1
    assert read_arrivals(table, HistoryPlace.at(committed + timedelta(milliseconds=1))).new == ()


def test_an_empty_table_has_no_arrivals_and_a_place_to_start_from(table: Table) -> None:
    found = read_arrivals(table, START)
    assert (found.new, found.head) == ((), HistoryPlace(None, 0, None, str(table.metadata.table_uuid)))


def test_a_table_that_was_dropped_and_made_again_is_read_from_its_beginning(table: Table) -> None:
    for day in ("mon", "tue", "wed"):
        table.append(rows(day))
    place = head_of(table)
    another = made_again(table)

    empty = read_arrivals(another, place)
    assert (empty.new, empty.expired, empty.head) == ((), 0, head_of(another))
    another.append(rows("thu"))
    for since in (place, empty.head):
        found = read_arrivals(another, since)
        assert [arrival.partitions for arrival in found.new] == [("day=thu",)]
        assert found.expired == 0
        assert read_arrivals(another, found.head).new == ()


def test_manifests_of_a_snapshot_are_read_once_and_again_only_after_an_error(table: Table) -> None:
    table.append(rows("mon"))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = (Path(one.manifest_path.removeprefix("file://")) for one in snapshot.manifests(table.io))
    away = manifest.rename(manifest.with_suffix(".away"))
    with pytest.raises(FileNotFoundError):
        read_arrivals(table, START)

    away.rename(manifest)
    with counted_reads() as reads:
        found = [read_arrivals(table, START) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert [arrival.records for arrival in found[0].new] == [1]
    assert len(reads.manifests) == 1
