"""Removals as rows of a store, without the tables that they are of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_snowpack.maintenance.removals.model import VALID_FOR, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.records import Removals

if TYPE_CHECKING:
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.store import Store

STRANGE = 's3://lake/orders/data/<script>alert("1")</script>, "a"\nb=c.parquet'


def plan_removal(store: Store, table: TableName, *, files: int = 3, first: str = STRANGE) -> Removal:
    """Plan a removal that awaits approval; the name of its first file has characters that a page has to escape."""
    now = store.clock()
    draft = Removal(
        removal_id=uuid4().hex,
        table=table,
        kind=RemovalKind.ORPHANS,
        state=RemovalState.PLANNED,
        planned_at=now,
        expires_at=now + VALID_FOR,
        planned_by_job=uuid4().hex,
        table_uuid="u",
        metadata_location="m",
        location="s3://lake/orders",
        requested_by="clean/manual__1/plan",
    )
    paths = [first, *(f"s3://lake/orders/data/{number}.parquet" for number in range(1, files))]
    items = [RemovalItem(path, 1024, now - timedelta(days=9)) for path in paths]
    planned = Removals(store).plan(draft, items, needs_approval=lambda _: True)
    assert planned is not None
    return planned
