"""The metadata of a table: columns, partition spec, branches and tags, and a page of its snapshots."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from airflow_snowpack.iceberg.description import TableDescription
from airflow_snowpack.iceberg.health import SnapshotHealth, SpecField
from airflow_snowpack.store import InvalidCursor
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import From, Shape


class TableColumnShape(Shape):
    """A column of the current schema."""

    name: str
    type: str = Field(description="Iceberg's type, with those of nested columns.", examples=["timestamptz"])
    required: bool
    doc: str | None


class SpecFieldShape(Shape):
    """A field of the current partition spec."""

    name: str
    source: str | None = Field(description="The column; null if it was dropped.")
    transform: str = Field(examples=["day"])


class RefShape(Shape):
    """A branch or a tag."""

    name: str
    kind: str = Field(examples=["branch"])
    snapshot_id: int = Field(description="An integer of 64 bits: use a parser that keeps all of them.")
    max_ref_age_ms: int | None
    max_snapshot_age_ms: int | None
    min_snapshots_to_keep: int | None


class TableSnapshotShape(Shape):
    """A snapshot, and what its commit added and removed; null where that is not known."""

    snapshot_id: int = Field(description="An integer of 64 bits: use a parser that keeps all of them.")
    parent_id: int | None
    committed_at: datetime
    operation: str = Field(examples=["append"])
    rows_added: int | None
    rows_removed: int | None
    files_added: int | None = Field(description="Data and delete files.")
    files_removed: int | None


class TableMetadataShape(Shape):
    """The metadata of a table."""

    metadata_location: str
    format_version: int
    columns: list[TableColumnShape] | None = Field(description="Null if the metadata could not be read.")
    partition_spec: Annotated[list[SpecFieldShape], From("spec")]
    sort_order: str | None = Field(examples=["month ASC NULLS FIRST"])
    refs: list[RefShape]
    snapshots: list[TableSnapshotShape] = Field(description="Newest first.")
    next: int | None = Field(description="The `cursor` of the next page of snapshots.")
    problem: str | None = Field(
        description="Why the metadata could not be read now. The rest is then from the table's stored health."
    )


def snapshots_after(found: TableDescription, cursor: int | None, limit: int) -> tuple[Sequence[SnapshotHealth], int | None]:
    """Return a page of the snapshots, newest first, and the cursor of the next one.

    :param cursor: the id of the last snapshot of the page before; ``None`` for the first page.
    :raises InvalidCursor: the table has no such snapshot; it may have expired meanwhile.
    """
    ids = [each.snapshot_id for each in found.snapshots]
    if cursor is not None and cursor not in ids:
        raise InvalidCursor(str(cursor))
    begin = 0 if cursor is None else ids.index(cursor) + 1
    shown = found.snapshots[begin : begin + limit]
    return shown, shown[-1].snapshot_id if begin + limit < len(ids) else None


SNAPSHOTS: Listing[SnapshotHealth] = Listing(
    "snapshots",
    TableSnapshotShape.encode,
    (
        Column("snapshot", "snapshot_id", lambda each: str(each.snapshot_id)),
        Column("committed", "committed_at"),
        Column("operation", "operation"),
        Column("rows added", "rows_added"),
        Column("rows removed", "rows_removed"),
        Column("files added", "files_added"),
        Column("files removed", "files_removed"),
    ),
)


def fields_of(found: TableDescription) -> dict[str, object]:
    """Return what the metadata has beside snapshots, for people."""
    refs = (f"{ref.name} ({ref.kind} at {ref.snapshot_id})" for ref in found.refs)
    return {
        "columns": ", ".join(f"{each.name} {each.type}" for each in found.columns or ()),
        "partitioned by": ", ".join(partition_text(field) for field in found.spec),
        "sort order": found.sort_order,
        "branches and tags": ", ".join(refs),
        "metadata file": found.metadata_location,
    }


def partition_text(field: SpecField) -> str:
    """Return a field of a partition spec as in SQL: ``day(at)``."""
    source = field.source or field.name
    return source if field.transform == "identity" else f"{field.transform}({source})"
