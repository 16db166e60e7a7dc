"""What happens to a planned pass: its jobs are submitted, claimed and ended, and what no worker claimed is withdrawn.

    work = PassWork(passes, jobs)
    work.submit(planned)                        # a job for each chosen table; a retry submits the rest
    work.claimable(planned)                     # what a worker may claim now, in order
    work.settle(planned)                        # records the jobs that have ended
    work.withdraw(planned, "The time of the pass is over.")

The invariants: a chosen table gets one job, because the entry has the id of the job in the transaction that submits it. The
estimates of the jobs that have not ended and the outcomes of those that have stay within the budget: if outcomes exceed their
estimates, waiting jobs are withdrawn, the last ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.jobs import JobStatus, TableLocked
from airflow_snowpack.jobs.action_history import Outcome
from airflow_snowpack.jobs.model import TERMINAL
from airflow_snowpack.jobs.rows import job_from
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.candidates import waits_for_producers
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.fleet.rows import BY_PLACE, ENTRY, TABLE, entry_from
from airflow_snowpack.maintenance.planning.model import TablePlan
from airflow_snowpack.store import storable
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_tables
from airflow_snowpack.store.tables.jobs import job_queue, jobs as job_rows

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Job, Jobs

NOT_SUBMITTED = "Its job was not submitted before the pass ended."
NOT_CLAIMED = "No worker claimed its job before the pass ended."
OUT_OF_TIME = "The time of the pass was over before a worker claimed its job."
OVERSPENT = "Earlier tables took more than was estimated, and used its part of the budget."
USED = sa.select(
    sa.func.sum(sa.func.coalesce(ENTRY.spent_gb_hours, ENTRY.gb_hours)).label("gb_hours"),
    sa.func.sum(sa.func.coalesce(ENTRY.spent_bytes, ENTRY.bytes)).label("bytes"),
).where(sa.or_(ENTRY.state == EntryState.SUBMITTED.value, ENTRY.spent_seconds.is_not(None)))
"""The outcomes of the jobs of a pass that have ended, and the estimates of the others."""


class _SubmittedBefore(Exception):
    """Another process has submitted the job of the entry."""


@dataclass(frozen=True, slots=True)
class _EntryKey:
    """Keeps the job of an entry, once."""

    pass_id: str
    table_key: str

    def keep(self, conn: sa.Connection, job_id: str, now: datetime) -> None:
        """Store the id of the job.

        :raises _SubmittedBefore: the entry has a job, or waits.
        """
        chosen = _entry(self.pass_id, self.table_key, EntryState.CHOSEN)
        submitted = sa.update(fleet_entries).where(chosen).values(job_id=job_id, state=EntryState.SUBMITTED.value)
        if conn.execute(submitted).rowcount != 1:
            raise _SubmittedBefore


class PassWork:
    """The work of passes."""

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
            key = _EntryKey(planned.pass_id, entry.table.lock_key)
            asked: dict[str, Any] = {"options": entry.options, "plan": entry.plan, "priority": priority}
            # The job also has the actions that the plan skips; their results are the evidence.
            actions = entry.actions if entry.plan is None else [decision["action"] for decision in entry.plan["decisions"]]
            try:
                self._jobs.submit(entry.table, actions, **asked, submitted_by=planned.owner, key=key)
            except TableLocked as locked:
                self.leave(planned, entry, str(locked))
            except _SubmittedBefore:
                continue
            else:
                submitted += 1
        return submitted

    def claimable(self, planned: Pass, *, limit: int | None = None) -> Sequence[PassEntry]:
        """Return the entries whose jobs a worker may claim now, in the order of the pass.

        When the budget has a time, these are only the tables that are estimated to end within it.

        :param limit: how many of them; ``None`` for all.
        """
        now = self._store.clock()
        due = sa.and_(job_queue.c.claimed_at.is_(None), job_queue.c.visible_at <= now)
        query = sa.select(fleet_entries).join(job_queue, job_queue.c.job_id == ENTRY.job_id)
        query = query.where(ENTRY.pass_id == planned.pass_id, ENTRY.state == EntryState.SUBMITTED.value, due)
        if planned.ends_at is not None:
            query = query.where(ENTRY.seconds <= (planned.ends_at - now).total_seconds())
        return [entry_from(row) for row in self._store.all(query.order_by(*BY_PLACE.order()).limit(limit))]

    def settle(self, planned: Pass) -> Sequence[PassEntry]:
        """Record the entries whose jobs have ended; return those that this call recorded."""
        query = sa.select(job_rows, ENTRY.table_key.label("entry_key")).join(fleet_entries, ENTRY.job_id == job_rows.c.job_id)
        query = query.where(ENTRY.pass_id == planned.pass_id, ENTRY.state == EntryState.SUBMITTED.value)
        ended = self._store.all(query.where(job_rows.c.status.in_([status.value for status in TERMINAL])))
        settled = [row.entry_key for row in ended if self._settle(planned, row.entry_key, job_from(row))]
        if not settled:
            return []
        self._keep_within_budget(planned)
        return [entry_from(row) for row in self._store.all(_entries(planned).where(ENTRY.table_key.in_(settled)))]

    def leave(self, planned: Pass, entry: PassEntry, reason: str, state: EntryState = EntryState.WAITING) -> bool:
        """End an entry that is not maintained; ``False`` when it is not in the state that it was read in any more."""
        mine = _entry(planned.pass_id, entry.table.lock_key, entry.state)
        values = {"state": state.value, "reason": storable(reason), "ended_at": self._store.clock()}
        aged = sa.update(fleet_tables).where(TABLE.table_key == entry.table.lock_key)

        def write(conn: sa.Connection) -> bool:
            if conn.execute(sa.update(fleet_entries).where(mine).values(values)).rowcount != 1:
                return False
            if state is EntryState.WAITING:
                conn.execute(aged.values(passes_waited=TABLE.passes_waited + 1))
            return True

        return self._store.transact(write)

    def withdraw(self, planned: Pass, reason: str, entries: Iterable[PassEntry] | None = None) -> int:
        """Withdraw the jobs that no worker has claimed; return how many.

        :param entries: only of these; ``None`` for all of the pass.
        """
        left = 0
        for entry in self._passes.entries(planned.pass_id, [EntryState.SUBMITTED]) if entries is None else entries:
            # A process that is killed between the two leaves a cancelled job, which the next settle finds.
            if entry.job_id is not None and withdraw(self._store, entry.job_id, reason):
                left += self.leave(planned, entry, reason)
        return left

    def close(self, planned: Pass) -> bool:
        """Record what has ended, and withdraw what no worker has claimed.

        :returns: whether the pass is over; ``False`` while a worker has a job of it.
        """
        now = self._store.clock()
        self.settle(planned)
        for entry in self._passes.entries(planned.pass_id, [EntryState.CHOSEN]):
            self.leave(planned, entry, NOT_SUBMITTED)
        is_over = planned.ends_at is not None and now >= planned.ends_at
        self.withdraw(planned, OUT_OF_TIME if is_over else NOT_CLAIMED)
        self.settle(planned)
        return not self._passes.entries(planned.pass_id, [EntryState.SUBMITTED])

    def _settle(self, planned: Pass, table_key: str, job: Job) -> bool:
        state, reason = _outcome(job)
        outcomes = [Outcome.of(result) for result in job.results]
        seconds, measured = (
            sum(each.seconds for each in outcomes),
            [each.gb_hours for each in outcomes if each.gb_hours is not None],
        )
        # Where the memory of the session is not known, the estimate has it.
        in_proportion = ENTRY.gb_hours * seconds / sa.case((ENTRY.seconds > 0, ENTRY.seconds), else_=1.0)
        values: dict[str, Any] = {
            "state": state.value,
            "reason": reason,
            "ended_at": job.completed_at,
            "spent_gb_hours": sum(measured) if measured else in_proportion,
            "spent_bytes": sum(each.bytes_rewritten for each in outcomes),
            "spent_seconds": seconds,
            "removed": sum(each.files_removed for each in outcomes),
        }
        mine = _entry(planned.pass_id, table_key, EntryState.SUBMITTED)
        waited = TABLE.passes_waited + 1 if state is EntryState.WAITING or _has_waited_for_producers(job) else 0
        aged = sa.update(fleet_tables).where(TABLE.table_key == table_key).values(passes_waited=waited)

        def write(conn: sa.Connection) -> bool:
            if conn.execute(sa.update(fleet_entries).where(mine).values(values)).rowcount != 1:
                return False
            conn.execute(aged)
            return True

        return self._store.transact(write)

    def _keep_within_budget(self, planned: Pass) -> None:
        """Withdraw waiting jobs, the last ones first, while outcomes and estimates together are beyond the budget."""
        used = self._store.all(USED.where(ENTRY.pass_id == planned.pass_id))[0]
        gb_hours, rewritten = used.gb_hours or 0.0, used.bytes or 0
        if _is_within(planned.budget, gb_hours, rewritten):
            return
        waiting = _entries(planned).where(ENTRY.state == EntryState.SUBMITTED.value)
        for entry in map(entry_from, reversed(self._store.all(waiting))):
            if self.withdraw(planned, OVERSPENT, [entry]):
                gb_hours, rewritten = gb_hours - entry.cost.gb_hours, rewritten - entry.cost.bytes
            if _is_within(planned.budget, gb_hours, rewritten):
                return


def _entry(pass_id: str, table_key: str, *states: EntryState) -> sa.ColumnElement[bool]:
    """Select an entry while it is in one of these states."""
    this = sa.and_(ENTRY.pass_id == pass_id, ENTRY.table_key == table_key)
    return sa.and_(this, ENTRY.state.in_([state.value for state in states]))


def _entries(planned: Pass) -> sa.Select[Any]:
    return sa.select(fleet_entries).where(ENTRY.pass_id == planned.pass_id).order_by(*BY_PLACE.order())


def _is_within(budget: Budget, gb_hours: float, rewritten: int) -> bool:
    # The sum of the database may be a little more than that of the estimates which the plan has added exactly.
    return (budget.bytes is None or rewritten <= budget.bytes) and (
        budget.gb_hours is None or gb_hours <= budget.gb_hours * (1 + 1e-9)
    )


def _has_waited_for_producers(job: Job) -> bool:
    """Whether an action that the table needed waited for a DAG that writes to the table, while others ran."""
    return job.plan is not None and waits_for_producers(TablePlan.from_json(job.table, job.plan))


def _outcome(job: Job) -> tuple[EntryState, str | None]:
    match job.status:
        case JobStatus.COMPLETED:
            return EntryState.MAINTAINED, None
        case JobStatus.CANCELLED:
            how = f" by {job.cancelled_by}." if job.cancelled_by else f": {job.error}"
            return EntryState.WAITING, f"Its job was cancelled{how}"
        case _:
            return EntryState.FAILED, job.error
