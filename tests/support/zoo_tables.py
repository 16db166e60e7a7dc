"""Kinds of :mod:`table_zoo` that differ in their format, deletes, snapshots and properties, or that cannot be read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType
from written_deletes import commit_equality_delete, commit_position_delete
from zoo import Zoo, append, data_files, kind, kind_of_spark, read_metadata, replace_metadata, unreadable_kind

from airflow_snowpack.iceberg import TableName

UTC = dt.UTC


@kind
def unpartitioned(zoo: Zoo, name: str) -> None:
    """Six small files, a commit each, without partitions."""
    table = zoo.create(name)
    for each in range(6):
        append(table, [f"value {each}"])


@kind
def format_version_1(zoo: Zoo, name: str) -> None:
    """Format version 1, partitioned, three commits: no sequence numbers and no content in manifests."""
    table = zoo.create(name, LongType(), IdentityTransform(), **{"format-version": "1"})
    for _ in range(3):
        append(table, [1, 2, None])


@kind
def upgraded_to_version_2(zoo: Zoo, name: str) -> None:
    """Files from format version 1, and files and position deletes from version 2."""
    table = zoo.create(name, **{"format-version": "1"})
    append(table, ["old"] * 3)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    append(table, ["new"] * 3)
    commit_position_delete(table, {data_files(table)[0]: [0]})


@kind
def position_deletes(zoo: Zoo, name: str) -> None:
    """Merge-on-read: one file with three position-delete files on it, one file over two data files, and one clean file."""
    table = zoo.create(name)
    for _ in range(4):
        append(table, ["a"] * 10)
    first, second, third, _ = data_files(table)
    for position in (0, 1, 2):
        commit_position_delete(table, {first: [position]})
    commit_position_delete(table, {second: [3, 4], third: [5]})


@kind
def equality_deletes(zoo: Zoo, name: str) -> None:
    """As Flink writes them: rows deleted by ``id``, then one of them inserted again."""
    table = zoo.create(name)
    append(table, ["a"] * 10)
    append(table, ["b"] * 10)
    commit_equality_delete(table, "id", [3, 13])
    append(table, ["back"], start=3)


@kind
def mixed_deletes(zoo: Zoo, name: str) -> None:
    """Position deletes in one partition and equality deletes in another; the third partition has neither."""
    from pyiceberg.typedef import Record

    table = zoo.create(name, LongType(), IdentityTransform())
    for _ in range(3):
        append(table, [1, 1, 2, 2, 3, 3])
    in_first = next(file for file in data_files(table) if "part=1/" in file)
    commit_position_delete(table, {in_first: [0]}, Record(1))
    commit_equality_delete(table, "id", [2, 8], Record(2))


@kind_of_spark
def deletion_vectors(zoo: Zoo, name: str) -> None:
    """Format version 3: two partitions, with deletion vectors on the files of one of them."""
    spark, table = zoo.session, zoo.named(name).quoted
    properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    columns = "id BIGINT, value INT, note STRING"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg PARTITIONED BY (value) TBLPROPERTIES ({properties})")
    for start in (0, 100):
        made = f"SELECT id + {start}, CAST(id % 2 AS INT), 'note' FROM range(40)"
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({made})")
    spark.sql(f"DELETE FROM {table} WHERE value = 1 AND id % 10 = 3")


# --- snapshots and references -----------------------------------------------------------------------------------------


@kind
def never_written(zoo: Zoo, name: str) -> None:
    """Created, without a snapshot."""
    zoo.create(name)


@kind
def emptied(zoo: Zoo, name: str) -> None:
    """All rows deleted: a current snapshot without a data file."""
    from pyiceberg.expressions import AlwaysTrue

    table = zoo.create(name)
    append(table, ["a", "b"])
    table.delete(AlwaysTrue())


@kind
def branches_and_tags(zoo: Zoo, name: str) -> None:
    """Tag ``audit`` on the second of four snapshots, and a branch ``trial`` with a commit that main does not have."""
    table = zoo.create(name)
    for each in range(4):
        append(table, [f"value {each}"])
    second = table.metadata.snapshots[1].snapshot_id
    head = table.metadata.snapshots[-1].snapshot_id
    table.manage_snapshots().create_tag(second, "audit").create_branch(head, "trial").commit()
    table.append(pa.table([[100], ["trial"], ["only there"]], schema=table.schema().as_arrow()), branch="trial")


@kind
def many_snapshots(zoo: Zoo, name: str) -> None:
    """Two hundred snapshots, one every six hours up to now: the oldest is 50 days old."""
    with_snapshots(zoo, name, 200, every=dt.timedelta(hours=6))


def with_snapshots(zoo: Zoo, name: str, count: int, *, every: dt.timedelta, until: dt.datetime | None = None) -> None:
    """Make a table with any number of snapshots; it takes about 0.1 ms for each.

    Four of them are real commits. The others are further names of the first one's manifest list, in hand-written metadata.
    """
    table = zoo.create(name)
    for each in range(4):
        append(table, [f"value {each}"])
    metadata = read_metadata(table)
    first, *last = metadata["snapshots"]
    copies = [{**first, "snapshot-id": first["snapshot-id"] // 2 + each} for each in range(count - 4)]
    for before, after in zip([first, *copies], [*copies, last[0]], strict=True):
        after["parent-snapshot-id"] = before["snapshot-id"]
    metadata["snapshots"] = [first, *copies, *last]
    for number, snapshot in enumerate(metadata["snapshots"], start=1):
        snapshot["sequence-number"] = number
    metadata["last-sequence-number"] = count
    until = until or dt.datetime.now(UTC)
    replace_metadata(zoo, table, _at(metadata, [until - every * (count - 1 - each) for each in range(count)]))


def commit_times(zoo: Zoo, name: TableName, times: Sequence[dt.datetime]) -> None:
    """Change when the snapshots of a table were committed, the oldest first."""
    table = zoo.load(name)
    replace_metadata(zoo, table, _at(read_metadata(table), times))


def _at(metadata: dict[str, Any], times: Sequence[dt.datetime]) -> dict[str, Any]:
    for snapshot, time in zip(metadata["snapshots"], times, strict=True):
        snapshot["timestamp-ms"] = int(time.timestamp() * 1000)
    metadata["last-updated-ms"] = metadata["snapshots"][-1]["timestamp-ms"]
    metadata["snapshot-log"] = [
        {"snapshot-id": each["snapshot-id"], "timestamp-ms": each["timestamp-ms"]} for each in metadata["snapshots"]
    ]
    metadata["metadata-log"] = []
    return metadata


# --- what blocks maintenance ------------------------------------------------------------------------------------------


@kind
def healthy(zoo: Zoo, name: str) -> None:
    """One file of its target size in each of two partitions, one manifest, one snapshot."""
    table = zoo.create(name, LongType(), IdentityTransform())
    append(table, [1, 2])
    [entry, _] = table.inspect.data_files().to_pylist()
    with table.transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": str(entry["file_size_in_bytes"])})


@kind
def without_gc(zoo: Zoo, name: str) -> None:
    """``gc.enabled=false``: other tables may own its files, so nothing of it may be deleted."""
    table = zoo.create(name, **{"gc.enabled": "false"})
    for _ in range(6):
        append(table, ["a"])


@kind
def skipped(zoo: Zoo, name: str) -> None:
    """``compaction_skip=true``: a hard exclusion by its owner."""
    table = zoo.create(name, compaction_skip="true")
    for _ in range(6):
        append(table, ["a"])


@kind
def shared_location(zoo: Zoo, name: str) -> None:
    """Its location is inside the location of another table, ``<name>_around``."""
    outer = zoo.create(f"{name}_around")
    append(outer, ["a"])
    inner = zoo.create(name, location=f"{outer.location()}/inner")
    append(inner, ["a"])


# --- what cannot be read ----------------------------------------------------------------------------------------------


@unreadable_kind
def missing_metadata(zoo: Zoo, name: str) -> None:
    """The catalog points to a metadata file that does not exist any more."""
    table = zoo.create(name)
    append(table, ["a"])
    _delete(table.metadata_location)


@unreadable_kind
def missing_manifest_list(zoo: Zoo, name: str) -> None:
    """The manifest list of the current snapshot does not exist any more."""
    table = zoo.create(name)
    append(table, ["a"])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    _delete(snapshot.manifest_list)


@unreadable_kind
def missing_manifest(zoo: Zoo, name: str) -> None:
    """One of the three manifests of the current snapshot does not exist any more."""
    table = zoo.create(name)
    for _ in range(3):
        append(table, ["a"])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    _delete(snapshot.manifests(table.io)[1].manifest_path)


@unreadable_kind
def damaged_manifest(zoo: Zoo, name: str) -> None:
    """One of the two manifests of the current snapshot ends in its middle."""
    table = zoo.create(name)
    for _ in range(2):
        append(table, ["a"])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = Path(snapshot.manifests(table.io)[0].manifest_path.removeprefix("file://"))
    manifest.write_bytes(manifest.read_bytes()[:200])


def _delete(location: str) -> None:
    Path(location.removeprefix("file://")).unlink()
