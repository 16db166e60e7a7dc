"""The fleet of one catalog, and its passes from start to report.

    planned = fleet.start("dag/run/plan", Budget(gb_hours=200), workers=4, holder="pod-1")   # plans it, and submits its jobs
    drain = fleet.drain(planned, "pod-1")                                                    # in each worker
    drain.run(JobWorker(jobs, make_engine, "pod-1", claim_next=drain.claim_next, catalog_id=fleet.catalog_id))
    fleet.report(planned)                                                                    # ends it

The retry of a killed task can repeat each of the three. The invariant: a pass that starts ends the open passes of the same DAG or
of killed commands, so that no table stays locked for a job that no worker claims.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import plural
from airflow_snowpack.maintenance.fleet.drain import Drain
from airflow_snowpack.maintenance.fleet.errors import PassNotPlanned, PassOfOtherCatalog
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.fleet.passes import BEAT, PASS_LEASE
from airflow_snowpack.maintenance.fleet.progress import NOT_SUBMITTED
from airflow_snowpack.maintenance.fleet.ranking import workers_worth
from airflow_snowpack.maintenance.submit import refuse_if_draining
from airflow_snowpack.store.keep_alive import KeepAlive

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.jobs import Jobs
    from airflow_snowpack.maintenance.fleet.budget import Budget
    from airflow_snowpack.maintenance.fleet.passes import FleetPasses
    from airflow_snowpack.maintenance.fleet.planner import FleetPlanner
    from airflow_snowpack.maintenance.fleet.progress import PassWork
    from airflow_snowpack.maintenance.fleet.report import PassReport
    from airflow_snowpack.maintenance.writers import DagsOfTables

log = logging.getLogger(__name__)

ABANDONED_AFTER = timedelta(days=2)
"""A pass of another DAG counts as abandoned after this time, or after its budget's time if that is longer."""
COMMAND = "command-"
"""The prefix of the owner of a pass that one process plans, maintains and reports. The pass is abandoned when this process stops
renewing its lease; see :meth:`Fleet.attend`.
"""


@dataclass(frozen=True)
class Fleet:
    """Runs passes over one catalog.

    :param catalog: the installation's name of the catalog; ``catalog_id`` identifies it.
    :param connect: connects to the catalog.
    :param dags_of_tables: returns the DAGs that write to tables; ``None``: reports omit them.
    """

    catalog: str
    catalog_id: str
    passes: FleetPasses
    jobs: Jobs
    work: PassWork
    planner: FleetPlanner
    connect: Callable[[], Catalog]
    dags_of_tables: Callable[[], DagsOfTables] | None = None

    def start(
        self, owner: str, budget: Budget, *, workers: int, holder: str, begun: Callable[[str], None] = lambda _: None
    ) -> Pass:
        """Plan a pass and submit its jobs, or resume the owner's open pass.

        :param owner: such as ``dag/run/task``; the part before the first slash names the fleet's DAG.
        :param begun: called with the id of the pass before it is planned, so that it can be ended if planning fails.
        :raises DrainModeOn: submissions are refused; a retry continues.
        :raises PassTakenOver: another try of the same owner plans the pass.
        :raises CatalogUnreachable: the catalog does not answer; a retry plans the pass.
        """
        refuse_if_draining(self.jobs)
        self.jobs.sweep()  # so that claims of lost workers can be withdrawn
        self._end_earlier(owner)
        this = self.passes.begin(owner, self.catalog, self.catalog_id, budget, workers=workers, holder=holder)
        begun(this.pass_id)
        planned = self.planner.plan(this) if this.state is PassState.PLANNING else this
        submitted = self.work.submit(planned)
        log.info("Pass %s: %s submitted", planned.pass_id, plural(submitted, "job"))
        return planned

    def workers_needed(self, planned: Pass) -> int:
        """Return how many workers the rest of a pass is worth, at most those of the pass; see :func:`.ranking.workers_worth`."""
        left = self.passes.entries(planned.pass_id, [EntryState.SUBMITTED])
        return workers_worth([entry.estimate.seconds for entry in left], most=planned.workers, within=planned.budget.time)

    def attend(self, pass_id: str) -> KeepAlive:
        """Return a context manager in which this process keeps its pass alive, from the beginning to the report."""
        passes = self.passes
        return KeepAlive(lambda: passes.keep(pass_id), every=BEAT, lost_after=PASS_LEASE, what=f"pass {pass_id}")

    def drain(self, planned: Pass, worker_id: str) -> Drain:
        """Return what chooses the jobs of one worker, and reads the health of each table after its job.

        :raises PassOfOtherCatalog: none of its tables would be found.
        """
        if planned.catalog_id != self.catalog_id:
            raise PassOfOtherCatalog(planned.pass_id, self.catalog)
        hold, after = self.planner.hold, self._read_again
        return Drain(self.work, self.jobs, planned, self.connect, worker_id, hold=hold, after=after)

    def report(self, planned: Pass, *, ask_airflow: bool = True) -> PassReport:
        """End a pass and return its report, with the writers that failed meanwhile if Airflow answers within minutes.

        While a worker still has a job, the pass stays open, and the report names the table.
        """
        return self.work.end(planned, self.dags_of_tables if ask_airflow else None)

    def refuse_if_not_planned(self, pass_id: str) -> None:
        """:raises PassNotPlanned: the ended pass was not planned, or some of its jobs were not submitted."""
        left = self.passes.entries(pass_id, [EntryState.WAITING])
        if self.passes.get(pass_id).planned_at is None or any(entry.reason == NOT_SUBMITTED for entry in left):
            raise PassNotPlanned(pass_id)

    def _end_earlier(self, owner: str) -> None:
        dag, now = owner.partition("/")[0], self.passes.store.clock()
        for earlier in self.passes.open(self.catalog, self.catalog_id):
            if earlier.owner == owner:
                continue
            if earlier.owner.partition("/")[0] == dag or _abandoned_at(earlier) < now:
                log.warning("Pass %s of %s was left open; it ends now", earlier.pass_id, earlier.owner)
                self.report(earlier, ask_airflow=False)

    def _read_again(self, entry: PassEntry) -> None:
        if entry.state not in (EntryState.MAINTAINED, EntryState.FAILED):
            return
        try:
            self.planner.refresh(entry.table)
        except SnowpackError as problem:  # the next pass reads it
            log.warning("health_not_read: %s: %s", entry.table, problem)


def _abandoned_at(planned: Pass) -> datetime:
    """Return when an open pass counts as abandoned by its processes."""
    if planned.owner.startswith(COMMAND):
        return planned.leased_until
    return max(planned.started_at + ABANDONED_AFTER, planned.ends_at or planned.started_at)
