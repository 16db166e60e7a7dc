"""The totals of a table, cheap enough to read before and after every action.

    >>> read_numbers(table).to_metrics()  # doctest: +SKIP
    {'data_files': 1284, 'delete_files': 36, 'bytes': 81604378, 'records': 336776, …}

Each commit writes the totals into the summary of its snapshot, so one manifest list is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.metadata_reader import DeleteKind, MetadataReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import TableFiles

SUMMARY_KEYS = {
    "data_files": "total-data-files",
    "delete_files": "total-delete-files",
    "bytes": "total-files-size",
    "records": "total-records",
    "position_deletes": "total-position-deletes",
    "equality_deletes": "total-equality-deletes",
}


@dataclass(frozen=True, slots=True)
class TableNumbers:
    """The totals of the current snapshot; all zero for a table without one.

    :param bytes: of data and delete files together.
    :param records: rows in data files, including those that delete files hide.
    :param position_deletes: rows in position-delete files.
    :param equality_deletes: rows in equality-delete files.
    :param snapshots: all that the table still has.
    :param manifests: of the current snapshot.
    """

    snapshot_id: int | None = None
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    records: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    snapshots: int = 0
    manifests: int = 0

    def to_metrics(self) -> dict[str, int]:
        """Return the numbers by name, without the snapshot's id."""
        return {name: getattr(self, name) for name in (*SUMMARY_KEYS, "snapshots", "manifests")}


def read_numbers(table: Table, reader: MetadataReader | None = None) -> TableNumbers:
    """Return the totals of the table as it was loaded; call ``table.refresh()`` first for the current ones."""
    reader = reader or MetadataReader(table)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return TableNumbers(snapshots=len(table.metadata.snapshots))
    manifests = len(reader.manifests(snapshot))
    return numbers_of_summary(table, manifests) or _numbers(table, manifests, _from_manifests(reader.files()))


def numbers_of_summary(table: Table, manifests: int) -> TableNumbers | None:
    """Return the totals in the current snapshot's summary; ``None`` if it lacks any, or there is no snapshot.

    :param manifests: how many manifests the snapshot has.
    """
    snapshot = table.current_snapshot()
    totals = None if snapshot is None else _from_summary(snapshot.summary)
    return None if totals is None else _numbers(table, manifests, totals)


def _numbers(table: Table, manifests: int, totals: dict[str, int]) -> TableNumbers:
    snapshot = table.current_snapshot()
    return TableNumbers(
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        snapshots=len(table.metadata.snapshots),
        manifests=manifests,
        **totals,
    )


def _from_summary(summary: Mapping[str, str] | None) -> dict[str, int] | None:
    found = {name: summary.get(key) if summary else None for name, key in SUMMARY_KEYS.items()}
    totals = {name: int(value) for name, value in found.items() if value is not None and value.isdecimal()}
    return totals if len(totals) == len(SUMMARY_KEYS) else None


def _from_manifests(files: TableFiles) -> dict[str, int]:
    equality = [delete.records for delete in files.deletes if delete.kind is DeleteKind.EQUALITY]
    return {
        "data_files": len(files.data),
        "delete_files": len(files.deletes),
        "bytes": sum(file.bytes for file in files.data) + sum(delete.bytes for delete in files.deletes),
        "records": sum(file.records for file in files.data),
        "position_deletes": sum(delete.records for delete in files.deletes) - sum(equality),
        "equality_deletes": sum(equality),
    }
