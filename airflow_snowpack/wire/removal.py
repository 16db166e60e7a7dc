"""Removals: lists of orphan files or snapshots that are approved, and then deleted exactly."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from airflow_snowpack.humanize import SHORT_ID, size
from airflow_snowpack.maintenance.removals.model import ItemOutcome, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import CatalogId, Database, From, Level, Moment, Shape, page_shape

REMOVAL_ID = "4f1c2b9a6d0e4c7f8a3b5d1e9c2f7a60"


class RemovalShape(Shape):
    """A list of orphan files or snapshots of a table."""

    removal_id: str = Field(examples=[REMOVAL_ID])
    catalog: Annotated[str, From("table.catalog")] = Field(examples=["lake"])
    catalog_id: Annotated[CatalogId, From("table.catalog_id")]
    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    kind: RemovalKind
    state: RemovalState
    items: Annotated[int, From("item_count")] = Field(description="How many files or snapshots the list has.")
    bytes: int | None = Field(description="Their size; of snapshots, that of the files that only they need.")
    planned_at: datetime
    expires_at: datetime = Field(description="Until when it can be approved and run.")
    planned_by_job: str = Field(description="The job whose plan it is.")
    requested_by: str | None = Field(description="Who submitted that job: a user or a task instance.")
    decided_at: Moment = Field(description="When it was approved or rejected.")
    decided_by: str | None
    comment: str | None = Field(description="Of the person who decided.")
    job_id: str | None = Field(description="The job that deletes it or did last.")
    started_at: Moment
    ended_at: Moment
    deleted: Annotated[int, From("deleted_count")] = Field(description="How many items are deleted.")
    gone: Annotated[int, From("gone_count")] = Field(description="How many no longer existed.")
    left_out: Annotated[int, From("left_out_count")] = Field(description="How many are needed now, and were left out.")
    quarantined: Annotated[int, From("quarantined_count")] = Field(description="How many files are in quarantine.")
    restored: Annotated[int, From("restored_count")] = Field(description="How many files were restored.")
    quarantined_until: Moment = Field(description="From when the files in quarantine are deleted for good; null: there are none.")
    error: str | None = Field(description="Why it expired or failed, or why its last attempt ended early.")


RemovalsShape = page_shape("RemovalsShape", "Removals, the latest plan first.", "removals", RemovalShape)


class RemovalItemShape(Shape):
    """A file or a snapshot of a removal."""

    name: str = Field(description="The path of a file, or the id of a snapshot.", examples=["s3://lake/db/orders/data/0.parquet"])
    bytes: int | None
    at: Moment = Field(description="When the file was last modified, or the snapshot committed.")
    outcome: ItemOutcome | None = Field(description="Null until the removal is run. `started`: an attempt began to delete it.")
    reason: str | None = Field(description="Why it was left out, or could not be restored.")


RemovalItemsShape = page_shape("RemovalItemsShape", "A part of the list of a removal.", "items", RemovalItemShape, int)


REMOVALS: Listing[Removal] = Listing(
    "removals",
    RemovalShape.encode,
    (
        Column("removal", "removal_id", lambda removal: removal.removal_id[:SHORT_ID]),
        Column("table", "table.dotted"),
        Column("kind", "kind.value"),
        Column("state", "state.value", state="state"),
        Column("items", "item_count"),
        Column("size", "bytes", lambda removal: None if removal.bytes is None else size(removal.bytes)),
        Column("planned", "planned_at"),
        Column("decided by", "decided_by"),
        Column("deleted", "deleted_count"),
        Column("left out", "left_out_count"),
        Column("in quarantine", lambda removal: removal.quarantined_count or None),
        Column("until", "quarantined_until"),
    ),
)

ITEMS: Listing[RemovalItem] = Listing(
    "items",
    RemovalItemShape.encode,
    (
        Column("name", "name"),
        Column("size", "bytes", lambda item: None if item.bytes is None else size(item.bytes)),
        Column("modified", "at"),
        Column("outcome", lambda item: item.outcome and item.outcome.value),
        Column("reason", "reason"),
    ),
)
