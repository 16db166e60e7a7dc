"""A table's numbers and its health, from metadata."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from counted_reads import counted_reads
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType, StructType

from airflow_snowpack.iceberg import HealthBounds, MetadataReader, TableNumbers, TableUnreadable, read_health, read_numbers
from airflow_snowpack.iceberg.health.numbers import _from_manifests
from airflow_snowpack.iceberg.health.snapshots import read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    Flights = Callable[..., Table]


def committed_at(table: Table) -> datetime:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC)


def test_the_numbers_of_a_table_are_those_of_its_files(flights: Flights) -> None:
    table = flights(3, 3, 4)

    numbers = read_numbers(table)

    assert numbers.data_files == 3
    assert numbers.records == 3
    assert numbers.snapshots == 3
    assert numbers.manifests == 3
    assert numbers.delete_files == 0
    assert numbers.bytes == sum(task.file.file_size_in_bytes for task in table.scan().plan_files())


def test_a_table_without_a_snapshot_has_zeros(flights: Flights) -> None:
    assert read_numbers(flights()) == TableNumbers()
    assert read_health(flights(name="other"), now=datetime.now(UTC)).small_files_ratio == 0


def test_a_summary_without_totals_is_counted_from_the_manifests(flights: Flights) -> None:
    table = flights(3, 4, 4)
    expected = read_numbers(table)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    snapshot.summary["total-files-size"] = None

    assert read_numbers(table) == expected
    assert _from_manifests(MetadataReader(table).files())["bytes"] == expected.bytes


def test_the_numbers_need_no_data_file(flights: Flights) -> None:
    table = flights(3, 4)
    shutil.rmtree(f"{table.location().removeprefix('file://')}/data")

    assert read_numbers(table).data_files == 2
    assert read_health(table, now=datetime.now(UTC)).small_files == 2


def test_health_says_which_partition_is_fragmented(flights: Flights) -> None:
    health = read_health(flights(3, 3, 3, 4), now=datetime.now(UTC))

    assert [(each.label, each.data_files, each.small_files) for each in health.partitions] == [
        ("month=3", 3, 3),
        ("month=4", 1, 1),
    ]
    assert sum(each.bytes for each in health.partitions) == health.totals.bytes
    assert health.small_files_ratio == 1.0


def test_a_file_is_small_below_three_quarters_of_the_target(flights: Flights) -> None:
    table = flights(3)
    size = read_numbers(table).bytes

    def small_files(target: int) -> int:
        return read_health(table, now=datetime.now(UTC), bounds=HealthBounds(target_file_size_bytes=target)).small_files

    assert small_files(size) == 0
    assert small_files(size * 2) == 1


def test_snapshots_are_listed_from_the_oldest_to_the_newest(flights: Flights) -> None:
    table = flights(3, 4)

    health = read_health(table, now=datetime.now(UTC))

    assert [each.operation for each in health.snapshots] == ["append", "append"]
    assert [each.snapshot_id for each in health.snapshots] == [each.snapshot_id for each in table.snapshots()]
    assert [each.parent_id for each in health.snapshots] == [None, health.snapshots[0].snapshot_id]
    assert health.snapshots.newest_at == health.snapshots[-1].committed_at == committed_at(table)


def test_summaries_show_what_each_commit_dropped(flights: Flights) -> None:
    """As PyIceberg, Spark, PyIceberg and a rewrite of Spark in two commits wrote them; the last one was repeated."""
    files = ("added-data-files", "deleted-data-files", "added-delete-files", "manifests-created", "manifests-kept")
    commits = [(2, 0, 0), (2, 0, 0), (0, 0, 1, 1, 2), (2, 0, 0), (1, 3, 0, 4, 1), (1, 3, 0, 4, 2)]
    snapshots = [
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            timestamp_ms=number,
            manifest_list="",
            summary=Summary(Operation.APPEND, **dict(zip(files, map(str, counts), strict=False)), **{"manifests-replaced": "6"}),
        )
        for number, counts in enumerate(commits, 1)
    ]

    log = read_snapshots(flights().metadata.model_copy(update={"snapshots": snapshots}))

    assert log.dropped == (0, 0, 0, 0, 3 + 3, 3 + 3)
    assert log.added == (2 + 1, 2 + 1, 1 + 1, 2 + 1, 1 + 4, 1 + 4)


def test_what_commits_dropped_takes_no_read_of_a_manifest_that_health_does_not_read(flights: Flights) -> None:
    table = flights(3, 4)
    table.delete("month = 3")

    with counted_reads() as reads:
        health = read_health(table, now=datetime.now(UTC))

    assert len(reads.manifests) == health.data_manifests + health.delete_manifests
    assert health.snapshots.dropped == (0, 0, 2), "a file and its manifest"


def test_the_age_of_the_oldest_snapshot_counts_from_the_moment_that_is_given(flights: Flights) -> None:
    table = flights(3)

    health = read_health(table, now=datetime.now(UTC))

    assert health.oldest_snapshot_age(committed_at(table) + timedelta(days=6)) == timedelta(days=6)
    assert read_health(flights(name="other"), now=datetime.now(UTC)).oldest_snapshot_age(datetime.now(UTC)) is None


def test_branches_and_tags_are_named(flights: Flights) -> None:
    table = flights(3)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, "audit").create_branch(snapshot.snapshot_id, "try").commit()

    health = read_health(table, now=datetime.now(UTC))

    assert [(ref.name, ref.kind) for ref in health.refs] == [("audit", "tag"), ("main", "branch"), ("try", "branch")]


def test_a_table_without_partitions_has_one_without_a_label(flights: Flights) -> None:
    table = flights()
    with table.update_spec() as update:
        update.remove_field("month")
    table.append(pa.table({"month": pa.array([1], pa.int64()), "carrier": ["AA"]}))

    labels = [each.label for each in read_health(table, now=datetime.now(UTC)).partitions]

    assert len(labels) == 1
    assert labels[0] in ("", "month=null")


def test_a_table_of_the_first_format_version_is_read_the_same(flights: Flights) -> None:
    health = read_health(flights(3, 4, properties={"format-version": "1"}), now=datetime.now(UTC))

    assert health.format_version == 1
    assert (health.totals.data_files, health.small_files, health.data_manifests) == (2, 2, 2)


def test_a_partition_whose_column_is_gone_can_still_be_named(flights: Flights) -> None:
    table = flights(3)
    with table.update_spec() as spec:
        spec.remove_field("month")
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("month")

    (partition,) = read_health(table, now=datetime.now(UTC)).partitions

    assert partition.data_files == 1


def test_partition_values_have_all_digits_of_a_decimal_and_no_name_for_a_column_with_a_dot(catalog: Catalog) -> None:
    value = Decimal("12345678901234567890.123456789012345678")
    schema = Schema(
        NestedField(1, "amount", DecimalType(38, 18)),
        NestedField(2, "a.b", LongType()),
        NestedField(3, "place", StructType(NestedField(4, "city", StringType()))),
    )
    spec = PartitionSpec(*(PartitionField(each, 998 + each, IdentityTransform(), f"p{each}") for each in (1, 2, 4)))
    table = catalog.create_table("db.amounts", schema, partition_spec=spec)
    rows = [{"amount": value, "a.b": 1, "place": {"city": "Oslo"}}]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))

    health = read_health(table, now=datetime.now(UTC))

    assert [each.values for each in health.partitions] == [(str(value), 1, "Oslo")]
    assert [field.source for field in health.specs[health.spec_id]] == ["amount", None, "place.city"]


def test_expirable_bytes_are_those_of_files_that_only_expired_snapshots_need(flights: Flights) -> None:
    table = flights(3, 4)
    first = table.current_snapshot()
    assert first is not None
    gone = {task.file.file_path: task.file.file_size_in_bytes for task in table.scan(row_filter="month = 3").plan_files()}
    table.delete("month = 3")
    now, old = datetime.now(UTC), [snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]
    kept = {manifest.manifest_path for manifest in table.snapshots()[-1].manifests(table.io)}
    manifests = {each.manifest_path: each for each in first.manifests(table.io) if each.manifest_path not in kept}

    assert read_health(table, now=now).expirable_bytes is None
    assert read_health(table, now=now, expired=[]).expirable_bytes == 0
    expected = sum(gone.values()) + sum(manifest.manifest_length for manifest in manifests.values())
    assert len(gone) == 1
    assert read_health(table, now=now, expired=old).expirable_bytes == expected


def test_properties_that_maintenance_uses_are_part_of_health(flights: Flights) -> None:
    table = flights(
        properties={
            "snowpack.skip": "true",
            "history.expire.min-snapshots-to-keep": "2",
            "write.metadata.metrics.column.month": "none",
            "owner": "ann",
            "owner_team": "data",
        }
    )

    kept = read_health(table, now=datetime.now(UTC)).properties

    assert {name: value for name, value in kept.items() if name != "write.parquet.compression-codec"} == {
        "snowpack.skip": "true",
        "history.expire.min-snapshots-to-keep": "2",
        "owner": "ann",
    }


def test_the_newest_file_of_a_partition_is_that_of_its_last_writer(flights: Flights) -> None:
    table = flights(3, 4, 3)
    times = [datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC) for snapshot in table.snapshots()]

    partitions = read_health(table, now=datetime.now(UTC)).partitions

    assert {partition.label: partition.newest_at for partition in partitions} == {"month=3": times[2], "month=4": times[1]}


def test_partitions_beyond_the_limit_are_summed_up(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_snowpack.iceberg.health.reading.MAX_PARTITIONS", 2)
    table = flights(3, 3, 3, 4, 4, 5)

    health = read_health(table, now=datetime.now(UTC))

    assert [each.label for each in health.partitions] == ["month=3", "month=4"]
    assert (health.partition_count, health.data_files, health.rest.data_files) == (3, 6, 1)
    assert health.rest.bytes + sum(each.bytes for each in health.partitions) == health.bytes


def test_the_example_of_the_page_runs(flights: Flights, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flights(3, 3, 4)
    page = (Path(__file__).parents[3] / "docs" / "health.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    exec(example, {"lake": tmp_path / "lake"})

    shown = capsys.readouterr().out.splitlines()
    assert shown == ["3 of 3 data files are small; score 100", "month=3 2 0", "month=4 1 0"]


@pytest.mark.parametrize(("target", "small"), [("nonsense", 2), ("0", 2), ("100", 0)])
def test_a_manifest_is_small_below_half_of_the_target_and_a_wrong_target_is_the_default(
    flights: Flights, target: str, small: int
) -> None:
    table = flights(3, 4, properties={"commit.manifest.target-size-bytes": target, "commit.manifest-merge.enabled": "false"})

    health = read_health(table, now=datetime.now(UTC))

    assert (health.data_manifests, health.small_manifests) == (2, small)


def damage(path: str, written: bytes, damaged: bytes) -> None:
    """Replace bytes of a file by as many."""
    file = Path(path.removeprefix("file://"))
    content = file.read_bytes()
    assert written in content
    file.write_bytes(content.replace(written, damaged.ljust(len(written))))


@pytest.mark.parametrize(("written", "damaged"), [(b'"type"', b'"tipe"'), (b'"long"', b'"hong"')], ids=str)
def test_a_damaged_manifest_list_is_an_unreadable_table_and_named(flights: Flights, written: bytes, damaged: bytes) -> None:
    table = flights(3, 4)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    damage(snapshot.manifest_list, written, damaged)

    with pytest.raises(TableUnreadable, match=re.escape(f"{snapshot.manifest_list} is not a valid manifest list")):
        read_health(table, now=datetime.now(UTC))


@pytest.mark.parametrize("field_id", [0, 102, 103, 104])
def test_a_manifest_without_a_field_that_health_needs_is_an_unreadable_table(flights: Flights, field_id: int) -> None:
    table = flights(3, 4)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = snapshot.manifests(table.io)[0].manifest_path
    damage(path, f'"field-id": {field_id},'.encode(), b'"field":0,')

    with pytest.raises(TableUnreadable, match=rf"{re.escape(path)} is not a valid Avro file: .*it has no field {field_id}"):
        read_health(table, now=datetime.now(UTC))
