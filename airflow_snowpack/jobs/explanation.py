"""Why a job has not run yet, and what comes next for a table: one explanation for API, pages and command line.

    str(explain(jobs, job))                                       # 'Waiting for a worker: 3 jobs ahead, 1 worker busy.'
    explain_tables(jobs, [table])[table].next_step.render(clock)  # the same, with the times as clock() formats them

It only reads, in several statements: each sentence was true at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_snowpack.humanize import Text, plural
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.manager import Jobs
from airflow_snowpack.jobs.model import CANCELLED, DrainState, Job, JobStatus, QueuePlace, TableLock, is_withdrawn

FIRST_STEP = "Start with a dry run."
PLANNED_AGAIN = "The next pass plans the table again."


@dataclass(frozen=True, slots=True)
class TableExplanation:
    """The state of a table's maintenance.

    :param last: the newest job that was not a dry run.
    :param plan: the newest dry run.
    :param next_step: what comes next, or what it waits for.
    """

    table: TableName
    last: Job | None
    plan: Job | None
    lock: TableLock | None
    next_step: Text


def explain_tables(
    jobs: Jobs, tables: Iterable[TableName], first_steps: Mapping[TableName, str] | None = None
) -> dict[TableName, TableExplanation]:
    """Return the explanation of each table; ``first_steps`` has the next step of tables without a job whose health is known."""
    wanted, first = list(tables), first_steps or {}
    last, plans = jobs.latest(wanted), jobs.latest(wanted, dry_run=True)
    locks = {lock.table: lock for lock in jobs.locks.list()}
    active = [job for job in last.values() if not job.status.is_terminal]
    running, drain = jobs.running_in_workers(), jobs.drain()
    places, now = jobs.places(job.job_id for job in active), jobs.store.clock()
    ahead = _ahead(jobs, places.values(), now)
    reasons = {job.table: _active(job, places.get(job.job_id), running, drain, ahead, now) for job in active}

    def explained(table: TableName) -> TableExplanation:
        about = last.get(table), plans.get(table), locks.get(table)
        return TableExplanation(table, *about, reasons.get(table) or _next_step(*about, first.get(table, FIRST_STEP), now))

    return {table: explained(table) for table in wanted}


def explain(jobs: Jobs, job: Job) -> Text:
    """Explain what a job waits for, its progress, or how it ended."""
    if job.status.is_terminal:
        return _ended(job)
    places, now = jobs.places([job.job_id]), jobs.store.clock()
    ahead = _ahead(jobs, places.values(), now)
    return _active(job, places.get(job.job_id), jobs.running_in_workers(), jobs.drain(), ahead, now)


def _ahead(jobs: Jobs, places: Iterable[QueuePlace], now: datetime) -> Mapping[str, int]:
    """Return how many jobs are ahead of each job that waits for a worker."""
    waiting = [place.job_id for place in places if place.claimed_at is None and place.visible_at <= now]
    return jobs.ahead_of(waiting) if waiting else {}


def _active(
    job: Job, place: QueuePlace | None, running: Mapping[str, int], drain: DrainState, ahead_of: Mapping[str, int], now: datetime
) -> Text:
    if place is None:
        return Text("Ending now.")
    if place.claimed_at is not None:
        return _running(job, place, drain, lease_ran_out=place.visible_at <= now)
    if place.visible_at > now and not place.attempt:
        return Text("Postponed by its pass until ", place.visible_at, ". `airflow snowpack fleet show` shows the reason.")
    if place.visible_at > now:
        return Text(f"Attempt {place.attempt} was lost. The next attempt starts at ", place.visible_at, " at the earliest.")
    if drain.on:
        return Text("Waiting until drain mode is switched off: no worker claims a job while it is on.")
    ahead = ahead_of.get(job.job_id, 0)
    order = f"{plural(ahead, 'job')} ahead" if ahead else "next in the queue"
    waits = f"Waiting with priority {job.priority} for a worker" if job.priority else "Waiting for a worker"
    if busy := running.get(job.table.catalog_id):
        return Text(f"{waits}: {order}, {plural(busy, 'worker')} busy.")
    catalog = f" for catalog {job.table.catalog_id}" if job.table.catalog_id else ""
    return Text(
        f"{waits}: {order}, no worker busy. If no worker runs{catalog}, start one with `airflow snowpack worker`, "
        "or unpause the DAG snowpack_workers."
    )


def _running(job: Job, place: QueuePlace, drain: DrainState, *, lease_ran_out: bool) -> Text:
    if not lease_ran_out:
        done = f"{len(job.results)} of {plural(len(job.actions), 'action')} done"
        return Text(f"Attempt {place.attempt} is running on {place.claimed_by}: {done}.")
    requeued = "Drain mode is on, so the sweep does not requeue the job." if drain.on else "The next sweep requeues the job."
    lost = f": its worker {place.claimed_by} stopped sending heartbeats. {requeued}"
    return Text(f"The lease of attempt {place.attempt} ran out at ", place.visible_at, lost)


def _ended(job: Job) -> Text:
    if job.dry_run:
        return Text("Dry run: nothing was changed.")
    at: tuple[str | datetime, ...] = (" at ", job.completed_at) if job.completed_at is not None else ()
    match job.status:
        case JobStatus.COMPLETED:
            return Text("Completed", *at, ": all actions are done.")
        case JobStatus.FAILED:
            return Text("Failed", *at, ". Fix the error below, then re-run the job.")
        case _ if is_withdrawn(job):
            return Text("Withdrawn", *at, f". {job.error} {PLANNED_AGAIN}")
        case _:
            by = f" by {job.cancelled_by}" if job.cancelled_by else ""
            why = f" {job.error}" if job.error not in (None, CANCELLED) else ""
            return Text(f"Cancelled{by}", *at, f".{why} Re-run the job if the table still needs maintenance.")


def _next_step(last: Job | None, plan: Job | None, lock: TableLock | None, first: str, now: datetime) -> Text:
    if lock is not None and lock.expires_at > now:
        if last is not None and last.job_id == lock.holder and last.status is JobStatus.CANCELLED:
            left = "The last job was cancelled while it was running, and its worker has not left the table yet: locked until "
            return Text(left, lock.expires_at, " at the latest.")
        return Text(f"Locked by {lock.holder} until ", lock.expires_at, ", unless released earlier.")
    if plan is not None and (last is None or plan.submitted_at > last.submitted_at):
        work = "; ".join(result.message for result in plan.results if result.has_work)
        return Text(f"A dry run found work: {work}." if work else "A dry run found nothing to do.")
    if last is None:
        return Text(f"No maintenance yet. {first}")
    match last.status:
        case JobStatus.COMPLETED:
            return Text("No maintenance scheduled.")
        case JobStatus.FAILED:
            return Text("The last job failed. Fix its error, then re-run it.")
        case _ if is_withdrawn(last):
            return Text(f"The last job was withdrawn. {last.error} {PLANNED_AGAIN}")
        case _:
            return Text("The last job was cancelled. Re-run it if the table still needs maintenance.")
