"""Finds the job that an earlier try of the same claimant holds, and takes it over.

    claim = reclaim(jobs, "dag/run/task", worker_id)      # None: there is none

A claimant's worker ids begin with its own name. The history says which worker made a claim; it is best-effort, so that a try
which died within its first moments may not be found: then the lease decides, as for any other worker.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_snowpack.jobs.model import JobStatus

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Claim, Job, Jobs


def reclaim(jobs: Jobs, claimant: str, worker_id: str, *, job_id: str | None = None) -> Claim | None:
    """Take over what an earlier try of this claimant still holds.

    :param job_id: only this job; ``None`` for any.
    :raises JobNotFound: there is no job of this id.
    """
    from airflow_snowpack.jobs import JobAlreadyFinished

    candidates = [jobs.get(job_id)] if job_id is not None else jobs.list(status=JobStatus.RUNNING)
    for job in candidates:
        if job.status is JobStatus.RUNNING and job.owner is not None and _holder(jobs, job).startswith(claimant):
            with suppress(JobAlreadyFinished):  # it ended between the two looks
                return jobs.take_over(job.job_id, worker_id, owner=job.owner)
    return None


def _holder(jobs: Jobs, job: Job) -> str:
    """The worker that made the present claim, as far as the history knows."""
    mine = (entry for entry in jobs.history(job.job_id) if entry.attempt_id == job.attempt_id and "worker" in entry.detail)
    return next((str(entry.detail["worker"]) for entry in mine), "")
