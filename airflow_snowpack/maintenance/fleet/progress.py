"""The progress of a planned pass: its jobs are submitted, claimed and ended, and unclaimed ones withdrawn.

    work = PassWork(passes, jobs)
    work.submit(planned)                        # a job for each chosen table; a retry submits the rest
    work.claimable(planned)                     # what a worker may claim now, in order
    work.settle(planned)                        # records the jobs that have ended
    work.withdraw(planned, job_ids, "The time of the pass is over.")

The invariants: a chosen table gets one job, because one transaction submits it and stores its id in the entry. The outcomes of
ended jobs and the estimates of the others stay within the budget: if outcomes exceed their estimates, waiting jobs are withdrawn,
last ones first, and then a job that runs beyond its estimate is stopped. A job and its entry are withdrawn in one transaction.
Tables are settled and withdrawn in batches, to avoid a transaction per table at the end of a pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.jobs import JobStatus, TableLocked
from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.jobs.model import TERMINAL
from airflow_snowpack.jobs.rows import job_from
from airflow_snowpack.jobs.withdrawal import postpone, withdraw
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.holds import waits_for_producers
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.fleet.report import PassReport
from airflow_snowpack.maintenance.fleet.rows import BY_PLACE, ENTRY, TABLE, entry_from
from airflow_snowpack.maintenance.planning.model import TablePlan
from airflow_snowpack.store import storable_error
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_tables
from airflow_snowpack.store.tables.jobs import job_queue, jobs as job_rows

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Job, Jobs
    from airflow_snowpack.maintenance.writers import DagsOfTables

NOT_SUBMITTED = "Its job was not submitted before the pass ended."
NOT_CLAIMED = "No worker claimed its job before the pass ended."
OUT_OF_TIME = "The time of the pass was over before a worker claimed its job."
NO_TIME_LEFT = "The time that was left of the pass was too short for its job."
OVERSPENT = "Earlier tables took more than was estimated, and used its part of the budget."
LOST = "The worker that maintained it was lost."
BATCH_SIZE = 500
"""How many tables one transaction settles or withdraws."""
RECORDED_AHEAD = 0.05
"""The share of its estimate that a running job may use before it records usage again, which bounds the usage of lost workers."""
RESERVED = sa.and_(ENTRY.state == EntryState.SUBMITTED.value, sa.func.coalesce(ENTRY.spent_gb_hours, 0.0) <= ENTRY.gb_hours)
USED = sa.select(
    sa.func.sum(sa.case((RESERVED, ENTRY.gb_hours), else_=ENTRY.spent_gb_hours)).label("gb_hours"),
    sa.func.sum(sa.func.coalesce(ENTRY.spent_bytes, ENTRY.bytes)).label("bytes"),
).where(sa.or_(ENTRY.state == EntryState.SUBMITTED.value, ENTRY.spent_gb_hours.is_not(None)))
"""The outcomes of the ended jobs of a pass, and for each other job its estimate, or its usage if that is more."""


class _AlreadySubmitted(Exception):
    """Another process has submitted the entry's job."""


@dataclass(frozen=True, slots=True)
class _EntryKey:
    """Stores the job of an entry, once."""

    pass_id: str
    table_key: str

    def keep(self, conn: sa.Connection, job_id: str, now: datetime) -> None:
        """Store the id of the job.

        :raises _AlreadySubmitted: the entry has a job, or waits.
        """
        chosen = _entry(self.pass_id, self.table_key, EntryState.CHOSEN)
        submitted = sa.update(fleet_entries).where(chosen).values(job_id=job_id, state=EntryState.SUBMITTED.value)
        if conn.execute(submitted).rowcount != 1:
            raise _AlreadySubmitted


class JobUsage:
    """The usage of a running job, as its worker counts it.

    :param estimate: its GB·h.
    :param seconds: its estimated duration.
    :param recorded: the GB·h in the store, an upper bound of what earlier attempts used when this one begins.
    """

    def __init__(self, job: Job, estimate: float, seconds: float, recorded: float) -> None:
        self.job = job
        self.estimate = estimate
        self.recorded = recorded
        self._rate = estimate / (seconds or 1.0)
        self._lost = recorded

    def spent(self, gb_hours: float | None, now: datetime) -> float:
        """Return the GB·h of all attempts; if those of this attempt are unknown, its estimate is scaled by the elapsed time."""
        in_proportion = self._rate * (now - (self.job.started_at or now)).total_seconds()
        return self._lost + (in_proportion if gb_hours is None else gb_hours)


class PassWork:
    def __init__(self, passes: FleetPasses, jobs: Jobs) -> None:
        self._passes = passes
        self._jobs = jobs
        self._store = passes.store

    def submit(self, planned: Pass, *, priority: int = 0) -> int:
        """Submit a job for each chosen table that has none; return how many were submitted now.

        A table that another process has locked waits for the next pass.

        :raises DrainModeOn: submissions are refused; a later call continues.
        """
        submitted = 0
        for entry in self._passes.entries(planned.pass_id, [EntryState.CHOSEN]):
            assert entry.plan is not None
            # The job includes skipped actions, with the evidence as their results.
            request = entry.plan.request(priority=priority, order=[each.action for each in entry.plan.decisions])
            asked: dict[str, Any] = {"options": request.options, "plan": request.plan, "priority": priority}
            asked |= {"table_uuid": entry.plan.table_uuid, "submitted_by": planned.owner}
            try:
                self._jobs.submit(entry.table, request.actions, **asked, key=_EntryKey(planned.pass_id, entry.table.lock_key))
            except TableLocked as locked:
                self.leave(planned, entry, str(locked))
            except _AlreadySubmitted:
                continue
            else:
                submitted += 1
        return submitted

    def claimable(self, planned: Pass, *, limit: int | None = None) -> Sequence[PassEntry]:
        """Return the entries whose jobs a worker may claim now, in order; without those that would end after the pass's time."""
        now = self._store.clock()
        due = sa.and_(job_queue.c.claimed_at.is_(None), job_queue.c.visible_at <= now)
        query = sa.select(fleet_entries).join(job_queue, job_queue.c.job_id == ENTRY.job_id)
        query = query.where(ENTRY.pass_id == planned.pass_id, ENTRY.state == EntryState.SUBMITTED.value, due)
        if planned.ends_at is not None:
            query = query.where(ENTRY.seconds <= (planned.ends_at - now).total_seconds())
        return [entry_from(row) for row in self._store.all(query.order_by(*BY_PLACE.order()).limit(limit))]

    def settle(self, planned: Pass) -> Sequence[PassEntry]:
        """Record the entries whose jobs have ended, and return those."""
        settled: list[PassEntry] = []
        while batch := self._store.transact(lambda conn: _settle(conn, planned)):
            settled += batch
            if len(batch) < BATCH_SIZE:
                break
        if settled:
            self._keep_within_budget(planned)
        return settled

    def leave(self, planned: Pass, entry: PassEntry, reason: str) -> bool:
        """End an entry that is not submitted; ``False`` if its state has changed since it was read."""
        mine = _entry(planned.pass_id, entry.table.lock_key, entry.state)
        return bool(self._store.transact(lambda conn: _end(conn, mine, reason, self._store.clock())))

    def withdraw(
        self, planned: Pass, job_ids: Collection[str], reason: str, state: EntryState = EntryState.WAITING
    ) -> Collection[str]:
        """Withdraw those of the jobs that no worker has claimed, and end their entries; return their ids.

        A postponed table keeps its reason. One whose worker was lost has failed, so it does not come first in the next pass.
        """
        now, withdrawn = self._store.clock(), dict[str, int]()

        def write(conn: sa.Connection, batch: Sequence[str]) -> dict[str, int]:
            attempts = withdraw(conn, batch, reason, now)
            submitted = _in_state(planned, EntryState.SUBMITTED)
            lost = [job_id for job_id, number in attempts.items() if number and state is EntryState.WAITING]
            _end(conn, sa.and_(submitted, ENTRY.job_id.in_(lost)), f"{LOST} {reason}", now, EntryState.FAILED)
            _end(conn, sa.and_(submitted, ENTRY.job_id.in_(attempts.keys() - set(lost))), reason, now, state)
            return attempts

        for first in range(0, len(rest := list(job_ids)), BATCH_SIZE):
            withdrawn |= self._store.transact(partial(write, batch=rest[first : first + BATCH_SIZE]))
        return withdrawn.keys()

    def postpone(self, planned: Pass, entry: PassEntry, reason: str, until: datetime) -> None:
        """Delay the claim of an entry's job until a given time, and store the reason. Does nothing if a worker has the job."""
        assert entry.job_id is not None
        job_id, mine = entry.job_id, _entry(planned.pass_id, entry.table.lock_key, EntryState.SUBMITTED)

        def write(conn: sa.Connection) -> None:
            if postpone(conn, job_id, until):
                conn.execute(sa.update(fleet_entries).where(mine).values(reason=storable_error(reason)))

        self._store.transact(write)

    def usage(self, planned: Pass, job: Job) -> JobUsage | None:
        """Return what the attempts at a job have used so far; ``None`` if its entry has ended."""
        query = sa.select(ENTRY.gb_hours, ENTRY.seconds, ENTRY.spent_gb_hours).where(_of_job(planned, job))
        row = self._store.first(query)
        return None if row is None else JobUsage(job, row.gb_hours, row.seconds, row.spent_gb_hours or 0.0)

    def allows(self, planned: Pass, usage: JobUsage, gb_hours: float | None) -> bool:
        """Record what a running job has used, and return whether the budget allows it to continue.

        Within the estimate, usage is recorded ahead, so most calls need no statement. Beyond it, each call records what was used,
        and the job takes what unclaimed jobs have reserved, last ones first.

        :param gb_hours: of this attempt; ``None``: unknown, so the estimate in proportion to the elapsed time.
        """
        spent, estimate = usage.spent(gb_hours, self._store.clock()), usage.estimate
        if spent <= min(usage.recorded, estimate):
            return True
        ahead = spent if spent > estimate else min(spent + estimate * RECORDED_AHEAD, estimate)
        used = sa.update(fleet_entries).where(_of_job(planned, usage.job)).values(spent_gb_hours=ahead)
        is_submitted = self._store.transact(lambda conn: conn.execute(used).rowcount)
        usage.recorded = ahead
        return spent <= estimate or not is_submitted or self._keep_within_budget(planned)

    def end(self, planned: Pass, dags_of_tables: Callable[[], DagsOfTables] | None = None) -> PassReport:
        """End a pass and return its report, without writers if ``dags_of_tables`` is ``None``.

        While a worker still has a job, the pass stays open, and the report names the table.
        """
        is_over, now = self.close(planned), self._store.clock()
        reported = self._passes.get(planned.pass_id)
        if is_over and reported.ended_at is None:
            reported = replace(reported, state=PassState.ENDED, ended_at=now)
        entries = self._passes.entries(reported.pass_id)
        ran = any(entry.spent is not None for entry in entries)
        dags = dags_of_tables() if ran and dags_of_tables is not None else None
        report = PassReport.of(reported, entries, now, dags)
        self._passes.keep_report(reported, report.to_json())
        return report

    def close(self, planned: Pass) -> bool:
        """Record ended jobs, withdraw unclaimed ones, and return whether the pass is over: no worker has one of its jobs."""
        now, chosen = self._store.clock(), _in_state(planned, EntryState.CHOSEN)
        self.settle(planned)
        some = sa.select(ENTRY.table_key).where(chosen).limit(BATCH_SIZE).correlate(None)
        while self._store.transact(lambda conn: _end(conn, sa.and_(chosen, ENTRY.table_key.in_(some)), NOT_SUBMITTED, now)):
            pass
        left_s = inf if planned.ends_at is None else (planned.ends_at - now).total_seconds()
        unclaimed = self._unclaimed(planned)
        late = [row.job_id for row in unclaimed if left_s <= 0 or row.seconds > left_s]
        self.withdraw(planned, late, NO_TIME_LEFT if left_s > 0 else OUT_OF_TIME)
        self.withdraw(planned, [row.job_id for row in unclaimed], NOT_CLAIMED)
        self.settle(planned)
        return not self._passes.entries(planned.pass_id, [EntryState.SUBMITTED])

    def _unclaimed(self, planned: Pass) -> Sequence[sa.Row[Any]]:
        """Return the unclaimed jobs with their estimated seconds, last ones first."""
        waiting = sa.select(ENTRY.job_id, ENTRY.seconds).join(job_queue, job_queue.c.job_id == ENTRY.job_id)
        waiting = waiting.where(_in_state(planned, EntryState.SUBMITTED), job_queue.c.claimed_at.is_(None))
        return self._store.all(waiting.order_by(ENTRY.place.desc()))

    def _keep_within_budget(self, planned: Pass) -> bool:
        """Withdraw waiting jobs, last ones first, while the pass exceeds its budget; return whether its GB·h are within it."""
        waiting: deque[Any] | None = None
        while True:
            # Read again after a withdrawal: the usage of a withdrawn job's lost attempts still counts.
            used = self._store.all(USED.where(ENTRY.pass_id == planned.pass_id))[0]
            left = gb_hours, _ = used.gb_hours or 0.0, used.bytes or 0
            if _is_within(planned.budget, *left):
                return True
            if waiting is None:
                columns = sa.select(ENTRY.job_id, ENTRY.gb_hours, ENTRY.bytes).where(_in_state(planned, EntryState.SUBMITTED))
                waiting = deque(self._store.all(columns.order_by(ENTRY.place.desc())))
            enough = []
            while waiting and not _is_within(planned.budget, *left):
                enough.append(waiting.popleft())
                left = left[0] - enough[-1].gb_hours, left[1] - enough[-1].bytes
            if not enough:
                return _is_within(planned.budget, gb_hours, 0)
            self.withdraw(planned, [row.job_id for row in enough], OVERSPENT)


def _settle(conn: sa.Connection, planned: Pass) -> list[PassEntry]:
    """Record a batch of entries whose jobs have ended."""
    estimate = ENTRY.table_key.label("e_key"), ENTRY.gb_hours.label("e_gb_hours"), ENTRY.seconds.label("e_seconds")
    used = ENTRY.spent_gb_hours.label("e_used")
    query = sa.select(job_rows, *estimate, used).join(fleet_entries, ENTRY.job_id == job_rows.c.job_id)
    query = query.where(_in_state(planned, EntryState.SUBMITTED), job_rows.c.status.in_([status.value for status in TERMINAL]))
    # Locked, so that a table's waiting is counted once; in a fixed order, to avoid deadlocks.
    ended = conn.execute(query.order_by(*BY_PLACE.order()).limit(BATCH_SIZE).with_for_update(of=fleet_entries)).all()
    outcomes = {row.e_key: (job_from(row), row) for row in ended}
    if not outcomes:
        return []
    mine = sa.update(fleet_entries).where(ENTRY.pass_id == planned.pass_id, ENTRY.table_key == sa.bindparam("b_key"))
    values = [{"b_key": key, **_outcome_values(job, row)} for key, (job, row) in outcomes.items()]
    conn.execute(mine, values)
    waited = {key for key, (job, _) in outcomes.items() if _counts_as_waiting(job)}
    _age(conn, waited)
    _reset_age(conn, outcomes.keys() - waited)
    read = sa.select(fleet_entries).where(ENTRY.pass_id == planned.pass_id, ENTRY.table_key.in_(list(outcomes)))
    return [entry_from(row) for row in conn.execute(read.order_by(*BY_PLACE.order()))]


def _outcome_values(job: Job, estimated: Any) -> dict[str, Any]:
    state, reason = _outcome(job)
    outcomes = [ActionFigures.of(result) for result in job.results]
    seconds = sum(each.seconds for each in outcomes)
    measured = [each.gb_hours for each in outcomes if each.gb_hours is not None]
    # For lost attempts, and actions without a result, only the usage recorded while they ran is known.
    is_measured = bool(measured) and job.status is JobStatus.COMPLETED and job.attempt == 1
    # If the memory of the session is unknown, use that of the estimate.
    in_proportion = estimated.e_gb_hours * seconds / (estimated.e_seconds or 1.0)
    return {
        "state": state.value,
        "reason": reason,
        "ended_at": job.completed_at,
        "spent_gb_hours": max(sum(measured) if measured else in_proportion, 0.0 if is_measured else estimated.e_used or 0.0),
        "spent_bytes": sum(each.bytes_rewritten for each in outcomes),
        "spent_seconds": seconds,
        "removed": sum(each.files_removed for each in outcomes),
    }


def _end(
    conn: sa.Connection,
    which: sa.ColumnElement[bool],
    reason: str,
    now: datetime,
    state: EntryState = EntryState.WAITING,
) -> Sequence[str]:
    """End entries whose tables are not maintained; return the keys of the tables."""
    waits = state is EntryState.WAITING
    kept = sa.func.coalesce(ENTRY.reason, storable_error(reason)) if waits else storable_error(reason)
    ended = sa.update(fleet_entries).where(which).values(state=state.value, reason=kept, ended_at=now)
    keys = conn.execute(ended.returning(ENTRY.table_key)).scalars().all()
    if waits and keys:
        _age(conn, keys)
    elif keys and state is EntryState.FAILED:
        _reset_age(conn, keys)
    return keys


def _age(conn: sa.Connection, keys: Collection[str]) -> None:
    aged = sa.update(fleet_tables).where(TABLE.table_key.in_(keys))
    conn.execute(aged.values(passes_waited=TABLE.passes_waited + 1))


def _reset_age(conn: sa.Connection, keys: Collection[str]) -> None:
    conn.execute(sa.update(fleet_tables).where(TABLE.table_key.in_(keys)).values(passes_waited=0))


def _entry(pass_id: str, table_key: str, state: EntryState) -> sa.ColumnElement[bool]:
    """Select an entry while it is in this state."""
    return sa.and_(ENTRY.pass_id == pass_id, ENTRY.table_key == table_key, ENTRY.state == state.value)


def _of_job(planned: Pass, job: Job) -> sa.ColumnElement[bool]:
    """Select the entry of a job that has not been recorded as ended."""
    return sa.and_(_in_state(planned, EntryState.SUBMITTED), ENTRY.job_id == job.job_id)


def _in_state(planned: Pass, state: EntryState) -> sa.ColumnElement[bool]:
    return sa.and_(ENTRY.pass_id == planned.pass_id, ENTRY.state == state.value)


def _is_within(budget: Budget, gb_hours: float, rewritten: int) -> bool:
    # The database's sum of floats may slightly exceed the plan's exact sum.
    return (budget.bytes is None or rewritten <= budget.bytes) and (
        budget.gb_hours is None or gb_hours <= budget.gb_hours * (1 + 1e-9)
    )


def _counts_as_waiting(job: Job) -> bool:
    """Return whether the table counts as not maintained: a user cancelled the job, or one of its actions waited for a DAG."""
    cancelled = job.status is JobStatus.CANCELLED
    return cancelled or (job.plan is not None and waits_for_producers(TablePlan.from_json(job.table, job.plan)))


def _outcome(job: Job) -> tuple[EntryState, str | None]:
    match job.status:
        case JobStatus.COMPLETED:
            return EntryState.MAINTAINED, None
        case JobStatus.CANCELLED:
            return EntryState.WAITING, f"Its job was cancelled by {job.cancelled_by}." if job.cancelled_by else job.error
        case _:
            return EntryState.FAILED, job.error
