"""Removals as rows of a store, without the tables that they are of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.removals.model import VALID_FOR, ItemOutcome, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import Actor, Store

STRANGE = 's3://lake/orders/data/<script>alert("1")</script>, "a"\nb=c.parquet'


def plan_removal(store: Store, table: TableName, *, files: int = 3, first: str = STRANGE, **settings: str) -> Removal:
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
        settings=settings,
    )
    paths = [first, *(f"s3://lake/orders/data/{number}.parquet" for number in range(1, files))]
    items = [RemovalItem(path, 1024, now - timedelta(days=9)) for path in paths]
    planned = Removals(store).plan(draft, items, needs_approval=lambda _: True)
    assert planned is not None
    return planned


def quarantine_removal(store: Store, table: TableName, *, files: int = 3) -> Removal:
    """Plan a removal whose files are in quarantine for a week; there are no such files."""
    removals, jobs = Removals(store), Jobs(store)
    planned = plan_removal(store, table, files=files, quarantine="7d")
    removals.approve(planned.removal_id, actor=Actor("vera", "page"))
    claim = jobs.submit_and_claim(table, ["remove_orphan_files"], "w")
    begun = removals.begin(planned.removal_id, claim.job.job_id, claim.attempt_id)
    removals.begin_quarantine(begun)
    items = [replace(item, outcome=ItemOutcome.QUARANTINED) for item in removals.items(planned.removal_id)]
    removals.record(begun, {0: items}, {ItemOutcome.QUARANTINED: files})
    removals.end(begun, RemovalState.DELETED)
    jobs.cancel(claim.job.job_id)
    jobs.locks.release(table, claim.job.job_id)
    jobs.flush()
    return removals.get(planned.removal_id)
