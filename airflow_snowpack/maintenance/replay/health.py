"""The health of a simulated table, counted as :func:`~airflow_snowpack.iceberg.health.read_health` counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.health import SnapshotLog, TableHealth, TableNumbers
from airflow_snowpack.iceberg.health.counting import NEWEST, Counting
from airflow_snowpack.iceberg.health.reading import counted_health
from airflow_snowpack.iceberg.metadata_reader import EQUALITY_DELETES, DeleteKind, LiveDelete
from airflow_snowpack.maintenance.expiry import MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyiceberg.manifest import ManifestFile

    from airflow_snowpack.iceberg.health import HealthBounds
    from airflow_snowpack.iceberg.health.model import Ref
    from airflow_snowpack.maintenance.replay.history import File, ReplayedManifest
    from airflow_snowpack.maintenance.replay.state import SimulatedTable

LIVE, POSITIONS = 1, 1
"""The status of a live file in a manifest, and the content of a position-delete file."""


def health_of(state: SimulatedTable, real: TableHealth, bounds: HealthBounds, now: datetime) -> TableHealth:
    """Return the health of the simulated table; the real one has what a simulation does not change."""
    manifests = [_as_iceberg(each, each.spec_id) for each in state.manifests.values()]
    return replace(
        real,
        **counted_health(state.table, _count(state, bounds), manifests),
        read_at=now,
        totals=_totals(state),
        expirable_bytes=None,
        snapshots=SnapshotLog(
            tuple(each.snapshot_id for each in state.snapshots),
            (None, *(each.snapshot_id for each in state.snapshots[:-1])),
            tuple(round(each.at.timestamp() * 1000) for each in state.snapshots),
            tuple(each.operation for each in state.snapshots),
        ),
        refs=tuple(_refs(state, real)),
    )


def _refs(state: SimulatedTable, real: TableHealth) -> Iterator[Ref]:
    """Yield ``main`` at the newest simulated snapshot, and the tags; other branches are not replayed."""
    for ref in real.refs:
        if ref.name == MAIN:
            yield replace(ref, snapshot_id=state.snapshots[-1].snapshot_id)
        elif ref.kind == "tag":
            yield ref


def _as_iceberg(manifest: ReplayedManifest, spec_id: int) -> ManifestFile:
    from pyiceberg.manifest import ManifestContent, ManifestFile

    return ManifestFile.from_args(
        manifest_length=manifest.bytes,
        partition_spec_id=spec_id,
        content=ManifestContent.DATA if manifest.is_data else ManifestContent.DELETES,
        added_files_count=0,
        existing_files_count=len(manifest.files),
    )


def _count(state: SimulatedTable, bounds: HealthBounds) -> Counting:
    counting = Counting(bounds, {})
    for manifest in sorted(state.manifests.values(), key=lambda each: each.is_data):
        # A simulated rewrite keeps the partition spec of files.
        by_spec: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for file in map(state.file, manifest.files):
            by_spec[file.spec_id].append(_entry(file))
        count = counting.count_data if manifest.is_data else counting.count_deletes
        for spec_id, entries in by_spec.items():
            count(_as_iceberg(manifest, spec_id), entries)
    for key, counts in counting.partitions():
        newest_at = state.newest_at.get(key)
        counts[NEWEST] = round(newest_at.timestamp() * 1000) if newest_at else 0
    return counting


def _entry(file: File) -> tuple[Any, ...]:
    """Return a file as :class:`Counting` reads it from a manifest."""
    entry = (LIVE, None, file.sequence, file.partition, file.records, file.bytes)
    if not isinstance(file, LiveDelete):
        return *entry, file.path
    content = EQUALITY_DELETES if file.kind is DeleteKind.EQUALITY else POSITIONS
    return *entry, content, "PUFFIN" if file.kind is DeleteKind.VECTOR else "PARQUET", None, file.data_file, None, None


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
