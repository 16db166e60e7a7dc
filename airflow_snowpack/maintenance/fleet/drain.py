"""A worker of a pass: it claims the jobs of the pass in their order, one after the other.

    drain = Drain(work, jobs, planned, load_catalog, "pod-7")
    worker = JobWorker(jobs, make_engine, "pod-7", claim_next=drain.claim_next, ...)
    ended = drain.run(worker)                    # until nothing is left to claim

Before a job is claimed, its table is loaded once: a table that was dropped or renamed since it was planned, or whose columns the
predicate of the plan does not match any more, needs no Spark session to find out. Any number of workers may drain one pass; a
claim is fenced, so each job runs in one of them at a time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import TableNotFound, TableUnreadable, load_table
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.maintenance.errors import InvalidOption, InvalidPredicate
from airflow_snowpack.maintenance.fleet.model import EntryState
from airflow_snowpack.maintenance.submit import check_against

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.jobs import Claim, Jobs, JobStatus, JobWorker
    from airflow_snowpack.maintenance.fleet.model import Pass, PassEntry
    from airflow_snowpack.maintenance.fleet.progress import PassWork

log = logging.getLogger(__name__)

GONE = "It was dropped or renamed after it was planned."
CHANGED = "It was changed after it was planned, and its plan does not fit any more: {problem}"


class Drain:
    """Chooses the next job of a pass for one worker.

    :param connect: connects to the catalog; called once, when there is something to claim.
    :param worker_id: the name that claims carry.
    :param after: called with each entry that has ended, such as to read the health of the table again.
    """

    def __init__(
        self,
        work: PassWork,
        jobs: Jobs,
        planned: Pass,
        connect: Callable[[], Catalog],
        worker_id: str,
        *,
        after: Callable[[PassEntry], None] = lambda _: None,
    ) -> None:
        self._work = work
        self._jobs = jobs
        self._pass = planned
        self._connect = connect
        self._catalog: Catalog | None = None
        self._worker_id = worker_id
        self._after = after
        self._next: PassEntry | None = None

    def claim_next(self) -> Claim | None:
        """Claim the job that :meth:`run` has chosen; ``None`` if another worker was first."""
        entry = self._next
        if entry is None or entry.job_id is None:
            return None
        return self._jobs.claim(self._worker_id, job_id=entry.job_id, catalog_id=self._pass.catalog_id)

    def run(self, worker: JobWorker) -> Counter[JobStatus]:
        """Run jobs until none is left that this pass allows; return how many ended in which status."""
        ended: Counter[JobStatus] = Counter()
        # Without a choice, the worker only resumes what an earlier try of its task has claimed.
        self._count(ended, worker.run_once())
        refused = None
        while not self._jobs.drain().on and (entry := self._choose()) is not None:
            if entry.job_id == refused:
                break  # it can be claimed and was not: the worker is leaving
            self._next = entry
            status = worker.run_once()
            refused = entry.job_id if status is None else None
            self._count(ended, status)
        return ended

    def _count(self, ended: Counter[JobStatus], status: JobStatus | None) -> None:
        self._next = None
        if status is None:
            return
        ended[status] += 1
        for entry in self._work.settle(self._pass):
            self._after(entry)

    def _choose(self) -> PassEntry | None:
        """Return the first entry whose table is as its plan needs it; end those whose table is not."""
        while True:
            first = self._work.claimable(self._pass, limit=1)
            if not first:
                return None
            (entry,) = first
            problem = self._problem(entry)
            if problem is None:
                return entry
            state, reason = problem
            log.warning("table_left_out: %s: %s", entry.table, reason)
            if entry.job_id is not None and withdraw(self._jobs.store, entry.job_id, reason):
                self._work.leave(self._pass, entry, reason, state)

    def _problem(self, entry: PassEntry) -> tuple[EntryState, str] | None:
        if self._catalog is None:
            self._catalog = self._connect()
        try:
            check_against(load_table(self._catalog, entry.table), entry.table.dotted, entry.options)
        except TableNotFound:
            return EntryState.GONE, GONE
        except TableUnreadable as problem:
            return EntryState.UNREADABLE, str(problem)
        except (InvalidPredicate, InvalidOption) as problem:
            return EntryState.WAITING, CHANGED.format(problem=problem)
        return None
