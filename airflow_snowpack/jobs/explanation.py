"""Why a job has not run yet, and what comes next for a table, in words: one answer for the API, the pages and the command line.

    standings(jobs, [table])[table].next_step    # 'Waits for a worker: 3 jobs are ahead of it, and 1 job is running.'

It only reads, and every sentence is true of one moment: of a few reads in a row, the later ones win.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.manager import Jobs
from airflow_snowpack.jobs.model import DrainState, Job, JobStatus, QueuePlace, QueueState, TableLock


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
    queue, drain = jobs.queue(), jobs.drain()
    places = jobs.places(job.job_id for job in active)
    reasons = {job.table: _why(jobs, job, places.get(job.job_id), queue, drain) for job in active}
    now = jobs.store.clock()
    return {
        table: Standing(
            table,
            last.get(table),
            plans.get(table),
            locks.get(table),
            reasons.get(table) or _next_step(last.get(table), plans.get(table), locks.get(table), now),
        )
        for table in asked
    }


def explain(jobs: Jobs, job: Job) -> str:
    """What a job waits for, what it does, or how it ended, as a sentence."""
    if job.status.is_terminal:
        return _ended(job)
    place = jobs.places([job.job_id]).get(job.job_id)
    return _why(jobs, job, place, jobs.queue(), jobs.drain())


def _why(jobs: Jobs, job: Job, place: QueuePlace | None, queue: QueueState, drain: DrainState) -> str:
    if place is None:
        return "It is just ending."
    if place.claimed_at is not None:
        return _running(jobs, job, place, drain)
    if place.visible_at > jobs.store.clock():
        return f"Attempt {place.attempt} was lost; the next one may start at {_text(place.visible_at)}."
    ahead = jobs.ahead_of(place)
    which = f", for catalog {job.table.catalog_id}" if job.table.catalog_id else ""
    order = f"{_are(ahead, 'job')} ahead of it" if ahead else "it is the next"
    if queue.running:
        return f"Waits for a worker: {order}, and {_are(queue.running, 'job')} running."
    return (
        f"Waits for a worker: {order}, and nothing is running. Is there a worker? "
        f"(`airflow snowpack worker`, or a DAG with RunMaintenanceJobOperator{which})"
    )


def _running(jobs: Jobs, job: Job, place: QueuePlace, drain: DrainState) -> str:
    if place.visible_at > jobs.store.clock():
        return (
            f"Attempt {place.attempt} is running on {place.claimed_by}: "
            f"{len(job.results)} of {_are(len(job.actions), 'action')} done."
        )
    lost = f"The lease of attempt {place.attempt} ran out at {_text(place.visible_at)}: its worker {place.claimed_by} is gone."
    return f"{lost} Drain mode is on, so no sweep takes it back." if drain.on else f"{lost} The next sweep takes the job back."


def _ended(job: Job) -> str:
    if job.dry_run:
        return "A dry run: nothing was changed."
    ended = f" at {_text(job.completed_at)}" if job.completed_at else ""
    by = f" by {job.cancelled_by}" if job.cancelled_by else ""
    return {
        JobStatus.COMPLETED: f"Every action is done; it completed{ended}.",
        JobStatus.FAILED: f"Failed{ended}. Fix the error below, then re-run the job.",
        JobStatus.CANCELLED: f"Cancelled{by}{ended}, for good. Re-run the job if it is needed after all.",
    }[job.status]


def _next_step(last: Job | None, plan: Job | None, lock: TableLock | None, now: datetime) -> str:
    if lock is not None and lock.expires_at > now:
        return _locked(last, lock)
    if plan is not None and (last is None or plan.submitted_at > last.submitted_at):
        would = [result.message for result in plan.results if result.has_work]
        return f"A dry run found work: {'; '.join(would)}." if would else "A dry run found nothing to do."
    if last is None:
        return "Never maintained here. Start with a dry run."
    if last.status is JobStatus.COMPLETED:
        return "Nothing is asked for."
    how = "failed" if last.status is JobStatus.FAILED else "was cancelled"
    return f"The last job {how}. Look at it, then run it again."


def _locked(last: Job | None, lock: TableLock) -> str:
    if last is not None and last.job_id == lock.holder and last.status is JobStatus.CANCELLED:
        return (
            "The last job was cancelled while it ran, and its worker has not left the table yet: "
            f"locked until {_text(lock.expires_at)} at most."
        )
    return f"Locked by {lock.holder} until {_text(lock.expires_at)}, unless it lets go before."


def _are(count: int, what: str) -> str:
    return f"1 {what} is" if count == 1 else f"{count} {what}s are"


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
