"""A worker of a pass, which claims and runs the jobs of the pass in order.

    drain = Drain(work, jobs, planned, load_catalog, "pod-7", hold=planner.hold)
    worker = JobWorker(jobs, make_engine, "pod-7", claim_next=drain.claim_next, ...)
    ended = drain.run(worker)                    # until nothing is left to claim

Before a job is claimed, its table is loaded once. This finds tables that were dropped or renamed, or whose columns the plan's
predicate no longer matches, without a Spark session. A job that must wait, such as for the end of quiet hours, is postponed. A
running job is stopped when the pass's time ends or no GB·h are left for it. Any number of workers may drain one pass: claims are
fenced, so each job runs in one worker at a time.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration
from airflow_snowpack.iceberg import TableNotFound, TableUnreadable, load_table
from airflow_snowpack.maintenance.errors import InvalidOption, InvalidPredicate
from airflow_snowpack.maintenance.fleet.model import EntryState
from airflow_snowpack.maintenance.submit import check_against

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.jobs import Claim, Job, Jobs, JobStatus, JobWorker
    from airflow_snowpack.maintenance.fleet.holds import Hold
    from airflow_snowpack.maintenance.fleet.model import Pass, PassEntry
    from airflow_snowpack.maintenance.fleet.progress import JobUsage, PassWork

log = logging.getLogger(__name__)

GONE = "It was dropped or renamed after it was planned."
CHANGED = "It was changed after it was planned, and its plan does not fit any more: {problem}"


class Drain:
    """Chooses the next job of a pass for one worker.

    :param connect: connects to the catalog; called once, when there is something to claim.
    :param worker_id: the worker that claims.
    :param hold: returns why the job of an entry does not start now; ``None`` if it may.
    :param after: called with each ended entry, for example to read the table's health again.
    """

    def __init__(
        self,
        work: PassWork,
        jobs: Jobs,
        planned: Pass,
        connect: Callable[[], Catalog],
        worker_id: str,
        *,
        hold: Callable[[Table, PassEntry], Hold | None],
        after: Callable[[PassEntry], None] = lambda _: None,
    ) -> None:
        self._work = work
        self._jobs = jobs
        self._pass = planned
        self._connect = connect
        self._catalog: Catalog | None = None
        self._worker_id = worker_id
        self._hold = hold
        self._after = after
        self._next: PassEntry | None = None
        self._counting = threading.Lock()
        self._counted: tuple[str | None, JobUsage | None] = (None, None)  # an attempt and the usage of its job

    def claim_next(self) -> Claim | None:
        """Claim the job chosen by :meth:`run`; ``None`` if another worker was first."""
        entry = self._next
        if entry is None or entry.job_id is None:
            return None
        return self._jobs.claim(self._worker_id, job_id=entry.job_id, catalog_id=self._pass.catalog_id)

    def run(self, worker: JobWorker) -> Counter[JobStatus]:
        """Run jobs until the pass allows no more; return how many ended in each status."""
        ended: Counter[JobStatus] = Counter()
        # Without a choice, the worker only resumes claims of an earlier try of its task.
        self._count(ended, worker.run_once(self._limit))
        refused = None
        while not self._jobs.drain().on and (entry := self._choose()) is not None:
            if entry.job_id == refused:
                break  # the job was not claimed although it can be: the worker is stopping
            self._next = entry
            status = worker.run_once(self._limit)
            refused = entry.job_id if status is None else None
            self._count(ended, status)
        return ended

    def _limit(self, job: Job, gb_hours: float | None) -> str | None:
        """Return why a running job has to stop; ``None`` while the budget allows it."""
        now, ends_at = self._jobs.store.clock(), self._pass.ends_at
        stopped = f"Stopped after {duration((now - (job.started_at or now)).total_seconds())}"
        if ends_at is not None and now >= ends_at:
            return f"{stopped}: the time of the pass is over."
        if self._pass.budget.gb_hours is None:
            return None
        with self._counting:  # called by the heartbeat's and the job's thread
            if self._counted[0] != job.attempt_id:
                self._counted = job.attempt_id, self._work.usage(self._pass, job)
            usage = self._counted[1]
            if usage is None or self._work.allows(self._pass, usage, gb_hours):
                return None
        return f"{stopped}: the GB·h of the budget are used."

    def _count(self, ended: Counter[JobStatus], status: JobStatus | None) -> None:
        self._next = None
        if status is None:
            return
        ended[status] += 1
        for entry in self._work.settle(self._pass):
            self._after(entry)

    def _choose(self) -> PassEntry | None:
        """Return the first entry whose job may start; end or postpone the entries before it."""
        while first := self._work.claimable(self._pass, limit=1):
            (entry,) = first
            if self._may_start(entry):
                return entry
        return None

    def _may_start(self, entry: PassEntry) -> bool:
        """Return whether the table of an entry is as its plan expects; if not, end or postpone its job."""
        self._catalog = self._catalog or self._connect()
        try:
            table = load_table(self._catalog, entry.table)
            check_against(table, entry.table.dotted, entry.options)
        except TableNotFound:
            return self._leave(entry, GONE, EntryState.GONE)
        except TableUnreadable as problem:
            return self._leave(entry, str(problem), EntryState.UNREADABLE)
        except (InvalidPredicate, InvalidOption) as problem:
            return self._leave(entry, CHANGED.format(problem=problem))
        hold = self._hold(table, entry)
        if hold is None:
            return True
        if hold.until is None:
            return self._leave(entry, hold.reason)
        log.info("table_postponed: %s: %s", entry.table, hold.reason)
        self._work.postpone(self._pass, entry, hold.reason, hold.until)
        return False

    def _leave(self, entry: PassEntry, reason: str, state: EntryState = EntryState.WAITING) -> bool:
        log.warning("table_left_out: %s: %s", entry.table, reason)
        if entry.job_id is not None:
            self._work.withdraw(self._pass, [entry.job_id], reason, state)
        return False
