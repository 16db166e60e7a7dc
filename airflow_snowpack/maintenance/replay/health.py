"""The health of a simulated table, with the same counts that :func:`~airflow_snowpack.iceberg.health.read_health` has."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.health import FileCounts, PartitionHealth, SnapshotLog, TableHealth, TableNumbers
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.health.encoding import COUNTS
from airflow_snowpack.iceberg.health.model import MAX_PARTITIONS
from airflow_snowpack.iceberg.health.reading import as_json
from airflow_snowpack.iceberg.metadata_reader import DeleteKind
from airflow_snowpack.maintenance.actions.rewrite_data_files import has_many_deletes
from airflow_snowpack.maintenance.expiry import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from airflow_snowpack.iceberg.health import HealthBounds
    from airflow_snowpack.iceberg.health.model import Ref
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.state import SimulatedTable

KINDS = {
    DeleteKind.POSITION: "position_delete_files",
    DeleteKind.EQUALITY: "equality_delete_files",
    DeleteKind.VECTOR: "deletion_vectors",
}


def health_of(state: SimulatedTable, real: TableHealth, bounds: HealthBounds, now: datetime) -> TableHealth:
    """Return the health of the simulated table.

    :param real: the health of the table as it is: it has what a simulation does not change.
    """
    counts = _count(state, bounds)
    beside = _counts_beside(state)
    found = (_partition(state, key, counted, beside[key]) for key, counted in counts.items())
    partitions = sorted(found, key=lambda each: (-bounds.improvable(each), each.label))
    spec_id, times = real.spec_id, [each.at for each in state.snapshots]
    return TableHealth(
        **_sum(counts.values()),
        table=real.table,
        metadata_location=real.metadata_location,
        table_uuid=real.table_uuid,
        location=real.location,
        format_version=real.format_version,
        read_at=now,
        bounds=bounds,
        totals=_totals(state),
        **_manifest_numbers(state, spec_id),
        metadata_bytes=real.metadata_bytes,
        snapshots=SnapshotLog(
            tuple(each.snapshot_id for each in state.snapshots),
            tuple(None if place == 0 else state.snapshots[place - 1].snapshot_id for place in range(len(state.snapshots))),
            tuple(round(at.timestamp() * 1000) for at in times),
            tuple(each.operation for each in state.snapshots),
        ),
        refs=tuple(_refs(state, real)),
        partition_count=len(partitions),
        partitions=tuple(partitions[:MAX_PARTITIONS]),
        rest=_counts(_sum(_counted(each) for each in partitions[MAX_PARTITIONS:])),
        outdated=_counts(_sum(counted for key, counted in counts.items() if key[0] != spec_id)),
        properties=real.properties,
        specs=real.specs,
        spec_id=spec_id,
    )


def _refs(state: SimulatedTable, real: TableHealth) -> Iterator[Ref]:
    """Yield ``main`` with the newest snapshot of the simulation, and the tags; other branches are not replayed."""
    for ref in real.refs:
        if ref.name == MAIN:
            yield replace(ref, snapshot_id=state.snapshots[-1].snapshot_id)
        elif ref.kind == "tag":
            yield ref


def _count(state: SimulatedTable, bounds: HealthBounds) -> dict[PartitionKey, Counter[str]]:
    files, counts = state.files, defaultdict[Any, Counter[str]](Counter)
    for file in files.data:
        counted = counts[file.partition_key]
        counted.update(data_files=1, bytes=file.bytes, records=file.records)
        if file.bytes < bounds.min_file_size_bytes:
            counted.update(small_files=1, small_bytes=file.bytes)
        elif file.bytes > bounds.max_file_size_bytes:
            counted.update(large_files=1, large_bytes=file.bytes)
        elif files.deletes and has_many_deletes(file, files.deletes_of(file), bounds):
            counted.update(with_deletes_files=1, with_deletes_bytes=file.bytes)
    for delete in files.deletes:
        counts[delete.partition_key].update({KINDS[delete.kind]: 1, "delete_bytes": delete.bytes})
    return counts


def _counts_beside(state: SimulatedTable) -> dict[PartitionKey, Counter[str]]:
    """Count for each partition the manifests with files of it, and the data files with delete files of their own."""
    counts = defaultdict[Any, Counter[str]](Counter)
    for manifest in state.manifests.values():
        kind = "data" if manifest.is_data else "delete"
        for key in {state.file(each).partition_key for each in manifest.files}:
            counts[key][f"{kind}_manifests"] += 1
    for path in {delete.data_file for delete in state.deletes.values()}:
        if path in state.data:
            counts[state.data[path].partition_key]["own_deletes_files"] += 1
    return counts


def _manifest_numbers(state: SimulatedTable, spec_id: int) -> dict[str, Any]:
    manifests, small = state.manifests.values(), manifest_target(state.table.properties) / 2
    counts: dict[str, int] = {}
    for kind in ("data", "delete"):
        mine = [each for each in manifests if each.is_data is (kind == "data")]
        counts[f"{kind}_manifests"] = len(mine)
        counts[f"outdated_{kind}_manifests"] = sum(each.spec_id != spec_id for each in mine)
        counts[f"empty_{kind}_manifests"] = sum(not each.files for each in mine)
    counts["small_manifests"] = sum(each.bytes < small for each in manifests if each.files)
    return {**counts, "manifests_bytes": sum(each.bytes for each in manifests)}


def _partition(state: SimulatedTable, key: PartitionKey, counted: Counter[str], beside: Counter[str]) -> PartitionHealth:
    values, newest_at = tuple(map(as_json, key[1])), state.newest_at.get(key)
    return PartitionHealth(**counted, **beside, spec_id=key[0], values=values, label=state.label(key), newest_at=newest_at)


def _totals(state: SimulatedTable) -> TableNumbers:
    deletes = state.deletes.values()
    equality = sum(delete.records for delete in deletes if delete.kind is DeleteKind.EQUALITY)
    return TableNumbers(
        snapshot_id=state.snapshots[-1].snapshot_id,
        data_files=len(state.data),
        delete_files=len(state.deletes),
        bytes=sum(file.bytes for file in state.data.values()) + sum(delete.bytes for delete in deletes),
        records=sum(file.records for file in state.data.values()),
        position_deletes=sum(delete.records for delete in deletes) - equality,
        equality_deletes=equality,
        snapshots=len(state.snapshots),
        manifests=len(state.manifests),
    )


def _counted(partition: PartitionHealth) -> Counter[str]:
    return Counter({name: getattr(partition, name) for name in COUNTS})


def _counts(counted: dict[str, int]) -> FileCounts:
    return FileCounts(**counted)


def _sum(counts: Iterable[Counter[str]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
