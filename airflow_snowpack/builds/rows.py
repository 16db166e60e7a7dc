"""Rows of the build registry as values."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds.model import BuildRun, RunStatus
from airflow_snowpack.builds.registered import BuildDataset, Publication, PublicationKind, RunHandle


def build_id(dataset: str, run_id: str) -> str:
    """The key of a run's row; neither name has a "/"."""
    return f"{dataset}/{run_id}"


def run_from(row: sa.Row[Any]) -> BuildRun:
    status = RunStatus(row.status)
    return BuildRun(
        dataset=row.dataset,
        run_id=row.run_id,
        as_of=row.as_of,
        sequence=row.sequence,
        status=status,
        holder=row.claimed_by,
        attempt_id=row.attempt_id,
        lease_until=row.visible_at if row.claimed_at is not None else None,
        started_at=row.started_at,
        finished_at=row.finished_at,
        num_shards=row.num_shards,
        rows=row.rows,
        bytes=row.bytes,
        error=row.error,
        losers_left=status is RunStatus.SUCCEEDED and row.cleanup_at is not None and row.deleted_at is None,
        deleted_at=row.deleted_at,
        owner=row.owner,
        manifest=row.manifest,
        checksum=row.checksum,
    )


def handle_from(row: sa.Row[Any], url: str) -> RunHandle:
    """The run of a row that this attempt holds."""
    return RunHandle(
        dataset=row.dataset,
        run_id=row.run_id,
        url=url,
        as_of=row.as_of,
        sequence=row.sequence,
        num_shards=row.num_shards,
        owner=row.owner,
        attempt_id=row.attempt_id,
        attempt=row.attempt_count,
        lease_until=row.visible_at,
    )


def dataset_from(row: sa.Row[Any]) -> BuildDataset:
    held = row.claimed_at is not None
    return BuildDataset(
        dataset=row.dataset,
        url=row.url,
        created_at=row.created_at,
        publication=row.publication,
        current_run=row.current_run,
        moved_at=row.moved_at,
        newest_as_of=row.newest_as_of,
        held_by=row.claimed_by if held else None,
        held_until=row.visible_at if held else None,
    )


def publication_from(row: sa.Row[Any]) -> Publication:
    return Publication(
        dataset=row.dataset,
        number=row.number,
        run_id=row.run_id,
        kind=PublicationKind(row.kind),
        manifest=row.manifest,
        checksum=row.checksum,
        previous=row.previous,
        previous_checksum=row.previous_checksum,
        at=row.at,
        by=row.by,
    )
