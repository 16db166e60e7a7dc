"""The scheduler: takes in events, evaluates due pending runs, and starts those that may start, round by round.

    scheduler = Scheduler(store, airflow, starter, "scheduler-1")
    scheduler.step()
    scheduler.worker().run(stop)      # until the event is set

The dispatcher DAG and ``airflow snowpack scheduler`` both run it, and any number of instances share the work. The invariant: all
state is in the store, so the next round of any instance continues where a process ended.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.lineage.operations import EDGES, OPERATIONS
from airflow_snowpack.scheduling.airflow_port import AirflowPort, Starter
from airflow_snowpack.scheduling.events.event_intake import EventIntake
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.launches.missing_dags import MissingDags
from airflow_snowpack.scheduling.launches.run_ends import RunEnds
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.model import RoundReport
from airflow_snowpack.scheduling.retention import KEEP, retained
from airflow_snowpack.store import Store
from airflow_snowpack.store.retention import Pruner
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.store.worker import Worker
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls

log = logging.getLogger(__name__)

TIDY_EVERY = timedelta(hours=1)
ROUND_PATIENCE = timedelta(seconds=1)
"""How long a round of a running scheduler waits for each answer from Airflow."""
SEARCH_LIMIT = timedelta(minutes=5)
"""How long one search for ended runs or missing DAGs may take."""
RETRY_AFTER = timedelta(seconds=5)
"""The pause after a failed round: an outage of Airflow or the store must not be hit twice a second."""


class Scheduler:
    """All parts of the scheduler except the poller, which has its own thread (:meth:`Poller.worker`).

    :param name: the name in its claims of launches.
    :param sign: its sign of life; ``None`` for one of this process.
    :param patience: how long a round waits for each answer from Airflow, which then continues in a thread, so that a slow Airflow
        delays neither the intake nor runs that need no answer. ``None``: as long as Airflow may take.
    """

    def __init__(
        self,
        store: Store,
        airflow: AirflowPort,
        starter: Starter,
        name: str,
        sign: SignOfLife | None = None,
        *,
        patience: timedelta | None = None,
    ) -> None:
        self._store = store
        self._patience = patience
        self._searches = TimedCalls[str, int | None](limit=SEARCH_LIMIT)
        self._intake = EventIntake(store, sign)
        self._run_ends = RunEnds(store, airflow)
        self._checker = Checker(store, airflow)
        self._launcher = Launcher(store, starter, name, patience)
        self._missing_dags = MissingDags(store, airflow)
        self._tidy_at: datetime | None = None
        self._pruner: Pruner | None = None

    def step(self) -> RoundReport:
        self._search()
        report = RoundReport(matched=self._intake.step())
        try:
            for checked in self._checker.parts():
                report += checked
                if checked.reserved:  # start them before the rest is evaluated
                    report += self._launcher.step()
                if self._patience is not None:  # events do not wait either
                    report += RoundReport(matched=self._intake.step())
        finally:  # start what is reserved, whatever stops the checker
            report += self._launcher.step()
        self._tidy()
        for run_id in report.launched:
            log.info("Launched %s", run_id)
        return report

    def _search(self) -> None:
        searches = {
            "The search for the ends of runs": self._run_ends.step,
            "The search for missing DAGs": self._missing_dags.step,
        }
        for _, result in self._searches.run(searches, patience=self._patience):
            if isinstance(result, NoAnswer):
                log.warning("search_not_finished: %s", result)
            elif isinstance(result, Exception):
                raise result

    def worker(self, pause: timedelta = timedelta(milliseconds=500)) -> Worker:
        """Return a worker that runs rounds, with a pause after idle ones. A failed round is logged and repeated."""

        def work() -> bool:
            return not self.step().is_idle

        return Worker(
            work, name="scheduler", failure="round_failed", every=pause, retry_after=RETRY_AFTER, survives=(SnowpackError,)
        )

    def _tidy(self) -> None:
        """Delete one batch of old rows; all batches once in :data:`TIDY_EVERY`.

        A scheduler launches nothing while it deletes, so the rows of a year are deleted over many rounds.
        """
        if self._pruner is None:
            now = self._store.clock()
            if self._tidy_at is not None and now < self._tidy_at:
                return
            self._tidy_at = now + TIDY_EVERY
            self._pruner = Pruner(self._store, (*retained(self._store), OPERATIONS, EDGES), older_than=KEEP)
        # A failed batch is retried an hour later: it must not fail every round.
        pruner, self._pruner = self._pruner, None
        if pruner.step():
            self._pruner = pruner
        elif gone := pruner.rows.total():
            log.info("Deleted %s rows that are older than %s", gone, KEEP)
