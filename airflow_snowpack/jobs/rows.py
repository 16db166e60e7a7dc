"""Jobs and locks as rows, and rows as values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Claim, Job, JobStatus, TableLock
from airflow_snowpack.store import storable


def table_values(table: TableName) -> dict[str, str]:
    """The columns that name a table."""
    return {
        "table_key": str(table),
        "catalog": table.catalog,
        "catalog_id": table.catalog_id,
        "database_name": table.database,
        "table_name": table.table,
    }


def lock_values(table: TableName) -> dict[str, str]:
    """The same columns for its lock, which is found by another key."""
    return {**table_values(table), "table_key": table.lock_key}


def table_from(row: sa.Row[Any]) -> TableName:
    return TableName(row.catalog, row.database_name, row.table_name, row.catalog_id)


def job_values(job: Job) -> dict[str, Any]:
    """Every column of a new job."""
    return {
        **table_values(job.table),
        "job_id": job.job_id,
        "actions": list(job.actions),
        "options": dict(job.options),
        "dry_run": job.dry_run,
        "status": job.status,
        "submitted_at": job.submitted_at,
        "submitted_by": job.submitted_by,
        "owner": job.owner,
        "inline": job.inline,
        "started_at": job.started_at,
        "completed_at": job.completed_at,
        "attempt": job.attempt,
        "attempt_id": job.attempt_id,
        "error": job.error,
        "results": results_to_json(job.results) or None,
        "spark_server": job.spark_server,
        "cancelled_by": job.cancelled_by,
    }


def job_from(row: sa.Row[Any]) -> Job:
    return Job(
        job_id=row.job_id,
        table=table_from(row),
        actions=tuple(row.actions),
        options=row.options,
        dry_run=row.dry_run,
        status=JobStatus(row.status),
        submitted_at=row.submitted_at,
        submitted_by=row.submitted_by,
        owner=row.owner,
        inline=row.inline,
        started_at=row.started_at,
        completed_at=row.completed_at,
        attempt=row.attempt,
        attempt_id=row.attempt_id,
        error=row.error,
        results=results_from_json(row.results),
        spark_server=row.spark_server,
        cancelled_by=row.cancelled_by,
    )


def claim_from(row: sa.Row[Any], worker_id: str, lease_until: datetime) -> Claim:
    """A claim from the job's row as the claim left it."""
    job = job_from(row)
    assert job.attempt_id is not None, "a claimed job has a fence"
    return Claim(job=job, attempt_id=job.attempt_id, worker_id=worker_id, attempt=job.attempt, lease_until=lease_until)


def lock_from(row: sa.Row[Any]) -> TableLock:
    return TableLock(table=table_from(row), holder=row.holder, acquired_at=row.acquired_at, expires_at=row.expires_at)


def results_to_json(results: Sequence[ActionResult]) -> list[dict[str, Any]]:
    return [
        {
            "action": result.action,
            "outcome": result.outcome.value,
            "message": storable(result.message),
            "elapsed_seconds": result.elapsed_seconds,
            "error": None if result.error is None else storable(result.error),
            # JSON has no NaN and no infinity, and Postgres insists.
            "metrics": {name: value for name, value in result.metrics.items() if math.isfinite(value)},
            **({"final": True} if result.final else {}),
        }
        for result in results
    ]


def results_from_json(stored: list[dict[str, Any]] | None) -> tuple[ActionResult, ...]:
    return tuple(ActionResult(**{**result, "outcome": ActionOutcome(result["outcome"])}) for result in stored or ())
