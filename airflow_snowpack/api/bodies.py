"""The domain's values as JSON bodies, exactly as the specification and ``docs/api.md`` show them.

The invariant: a job's body has the specification's fields and no others; moments are UTC with microseconds. ``shapes.py`` says
the same as models for the OpenAPI document, and the tests hold the one against the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_snowpack.iceberg import TableHealth
    from airflow_snowpack.inventory import InventoryState
    from airflow_snowpack.jobs import (
        ActionResult,
        AuditEntry,
        DrainState,
        HistoryEntry,
        Job,
        QueuePlace,
        QueueSample,
        QueueState,
        SweepReport,
        TableExplanation,
        TableLock,
    )

Body = dict[str, Any]


def moment(value: datetime | None) -> str | None:
    """Such as ``2026-04-25T14:35:00.000000+00:00``."""
    return None if value is None else value.isoformat(timespec="microseconds")


def job_body(job: Job) -> Body:
    """The specification's job."""
    return {
        "job_id": job.job_id,
        "database": job.table.database,
        "table_name": job.table.table,
        "actions": list(job.actions),
        "dry_run": job.dry_run,
        "status": job.status.value,
        "submitted_at": moment(job.submitted_at),
        "started_at": moment(job.started_at),
        "completed_at": moment(job.completed_at),
        "results": [result_body(result) for result in job.results] or None,
        "error": job.error,
    }


def result_body(result: ActionResult) -> Body:
    """The specification's result of one action."""
    return {
        "action": result.action,
        "success": result.success,
        "message": result.message,
        "error": result.error,
        "elapsed_seconds": result.elapsed_seconds,
    }


def timeline_body(
    job: Job, place: QueuePlace | None, history: Iterable[HistoryEntry], audit: Iterable[AuditEntry], explanation: str
) -> Body:
    """What a job's page shows and the specification's job does not hold."""
    return {
        "job": job_body(job),
        "catalog": job.table.catalog,
        "catalog_id": job.table.catalog_id,
        "attempt": job.attempt,
        "submitted_by": job.submitted_by,
        "cancelled_by": job.cancelled_by,
        "owner": job.owner,
        "options": dict(job.options),
        "explanation": explanation,
        "queue": None if place is None else place_body(place),
        "results": [{**result_body(result), **_outcome(result)} for result in job.results],
        "history": [_event(entry) for entry in history],
        "audit": [audit_body(entry) for entry in audit],
    }


def place_body(place: QueuePlace) -> Body:
    """Where an active job stands; ``lease_until`` only while a worker has it."""
    claimed = place.claimed_at is not None
    return {
        "enqueued_at": moment(place.enqueued_at),
        "visible_at": None if claimed else moment(place.visible_at),
        "claimed_at": moment(place.claimed_at),
        "claimed_by": place.claimed_by,
        "lease_until": moment(place.visible_at) if claimed else None,
    }


def table_body(explained: TableExplanation) -> Body:
    """A table and what comes next for it."""
    return {
        "database": explained.table.database,
        "table_name": explained.table.table,
        "next_step": str(explained.next_step),
        "last_job": None if explained.last is None else job_body(explained.last),
        "locked_by": None if explained.lock is None else explained.lock.holder,
    }


def inventory_body(state: InventoryState, now: datetime) -> Body:
    """How well the inventory knows the catalog."""
    age = None if state.refreshed_at is None else max((now - state.refreshed_at).total_seconds(), 0.0)
    left_out = [{"name": each.name, "reason": each.reason} for each in state.left_out]
    return {
        "refreshed_at": moment(state.refreshed_at),
        "age_seconds": age,
        "problem": state.problem,
        "left_out_count": state.left_out_count,
        "left_out": left_out,
    }


def health_body(health: TableHealth) -> Body:
    """The numbers that maintenance looks at, and the ten partitions with most to do."""
    age = health.oldest_snapshot_age
    return {
        **health.numbers.to_metrics(),
        "location": health.location,
        "format_version": health.format_version,
        "small_files": health.small_files,
        "small_files_bytes": health.small_files_bytes,
        "small_files_ratio": health.small_files_ratio,
        "average_file_bytes": health.average_file_bytes,
        "target_file_size_bytes": health.target_file_size_bytes,
        "position_delete_files": health.position_delete_files,
        "equality_delete_files": health.equality_delete_files,
        "deletion_vectors": health.deletion_vectors,
        "manifests_bytes": health.manifests_bytes,
        "oldest_snapshot_age_seconds": None if age is None else age.total_seconds(),
        "partitions": [
            {
                "partition": each.label,
                "data_files": each.data_files,
                "small_files": each.small_files,
                "delete_files": each.delete_files,
                "bytes": each.bytes,
            }
            for each in health.partitions[:10]
        ],
    }


def lock_body(lock: TableLock) -> Body:
    """A lock; its holder is a job's id, or a name that an operator gave."""
    return {
        "database": lock.table.database,
        "table_name": lock.table.table,
        "catalog": lock.table.catalog,
        "catalog_id": lock.table.catalog_id,
        "holder": lock.holder,
        "acquired_at": moment(lock.acquired_at),
        "expires_at": moment(lock.expires_at),
    }


def queue_body(queue: QueueState, now: datetime) -> Body:
    """The queue at one moment."""
    waits = None if queue.oldest is None else max((now - queue.oldest).total_seconds(), 0.0)
    return {
        "depth": queue.depth,
        "oldest": moment(queue.oldest),
        "oldest_seconds": waits,
        "delayed": queue.delayed,
        "running": queue.running,
    }


def sample_body(sample: QueueSample) -> Body:
    return {"at": moment(sample.at), "waiting": sample.waiting, "running": sample.running}


def drain_body(state: DrainState) -> Body:
    return {"on": state.on, "since": moment(state.since), "by": state.by, "reason": state.reason}


def sweep_body(report: SweepReport) -> Body:
    return {
        "requeued": list(report.requeued),
        "failed": list(report.failed),
        "unlocked": list(report.unlocked),
        "paused": report.paused,
    }


def audit_body(entry: AuditEntry) -> Body:
    """Who did what."""
    return {
        "id": entry.id,
        "at": moment(entry.at),
        "actor": entry.actor,
        "via": entry.via,
        "change": entry.change,
        "subject": entry.subject,
        "detail": dict(entry.detail),
    }


def _event(entry: HistoryEntry) -> Body:
    return {"at": moment(entry.at), "event": entry.event, "attempt_id": entry.attempt_id, "detail": dict(entry.detail)}


def _outcome(result: ActionResult) -> Body:
    finite = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
    return {"outcome": result.outcome.value, "metrics": finite}
