"""Interim tables without Spark: a catalog that PyIceberg writes to, runs whose states a test tells, and tables handed on.

lake = InterimLake(registry, catalog)
ref = lake.handed_on("clean", consumers=["report"])
reported.finish("report")
lake.collect(reported).dropped
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clocks import MovedClock

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.model import Collected, DagRunState, RunPhase, RunQuery
from airflow_snowpack.interim.model import UNKNOWN, OutputOptions, TaskAttempt, Writing
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import InterimRegistry, Output, find_named
from airflow_snowpack.interim.rows import ref_from

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAG, RUN = "flights", "manual__1"
LAKE = "lake"


@dataclass
class ReportedRuns:
    """Answers what a test has reported it: every run is active and every task runs, until it says otherwise."""

    phases: dict[tuple[str, str], RunPhase] = field(default_factory=dict)
    states: dict[tuple[str, str, str], dict[int, str | None]] = field(default_factory=lambda: defaultdict(dict))
    asked: list[RunQuery] = field(default_factory=list)
    silent: Exception | None = None

    def read(self, asked: Sequence[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
        self.asked += asked
        if self.silent is not None:
            raise self.silent
        return {(run.dag_id, run.run_id): self._standing(run) for run in asked}

    def _standing(self, run: RunQuery) -> DagRunState:
        phase = self.phases.get((run.dag_id, run.run_id), RunPhase.ACTIVE)
        return DagRunState(phase, {task: dict(self.states[run.dag_id, run.run_id, task]) for task in run.task_ids})

    def set(self, task_id: str, state: str | None, *, map_index: int = -1, run_id: str = RUN, dag_id: str = DAG) -> None:
        self.states[dag_id, run_id, task_id][map_index] = state

    def finish(self, *task_ids: str, run_id: str = RUN) -> None:
        for task_id in task_ids:
            self.set(task_id, "success", run_id=run_id)

    def end(self, run_id: str = RUN, phase: RunPhase = RunPhase.OVER) -> None:
        self.phases[DAG, run_id] = phase


def holder(
    task_id: str, *, try_number: int = 1, run_id: str = RUN, map_index: int = -1, started_at: datetime = UNKNOWN
) -> TaskAttempt:
    """A try of a task of the one DAG."""
    return TaskAttempt(TaskRef(DAG, run_id, task_id, map_index), f"{task_id}-{map_index}-{try_number}", try_number, started_at)


@cache
def _rows() -> Any:
    import pyarrow as pa

    return pa.table({"id": [1, 2, 3]})


def new_catalog(home: Path) -> Catalog:
    """An embedded catalog with the namespace."""
    catalog = CatalogConfig.embedded(home).load()
    catalog.create_namespace("snowpack_interim")
    return catalog


class InterimLake:
    """A registry, and the catalog that its tables are in."""

    def __init__(self, registry: InterimRegistry, catalog: Catalog) -> None:
        self.registry = registry
        self.catalog = catalog
        self.created: set[str] = set()

    @staticmethod
    def rows() -> Any:
        """What every table holds: an Arrow table."""
        return _rows()

    def begun(
        self, task_id: str, *, run_id: str = RUN, try_number: int = 1, started_at: datetime = UNKNOWN, **options: Any
    ) -> Writing:
        """On record, and not created."""
        who = holder(task_id, run_id=run_id, try_number=try_number, started_at=started_at)
        output = options.pop("output", "return_value")
        return self.registry.begin(who, catalog=LAKE, output=output, options=OutputOptions(**options))

    def create(self, writing: Writing, *, with_rows: bool = False) -> int | None:
        """The table; the snapshot's id, if it has rows."""
        table = self.catalog.create_table(writing.table.identifier, schema=_rows().schema)
        self.created.add(str(writing.table))
        if with_rows:
            table.append(_rows())
        snapshot = table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def handed_on(self, task_id: str, *, consumers: Iterable[str] = (), with_rows: bool = False, **options: Any) -> TableRef:
        """What a task returned."""
        writing = self.begun(task_id, **options)
        snapshot_id = self.create(writing, with_rows=with_rows)
        return self.registry.commit(Output(writing, snapshot_id, 3 if with_rows else 0), consumers=consumers)[0]

    def named(self, name: str, task_id: str = "clean", *, scope: Scope = Scope.GLOBAL, **options: Any) -> TableRef:
        """What a task returned, under a name."""
        return self.handed_on(task_id, name=name, scope=scope, **options)

    def collector(self, runs: ReportedRuns) -> Collector:
        return Collector(self.registry, runs, lambda _: self.catalog)

    def collect(self, runs: ReportedRuns, *, later: timedelta = timedelta(hours=2), **options: Any) -> Collected:
        """A pass, some time later, so that every run and every dead attempt's lease is due."""
        clock = self.registry.store.clock
        assert isinstance(clock, MovedClock)
        clock.move(later)
        return self.collector(runs).run(**options)

    def tables(self) -> set[str]:
        """What of this lake's tables the catalog has."""
        return self.created & {f"{LAKE}.{'.'.join(name)}" for name in self.catalog.list_tables((self.registry.policy.namespace,))}


def table_named(
    registry: InterimRegistry, name: str, *, scope: Scope = Scope.GLOBAL, dag_id: str = "", run_id: str = ""
) -> TableRef | None:
    """The table that a name points to now, which nothing keeps from being dropped."""
    row = registry.store.read(lambda conn: find_named(conn, name, scope, dag_id, run_id))
    return None if row is None else ref_from(row)
