"""Jobs and locks as rows, and rows as values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Claim, Job, JobStatus, TableLock
from airflow_snowpack.store import row_mapper, storable


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


def catalog_detail(table: TableName) -> dict[str, str]:
    """What an audit entry about a table has beside its name."""
    return {"catalog_id": table.catalog_id} if table.catalog_id else {}


def table_from(row: sa.Row[Any]) -> TableName:
    return TableName(row.catalog, row.database_name, row.table_name, row.catalog_id)


def job_values(job: Job) -> dict[str, Any]:
    """Every column of a new job."""
    values = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "table"}
    stored = {"actions": list(job.actions), "options": dict(job.options), "results": results_to_json(job.results) or None}
    return {**table_values(job.table), **values, **stored}


def claim_from(row: sa.Row[Any], worker_id: str, lease_until: datetime) -> Claim:
    """A claim from the job's row as the claim left it."""
    job = job_from(row)
    assert job.attempt_id is not None, "a claimed job has a fence"
    return Claim(job=job, attempt_id=job.attempt_id, worker_id=worker_id, attempt=job.attempt, lease_until=lease_until)


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


job_from = row_mapper(Job, {"actions": tuple, "status": JobStatus, "results": results_from_json}, table=table_from)
lock_from = row_mapper(TableLock, table=table_from)
