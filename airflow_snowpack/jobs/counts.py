"""What the end of a job adds to the counters.

    count_end(counts, job, JobStatus.COMPLETED, results, now)
    add_counts(conn, counts)

The invariant: a job is counted once, in the transaction that ends it; a preview is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.jobs.model import ActionResult, Job, JobStatus
from airflow_snowpack.store.counters import Counts

JOBS, ACTIONS = "jobs_ended", "actions"
RUN_SECONDS, WAIT_SECONDS = "job_run_seconds", "job_wait_seconds"
BYTES_REWRITTEN, FILES_REMOVED, SNAPSHOTS_EXPIRED = "bytes_rewritten", "files_removed", "snapshots_expired"
BOUNDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
"""The upper bounds of the buckets of both histograms, in seconds."""


def count_end(counts: Counts, job: Job, status: JobStatus, results: Sequence[ActionResult], now: datetime) -> Counts:
    """Count a job that an attempt or the rescuer ends, and return the counts.

    :param job: as its last attempt began. Its first claim ended its wait; a later one would count earlier attempts too.
    """
    counts.add(JOBS, status=status.value)
    if job.started_at is not None:
        counts.observe(RUN_SECONDS, (now - job.started_at).total_seconds(), BOUNDS)
        if job.attempt == 1:
            counts.observe(WAIT_SECONDS, (job.started_at - job.submitted_at).total_seconds(), BOUNDS)
    for result in results:
        counts.add(ACTIONS, action=result.action, outcome=result.outcome.value)
        figures = ActionFigures.of(result)
        done = {BYTES_REWRITTEN: figures.bytes_rewritten, FILES_REMOVED: figures.files_removed}
        for name, amount in (done | {SNAPSHOTS_EXPIRED: figures.snapshots_expired}).items():
            if amount > 0:
                counts.add(name, amount, action=result.action)
    return counts


def counts_of_cancelled(number: int) -> Counts:
    """Return the counts of jobs that are cancelled before an attempt has ended them."""
    counts = Counts()
    counts.add(JOBS, number, status=JobStatus.CANCELLED.value)
    return counts
