"""Record ended DAG runs and changed assets as events in the store, and wake the collector of interim tables.

Airflow calls the listener in its scheduler, API server and triggerer, before their transaction is committed. Invariant: nothing
here raises or waits longer than a second for the store (:mod:`airflow_snowpack.plugin.outbox`). A call that is lost with its
process is recovered if Airflow can report it later: schedulers read the ends of runs from Airflow
(:mod:`airflow_snowpack.scheduling.launches.run_ends`), and the collector checks every run with interim tables from time to time.
A changed asset, or a run marked by hand long after its end, is lost.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow_snowpack.plugin.outbox import Outbox
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

UNTIL_AIRFLOW_HAS_COMMITTED = timedelta(seconds=2)


class StoreListener:
    """Airflow's listener for DAG runs and assets."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """Record a run that succeeded or was marked as success."""
        self._record(lambda: self._ended(dag_run, "success"))

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """Record a run that failed or was marked as failed."""
        self._record(lambda: self._ended(dag_run, "failed"))

    @hookimpl
    def on_asset_event_emitted(self, asset_event: Any) -> None:
        """Record an asset update by a task, a watcher or a user."""
        self._record(lambda: self._changed(asset_event))

    def _record(self, send: Any) -> None:
        try:
            if self._is_wanted:
                send()
        except Exception:  # Airflow must not fail because of this package
            log.exception("Snowpack could not record an event of Airflow")

    @cached_property
    def _is_wanted(self) -> bool:
        from airflow_snowpack.settings import Settings

        return Settings.load().listen_to_airflow

    @cached_property
    def _outbox(self) -> Outbox:
        from airflow_snowpack.plugin.outbox import Outbox

        return Outbox(_open_store)

    def _ended(self, dag_run: Any, state: str) -> None:
        dag_id, run_id, at = str(dag_run.dag_id), str(dag_run.run_id), dag_run.end_date or datetime.now(UTC)
        began_at = dag_run.start_date

        def write(store: Store) -> None:
            from airflow_snowpack.interim import InterimRegistry
            from airflow_snowpack.scheduling import Runs

            Runs(store).ended(dag_id, run_id, state, at, began_at=began_at)
            # Its interim tables may be dropped: the collector checks soon, but not before Airflow has committed the end.
            InterimRegistry(store).nudge(dag_id, run_id, at_once=False)

        self._outbox.send(f"the end of run {run_id} of {dag_id}", write)
        # A process that this wakes may read Airflow before the commit, and still see the run as active.
        again = threading.Timer(UNTIL_AIRFLOW_HAS_COMMITTED.total_seconds(), self._wake, args=(dag_id,))
        again.daemon = True
        again.start()

    def _wake(self, dag_id: str) -> None:
        from airflow_snowpack.scheduling import Runs

        self._outbox.send(f"that runs of {dag_id} have ended", lambda store: Runs(store).wake(dag_id))

    def _changed(self, event: Any) -> None:
        uri, at = str(event.asset.uri), datetime.now(UTC)
        source = {"dag_id": event.source_dag_id, "run_id": event.source_run_id, "task_id": event.source_task_id}
        detail = {"extra": dict(event.extra or {}), "source": source, "partition_key": event.partition_key}
        # Drawn here, so a retry after a lost response adds nothing. Airflow's id is uncommitted and may go to another event.
        source_id = f"asset-event:{uuid4().hex}"

        def write(store: Store) -> None:
            from airflow_snowpack.scheduling import Event, EventLog
            from airflow_snowpack.scheduling.triggers.trigger import asset_key

            EventLog(store).publish([Event(asset_key(uri), at, detail=detail, source_id=source_id)])

        self._outbox.send(f"an event of the asset {uri}", write)


def _open_store() -> Store:
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.store import Deadlines

    return SnowpackHook(deadlines=Deadlines(connections=2)).store()
