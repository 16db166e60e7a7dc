"""Converts jobs, locks and drain mode to rows and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, DrainState, Job, JobStatus, TableLock
from airflow_snowpack.jobs.statements import DRAIN
from airflow_snowpack.store import row_mapper, storable_error
from airflow_snowpack.store.tables.jobs import switches


def catalog_detail(table: TableName) -> dict[str, str]:
    """Return what an audit entry about a table has besides its name."""
    return {"catalog_id": table.catalog_id} if table.catalog_id else {}


def table_from(row: sa.Row[Any]) -> TableName:
    return TableName(row.catalog, row.database_name, row.table_name, row.catalog_id)


AS_THEY_ARE = [field.name for field in fields(Job) if field.name not in ("table", "actions", "options", "results")]
AS_PARAMETERS = [f"j_{name}" for name in AS_THEY_ARE]
read_fields = attrgetter(*AS_THEY_ARE)


def job_parameters(job: Job) -> dict[str, Any]:
    """Return the parameters of ``insert_job`` for a new job."""
    return {
        **dict(zip(AS_PARAMETERS, read_fields(job), strict=True)),
        "j_table_key": str(job.table),
        "j_catalog": job.table.catalog,
        "j_catalog_id": job.table.catalog_id,
        "j_database_name": job.table.database,
        "j_table_name": job.table.table,
        "j_actions": list(job.actions),
        "j_options": dict(job.options),
        "j_results": results_to_json(job.results) or None,
    }


def queue_of(job: Job) -> tuple[str, int, str]:
    """Return the catalog, rank and database of a job; jobs that share them take turns."""
    return job.table.catalog_id, -job.priority, job.table.database


def lock_parameters(table: TableName, holder: str, now: datetime, until: datetime) -> dict[str, Any]:
    return {
        "b_now": now,
        "b_table_key": table.lock_key,
        "b_catalog": table.catalog,
        "b_catalog_id": table.catalog_id,
        "b_database_name": table.database,
        "b_table_name": table.table,
        "b_holder": holder,
        "b_acquired_at": now,
        "b_expires_at": until,
    }


def read_drain(conn: sa.Connection) -> DrainState:
    """Return the state of the drain mode's switch; off until first used."""
    row = conn.execute(sa.select(switches).where(switches.c.name == DRAIN)).first()
    if row is None:
        return DrainState(on=False)
    return DrainState(on=row.enabled, since=row.changed_at, by=row.changed_by, reason=row.reason)


def results_to_json(results: Sequence[ActionResult]) -> list[dict[str, Any]]:
    return [
        {
            "action": result.action,
            "outcome": result.outcome.value,
            "message": storable_error(result.message),
            "elapsed_seconds": result.elapsed_seconds,
            "error": None if result.error is None else storable_error(result.error),
            # JSON has neither NaN nor infinity, and Postgres refuses both.
            "metrics": {name: value for name, value in result.metrics.items() if math.isfinite(value)},
            **({"final": True} if result.final else {}),
            **({"gb_hours": result.gb_hours} if result.gb_hours is not None and math.isfinite(result.gb_hours) else {}),
        }
        for result in results
    ]


def results_from_json(stored: list[dict[str, Any]] | None) -> tuple[ActionResult, ...]:
    return tuple(ActionResult(**{**result, "outcome": ActionOutcome(result["outcome"])}) for result in stored or ())


job_from = row_mapper(Job, {"actions": tuple, "status": JobStatus, "results": results_from_json}, table=table_from)
lock_from = row_mapper(TableLock, table=table_from)
