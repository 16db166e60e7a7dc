"""What Airflow tells of itself: DAG runs that end and assets that change become events of the store, and nudge the collector.

Airflow calls this in its scheduler, its API server and its triggerer, in the middle of their work and before they have committed.
The invariant: nothing here raises, and nothing waits longer than a second for the store (:mod:`airflow_snowpack.plugin.outbox`).
A call that is lost with its process is made good where Airflow can be asked: schedulers ask it for the ends of runs
(:mod:`airflow_snowpack.scheduling.launches.run_ends`), and the collector looks at every run that has interim tables now and then.
That an asset changed, or that a run which ended long ago was marked by hand, is lost with the process: Airflow cannot report it.
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
    """Listens to runs and assets."""

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """A run succeeded, or was marked so."""
        self._heed(lambda: self._ended(dag_run, "success"))

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """A run failed, or was marked so."""
        self._heed(lambda: self._ended(dag_run, "failed"))

    @hookimpl
    def on_asset_event_emitted(self, asset_event: Any) -> None:
        """An asset was updated: by a task, by a watcher, or by somebody's hand."""
        self._heed(lambda: self._changed(asset_event))

    def _heed(self, tell: Any) -> None:
        try:
            if self._is_wanted:
                tell()
        except Exception:  # Airflow goes on, whatever is wrong here
            log.exception("Snowpack could not record what Airflow told")

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
            # Its interim tables may go: the collector is to ask Airflow soon, but not before Airflow has committed the end.
            InterimRegistry(store).nudge(dag_id, run_id, at_once=False)

        self._outbox.send(f"the end of run {run_id} of {dag_id}", write)
        # Whoever was woken by this may look before Airflow has committed it, and still see the run as active.
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
        # Drawn here, so that to write it once more, after an answer of the store was lost, adds nothing. Airflow's own number
        # would not do: it has not been committed, and may be given to another one.
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
