"""What a table is, and how it came about: its columns, partition spec, branches and tags, and its snapshots.

    describe_table(load_table(catalog, name)).columns[0].type        # "timestamptz"
    describe_health(health)                                          # while the catalog does not answer

The invariant: only the metadata file that was loaded is read, however many files the table has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.health.model import Ref, SnapshotHealth, SpecField, moment
from airflow_snowpack.iceberg.health.reading import refs_of, spec_fields
from airflow_snowpack.iceberg.health.snapshots import ADDED, DROPPED, summary_files, summary_number
from airflow_snowpack.iceberg.table_properties import SORT_ORDER, owner_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.iceberg.health.model import TableHealth


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the current schema; ``type`` is Iceberg's, such as ``decimal(9, 2)``, also of nested columns."""

    name: str
    type: str
    required: bool
    doc: str | None


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
    snapshots: tuple[SnapshotHealth, ...]


def describe_table(table: Table) -> TableDescription:
    """Return the description of a loaded table."""
    # Of two in one millisecond, the metadata lists the older one first.
    newest_first = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)[::-1]
    return TableDescription(
        table.metadata_location,
        table.format_version,
        tuple(TableColumn(each.name, str(each.field_type), each.required, each.doc) for each in table.schema().fields),
        spec_fields(table, table.spec().spec_id),
        owner_properties(table).get(SORT_ORDER),
        refs_of(table),
        tuple(_snapshot(each) for each in newest_first),
    )


def describe_health(health: TableHealth) -> TableDescription:
    """Return what the health of a table has of its metadata: neither columns nor what each snapshot changed."""
    spec, order = health.specs.get(health.spec_id, ()), health.properties.get(SORT_ORDER)
    snapshots = tuple(reversed(health.snapshots))
    return TableDescription(health.metadata_location, health.format_version, None, spec, order, health.refs, snapshots)


def _snapshot(snapshot: Snapshot) -> SnapshotHealth:
    named = snapshot.snapshot_id, snapshot.parent_snapshot_id, moment(snapshot.timestamp_ms)
    if snapshot.summary is None:
        return SnapshotHealth(*named, "unknown")
    summary = snapshot.summary.additional_properties
    rows = (summary_number(summary, key) or 0 for key in ("added-records", "deleted-records"))  # zero is left out
    files = (summary_files(summary, *keys) for keys in (ADDED, DROPPED))
    return SnapshotHealth(*named, snapshot.summary.operation.value, *rows, *files)
