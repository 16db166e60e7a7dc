"""From what happened to a queued DAG run, on a running Airflow: by a schedule, and by Airflow's own AssetWatcher beside it.

The same commits of the same table are looked for by both, each once a second. Airflow's way is its triggerer, which leaves an
asset event, and its scheduler, which makes the run; the watcher that stands in its triggerer is ours. ``queued_at`` of the run is
what counts, in both ways.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.scheduling import CommitsAdded, CustomEvents, Event, EventLog, Schedule, Schedules
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.schedules import considered
from benchmarks.results import Finding, Results
from benchmarks.schedules_airflow import Airflow, eventually, running_airflow

TABLE = "bench.watched"
DAGS = f"""
from datetime import datetime, timedelta, timezone

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset
from airflow_snowpack.assets import IcebergTableWatcher
from airflow_snowpack.operators import SnowpackDispatcherOperator

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
with DAG("dispatcher", schedule="@continuous", start_date=BEGAN, catchup=False, max_active_runs=1):
    SnowpackDispatcherOperator(task_id="dispatch")

for target in ("by_event", "by_commit"):
    with DAG(target, schedule=None):
        EmptyOperator(task_id="work")

watcher = IcebergTableWatcher("{TABLE}", poll=timedelta(seconds=1))
with DAG("by_watcher", schedule=Asset("iceberg://lake/bench/watched", watchers=[watcher])):
    EmptyOperator(task_id="work")
"""
DAG_IDS = ("dispatcher", "by_event", "by_commit", "by_watcher")
SAMPLES = 10
DEFERRED_SAMPLES = 2
UNTIL_IT_CAN_BE_WOKEN_S = 12.0
AT_MOST_S = 3.0


def run(results: Results, *, rounds: int) -> None:
    """Ten samples a round while the dispatcher's task is at work, and two while it waits in the triggerer."""
    working: dict[str, list[float]] = {dag_id: [] for dag_id in DAG_IDS[1:]}
    deferred: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder,
        running_airflow(Path(folder), DAGS) as airflow,
        open_store(airflow.store_url) as store,
    ):
        site = _Site(airflow, store)
        site.get_ready()
        for _ in range(rounds):
            site.wake()
            for _ in range(SAMPLES):
                for dag_id, seconds in site.commit().items():
                    working[dag_id].append(seconds)
                working["by_event"].append(site.send())
            for _ in range(DEFERRED_SAMPLES):
                site.wait_until_deferred()
                deferred.append(site.send())
    _tell(results, "an event in the store → a queued DAG run, median", working["by_event"], AT_MOST_S)
    _tell(results, "a table's commit → a queued DAG run, median", working["by_commit"], AT_MOST_S)
    _tell(results, "the same commits by Airflow's AssetWatcher, median", working["by_watcher"], None)
    _tell(results, "an event → a queued DAG run while the dispatcher waits in the triggerer, median", deferred, AT_MOST_S)


def _tell(results: Results, what: str, seconds: list[float], at_most: float | None) -> None:
    told = ", ".join(f"{each:.2f}" for each in sorted(seconds))
    results.find(Finding(f"{what} in s", statistics.median(seconds), at_most=at_most, says=f"{len(seconds)} samples: {told}"))


class _Site:
    """The table, the schedules, and the clock that is stopped by a queued run."""

    def __init__(self, airflow: Airflow, store: Store) -> None:
        self._airflow = airflow
        self._store = store
        self._log = EventLog(store)
        self._chance = random.Random(7)
        import pyarrow as pa

        catalog = CatalogConfig.embedded(airflow.lake).load()
        catalog.create_namespace_if_not_exists("bench")
        self._rows = pa.table({"id": pa.array([1])})
        self._table: Any = catalog.create_table(TABLE, schema=self._rows.schema)

    def get_ready(self) -> None:
        """The DAGs are known, the watcher has its place in the table, and one run of each has gone through."""
        schedules = Schedules(self._store, catalog="lake")
        for dag_id, trigger in (("by_event", CustomEvents("go")), ("by_commit", CommitsAdded(TABLE))):
            schedules.create(Schedule(dag_id, dag_id=dag_id, trigger=trigger, enabled=True))
        for dag_id in DAG_IDS:
            eventually(lambda dag_id=dag_id: self._airflow.get(f"/dags/{dag_id}", allowed=(200, 404)).get("dag_id"), dag_id)  # type: ignore[misc]  # mypy takes the default for an argument
        watching = sa.select(considered.c.consumer).where(considered.c.consumer.startswith("watcher:"))
        eventually(lambda: self._store.read(lambda conn: conn.execute(watching).first()), "the watcher has found its table")
        self.wake()
        self.commit()

    def wake(self) -> None:
        """Have the dispatcher's task at work."""
        self.send()

    def commit(self) -> dict[str, float]:
        """One commit to the table; the seconds until either way has queued its run."""
        before = {dag_id: set(self._airflow.queued(dag_id)) for dag_id in ("by_commit", "by_watcher")}
        self._let_some_time_pass()
        self._table.append(self._rows)
        return self._until_queued(before)

    def send(self) -> float:
        """One event into the store; the seconds until its run is queued."""
        before = {"by_event": set(self._airflow.queued("by_event"))}
        self._let_some_time_pass()
        self._log.publish([Event(custom_key("go"), self._store.clock())])
        return self._until_queued(before)["by_event"]

    def wait_until_deferred(self) -> None:
        """The task has had nothing to do, and could be woken."""
        eventually(lambda: self._airflow.task_states("dispatcher") == ["deferred"], "the dispatcher waits in the triggerer")
        time.sleep(UNTIL_IT_CAN_BE_WOKEN_S)

    def _until_queued(self, before: dict[str, set[str]]) -> dict[str, float]:
        committed = datetime.now(UTC)
        return {dag_id: (self._new_run(dag_id, known) - committed).total_seconds() for dag_id, known in before.items()}

    def _new_run(self, dag_id: str, known: set[str]) -> datetime:
        """When the run that is not known yet was queued."""

        def look() -> datetime | None:
            return min((at for run_id, at in self._airflow.queued(dag_id).items() if run_id not in known), default=None)

        return eventually(look, f"{dag_id} has another run")

    def _let_some_time_pass(self) -> None:
        """So that samples fall on any moment between two looks."""
        time.sleep(self._chance.uniform(0.5, 2.0))
