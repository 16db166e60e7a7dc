"""What a table is, and how it came about: its columns, partition spec, branches and tags, and its snapshots.

    describe_table(load_table(catalog, name)).columns[0].type        # "timestamptz"
    describe_health(health)                                          # while the catalog does not answer

The invariant: only the metadata file that was loaded is read, however many files the table has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.health.model import Ref, SpecField, moment
from airflow_snowpack.iceberg.health.reading import refs_of, spec_fields
from airflow_snowpack.iceberg.health.snapshots import summary_number
from airflow_snowpack.iceberg.table_properties import SORT_ORDER, owner_properties

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.health.model import TableHealth


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the current schema; ``type`` is Iceberg's, such as ``decimal(9, 2)``, also of nested columns."""

    name: str
    type: str
    required: bool
    doc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """A snapshot that the table still has.

    :param operation: ``append``, ``overwrite``, ``delete``, ``replace`` or ``unknown``.
    :param rows_added, rows_removed: rows of the data files that it added and removed; a rewrite has both. These and the
        files come from the summary of the commit, and are ``None`` if the source has no summary.
    """

    snapshot_id: int
    parent_id: int | None
    committed_at: datetime
    operation: str
    rows_added: int | None = None
    rows_removed: int | None = None
    data_files_added: int | None = None
    data_files_removed: int | None = None
    delete_files_added: int | None = None
    delete_files_removed: int | None = None

    @property
    def files_added(self) -> int | None:
        """Data and delete files together."""
        return None if self.data_files_added is None else self.data_files_added + (self.delete_files_added or 0)

    @property
    def files_removed(self) -> int | None:
        """Data and delete files together."""
        return None if self.data_files_removed is None else self.data_files_removed + (self.delete_files_removed or 0)


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The metadata of a table.

    :param columns: ``None`` if the source does not have them.
    :param spec: the fields of the current partition spec; none if the table is not partitioned.
    :param sort_order: as Spark writes it; ``None`` without one.
    :param refs: branches and tags, by name.
    :param snapshots: newest first.
    """

    metadata_location: str
    format_version: int
    columns: tuple[TableColumn, ...] | None
    spec: tuple[SpecField, ...]
    sort_order: str | None
    refs: tuple[Ref, ...]
    snapshots: tuple[TableSnapshot, ...]


def describe_table(table: Table) -> TableDescription:
    """Return the description of a loaded table."""
    newest_first = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
    return TableDescription(
        table.metadata_location,
        table.format_version,
        tuple(TableColumn(each.name, str(each.field_type), each.required, each.doc) for each in table.schema().fields),
        spec_fields(table, table.spec().spec_id),
        owner_properties(table).get(SORT_ORDER),
        refs_of(table),
        tuple(
            TableSnapshot(
                snapshot_id=each.snapshot_id,
                parent_id=each.parent_snapshot_id,
                committed_at=moment(each.timestamp_ms),
                operation=each.summary.operation.value if each.summary else "unknown",
                **(_changes(each.summary.additional_properties) if each.summary else {}),
            )
            for each in newest_first
        ),
    )


def describe_health(health: TableHealth) -> TableDescription:
    """Return what the health of a table has of its metadata: neither columns nor what each snapshot changed."""
    log = reversed(health.snapshots)
    snapshots = (
        TableSnapshot(
            snapshot_id=each.snapshot_id, parent_id=each.parent_id, committed_at=each.committed_at, operation=each.operation
        )
        for each in log
    )
    spec, order = health.specs.get(health.spec_id, ()), health.properties.get(SORT_ORDER)
    return TableDescription(health.metadata_location, health.format_version, None, spec, order, health.refs, tuple(snapshots))


def _changes(summary: Mapping[str, str]) -> dict[str, int]:
    """Return what a commit changed; engines leave out what is zero."""
    keys = {
        "rows": ("added-records", "deleted-records"),
        "data_files": ("added-data-files", "deleted-data-files"),
        "delete_files": ("added-delete-files", "removed-delete-files"),
    }
    return {
        f"{what}_{change}": summary_number(summary, key) or 0
        for what, both in keys.items()
        for change, key in zip(("added", "removed"), both, strict=True)
    }
