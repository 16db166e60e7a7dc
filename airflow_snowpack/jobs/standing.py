"""Why a job has not run yet, and what comes next for a table, in words: one answer for the API, the pages and the command line.

standings(jobs, [table])[table].next_step    # 'Waits for a worker: 3 jobs are ahead of it and 2 are running.'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.lifecycle import Jobs
from airflow_snowpack.jobs.model import DrainState, Job, JobStatus, QueuePlace, TableLock


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a table stands.

    :param last: its newest job that was not a dry run.
    :param plan: its newest dry run.
    :param lock: who has the table now.
    :param next_step: what comes next, or what it waits for, as a sentence.
    """

    table: TableName
    last: Job | None
    plan: Job | None
    lock: TableLock | None
    next_step: str


def standings(jobs: Jobs, tables: Iterable[TableName]) -> dict[TableName, Standing]:
    """Where these tables stand."""
    asked = list(tables)
    last, plans = jobs.latest(asked), jobs.latest(asked, dry_run=True)
    locks = {lock.table: lock for lock in jobs.locks.list()}
    active = [job for job in last.values() if not job.status.is_terminal]
    places, drain = jobs.places(job.job_id for job in active), jobs.drain()
    reasons = {job.table: _why(jobs, job, places.get(job.job_id), drain) for job in active}
    return {
        table: Standing(
            table,
            last.get(table),
            plans.get(table),
            locks.get(table),
            reasons.get(table) or _next_step(last.get(table), plans.get(table), locks.get(table)),
        )
        for table in asked
    }


def explain(jobs: Jobs, job: Job) -> str:
    """What a job waits for, what it does, or how it ended, as a sentence."""
    if job.status.is_terminal:
        return _ended(job)
    return _why(jobs, job, jobs.places([job.job_id]).get(job.job_id), jobs.drain())


def _why(jobs: Jobs, job: Job, place: QueuePlace | None, drain: DrainState) -> str:
    if place is None:
        return "It is just ending."
    if place.claimed_at is not None:
        return _running(jobs, job, place, drain)
    if place.visible_at > jobs.store.clock():
        return f"Attempt {job.attempt} was lost; the next one may start at {_text(place.visible_at)}."
    queue, ahead = jobs.queue(), jobs.ahead_of(place)
    if ahead:
        jobs_are = "1 job is" if ahead == 1 else f"{ahead} jobs are"
        return f"Waits for a worker: {jobs_are} ahead of it and {queue.running} running."
    if queue.running:
        return f"Waits for a worker: it is the next, and {queue.running} running."
    return (
        "Waits for a worker: it is the next, and nothing is running. Is there a worker? "
        "(`airflow snowpack worker`, or a DAG with RunMaintenanceJobOperator)"
    )


def _running(jobs: Jobs, job: Job, place: QueuePlace, drain: DrainState) -> str:
    if place.visible_at > jobs.store.clock():
        return (
            f"Attempt {job.attempt} is running on {place.claimed_by}: {len(job.results)} of {len(job.actions)} actions are done."
        )
    lost = f"The lease of attempt {job.attempt} ran out at {_text(place.visible_at)}: its worker {place.claimed_by} is gone."
    return f"{lost} Drain mode is on, so no sweep takes it back." if drain.on else f"{lost} The next sweep takes the job back."


def _ended(job: Job) -> str:
    if job.dry_run:
        return "A dry run: nothing was changed."
    ended = f" at {_text(job.completed_at)}" if job.completed_at else ""
    return {
        JobStatus.COMPLETED: f"Every action is done; it ended{ended}.",
        JobStatus.FAILED: f"It failed{ended}; its error says why. Mend the cause, then run it again.",
        JobStatus.CANCELLED: f"It was cancelled{ended}, for good. Run it again if it is wanted after all.",
    }[job.status]


def _next_step(last: Job | None, plan: Job | None, lock: TableLock | None) -> str:
    if lock is not None:
        return f"Locked by {lock.holder} until {_text(lock.expires_at)}."
    if plan is not None and (last is None or plan.submitted_at > last.submitted_at):
        would = [result.message for result in plan.results if any(result.metrics.values())]
        return f"A dry run found work: {'; '.join(would)}." if would else "A dry run found nothing to do."
    if last is None:
        return "Never maintained here. Start with a dry run."
    if last.status is JobStatus.COMPLETED:
        return "Nothing is asked for."
    return f"The last job {last.status}. Look at it, then run it again."


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
