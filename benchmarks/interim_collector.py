"""What a pass of the collector costs when 100 interim tables can go: beside none that stay, and beside 9,900.

The tables that stay belong to DAG runs that still have consumers, and that were looked at a while ago; those that go are real
tables of an embedded catalog. Statements of the store are counted, as they are the same on a busy machine. A last figure tells
what it costs once an hour, when every run is looked at again although nothing happened in it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery
from airflow_snowpack.interim.model import TaskAttempt, Writing
from airflow_snowpack.interim.names import table_name_of
from airflow_snowpack.interim.registry import InterimRegistry, Output, table_values
from airflow_snowpack.interim.rows import run_key
from airflow_snowpack.store import Store, upgrade_schema, utc_now
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.interim import interim_pins, interim_runs, interim_tables
from benchmarks.results import Finding, Results

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from benchmarks.postgres import Server

GO, STAY, A_RUN = 100, 9_900, 10
MOST_STATEMENTS, MOST_TIME = 1.0, 1.5
DAG = "flights"


@dataclass(frozen=True)
class Cost:
    """One pass."""

    statements: int
    seconds: float


class DoneRuns:
    """Reports the consumers of a run as finished if its id starts with "done"."""

    def read(self, asked: Sequence[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
        return {(run.dag_id, run.run_id): self._state(run) for run in asked}

    def _state(self, run: RunQuery) -> DagRunState:
        state = "success" if run.run_id.startswith("done") else "running"
        return DagRunState(RunPhase.ACTIVE, {task: {-1: state} for task in run.task_ids})


def run(server: Server, results: Results, *, rounds: int) -> None:
    url = server.fresh_database("bench_interim_collector", durable=True)
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder, Store(open_engine(url)) as store:
        upgrade_schema(store)
        catalog = CatalogConfig.embedded(Path(folder)).load()
        registry, numbers = InterimRegistry(store), count()
        catalog.create_namespace(registry.policy.namespace)
        _pass(registry, catalog, numbers)
        alone = [_pass(registry, catalog, numbers) for _ in range(rounds)]
        _add_staying(registry)
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.exec_driver_sql("ANALYZE")
        beside = [_pass(registry, catalog, numbers) for _ in range(rounds)]
        hourly = _hourly(registry, catalog)
    statements = [statistics.median(cost.statements for cost in costs) for costs in (alone, beside)]
    seconds = [statistics.median(cost.seconds for cost in costs) for costs in (alone, beside)]
    for what, (one, other), limit in (("statements", statements, MOST_STATEMENTS), ("seconds", seconds, MOST_TIME)):
        says = f"{other:.4g} : {one:.4g}, to drop {GO} tables"
        results.find(Finding(f"collector pass, {what} with {GO + STAY:,} tables / {GO}", other / one, at_most=limit, says=says))
    says = f"{hourly.statements} statements for {STAY // A_RUN} runs with {STAY:,} tables that stay"
    results.find(Finding("collector pass, seconds when every run is looked at and nothing goes", hourly.seconds, says=says))


def _pass(registry: InterimRegistry, catalog: Catalog, numbers: Iterator[int]) -> Cost:
    """Make what goes, and time the pass that drops it."""
    for _ in range(GO // A_RUN):
        run_id = f"done{next(numbers)}"
        for number in range(A_RUN):
            writing = registry.begin(_holder(run_id, number), catalog="lake")
            catalog.create_table(writing.table.identifier, schema=_schema())
            registry.commit(Output(writing, 1, 0), consumers=["report"])
        registry.nudge(DAG, run_id)
    with _counted(registry.store) as said:
        begin = time.perf_counter()
        collected = Collector(registry, DoneRuns(), lambda _: catalog).run()
        seconds = time.perf_counter() - begin
    assert len(collected.dropped) == GO, collected
    return Cost(said[0], seconds)


def _hourly(registry: InterimRegistry, catalog: Catalog) -> Cost:
    now = registry.store.clock()
    registry.store.transact(lambda conn: conn.execute(sa.update(interim_runs).values(check_at=now)))
    with _counted(registry.store) as said:
        begin = time.perf_counter()
        collected = Collector(registry, DoneRuns(), lambda _: catalog).run()
        seconds = time.perf_counter() - begin
    assert (collected.dropped, collected.kept) == ((), STAY), collected
    return Cost(said[0], seconds)


def _add_staying(registry: InterimRegistry) -> None:
    """In bulk: these are not what is measured."""
    now = utc_now()
    for first in range(0, STAY // A_RUN, 99):
        runs, tables, pins = [], [], []
        for run_id in (f"going-on{number}" for number in range(first, first + 99)):
            key, later = run_key(DAG, run_id), now + timedelta(minutes=45)
            runs.append({"run_key": key, "dag_id": DAG, "run_id": run_id, "check_at": later, "looks": 6, "touches": 1})
            for number in range(A_RUN):
                writing = _writing(registry, run_id, number)
                ready = {"state": "ready", "ready_at": now, "claimed_at": None, "claimed_by": None, "attempt_id": None}
                tables.append(table_values(writing, now) | ready)
                pins.append({"table_id": writing.table_id, "run_key": key, "task_id": "report"})
        rows = ((interim_runs, runs), (interim_tables, tables), (interim_pins, pins))
        registry.store.transact(lambda conn, rows=rows: [conn.execute(sa.insert(table), each) for table, each in rows])


def _writing(registry: InterimRegistry, run_id: str, number: int) -> Writing:
    holder, table_id = _holder(run_id, number), registry.make_id()
    name = TableName("lake", registry.policy.namespace, table_name_of(holder.producer(), table_id))
    return Writing(table_id, name, holder.producer(), holder, registry.make_id(), registry.store.clock())


def _holder(run_id: str, number: int) -> TaskAttempt:
    return TaskAttempt(TaskRef(DAG, run_id, "clean", number), f"{run_id}-{number}")


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("id", pa.int64())])


@contextmanager
def _counted(store: Store) -> Iterator[list[int]]:
    said = [0]

    def hear(*_arguments: Any) -> None:
        said[0] += 1

    sa.event.listen(store.engine, "before_cursor_execute", hear)
    yield said
    sa.event.remove(store.engine, "before_cursor_execute", hear)
