"""The snapshots of a table, and what each commit added and dropped by its summary; no manifest is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.health.model import SnapshotLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

ADDED = ("added-data-files", "added-delete-files", "added-dvs")
DROPPED = ("deleted-data-files", "removed-delete-files", "removed-dvs")
CREATED_MANIFESTS, KEPT_MANIFESTS, REPLACED_MANIFESTS = "manifests-created", "manifests-kept", "manifests-replaced"
"""Iceberg writes these from 1.10 on; other engines do not."""


def read_snapshots(metadata: TableMetadata) -> SnapshotLog:
    """Return the snapshots, oldest first."""
    snapshots = sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    manifests: dict[int, int] = {}
    added, dropped = list[int](), list[int]()
    for each in snapshots:
        summary = each.summary.additional_properties if each.summary else {}
        before = 0 if each.parent_snapshot_id is None else manifests.get(each.parent_snapshot_id)
        files_added, files_dropped = summary_files(summary, *ADDED), summary_files(summary, *DROPPED)
        created, kept = summary_number(summary, CREATED_MANIFESTS), summary_number(summary, KEPT_MANIFESTS)
        if created is None or kept is None:
            # A commit writes one manifest for what it adds and one for what it drops.
            created, gone = 1, min(files_dropped, 1)
            if before is not None and not files_dropped:
                manifests[each.snapshot_id] = before + 1
        else:
            manifests[each.snapshot_id] = created + kept
            # Manifests that the parent left empty are neither kept nor replaced, and a retried commit counts replaced ones twice.
            gone = before - kept if before is not None else summary_number(summary, REPLACED_MANIFESTS) or 0
        added.append(files_added + created)
        dropped.append(files_dropped + max(gone, 0))
    return SnapshotLog(
        tuple(each.snapshot_id for each in snapshots),
        tuple(each.parent_snapshot_id for each in snapshots),
        tuple(each.timestamp_ms for each in snapshots),
        tuple(each.summary.operation.value if each.summary else "unknown" for each in snapshots),
        tuple(added),
        tuple(dropped),
    )


def summary_files(summary: Mapping[str, str], data_files: str, delete_files: str, vectors: str) -> int:
    """Return how many files a commit added or dropped; its deletion vectors share one file."""
    data, deletes, shared = (summary_number(summary, key) or 0 for key in (data_files, delete_files, vectors))
    return data + deletes - max(shared - 1, 0)


def summary_number(summary: Mapping[str, str], key: str) -> int | None:
    """Return a number of the summary of a commit; ``None`` without a usable one."""
    text = summary.get(key, "")
    return int(text) if text.isdecimal() else None
