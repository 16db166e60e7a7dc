"""What a task leaves in XCom about a job: plain values, the same for a run and for a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.jobs import Job


def job_report(job: Job, before: Mapping[str, int] | None = None, after: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The job as JSON values.

    :param before: the table's numbers before the job, and ``after`` those after it; left out when they are not known.
    """
    elapsed = (job.completed_at - job.started_at).total_seconds() if job.completed_at and job.started_at else None
    report: dict[str, Any] = {
        "job_id": job.job_id,
        "table": str(job.table),
        "catalog_id": job.table.catalog_id,
        "status": job.status.value,
        "dry_run": job.dry_run,
        "actions": list(job.actions),
        "results": [
            {
                "action": result.action,
                "outcome": result.outcome.value,
                "success": result.success,
                "message": result.message,
                "error": result.error,
                "metrics": dict(result.metrics),
                "elapsed_seconds": result.elapsed_seconds,
            }
            for result in job.results
        ],
        "attempt": job.attempt,
        "error": job.error,
        "elapsed_seconds": elapsed,
    }
    return report | ({"before": dict(before)} if before else {}) | ({"after": dict(after)} if after else {})
