"""Interim tables in every state, for the tests of their API, command line and page.

    made = make_interim(store)
    made.kept.table_id

Everything was written by the registry's own calls; no table of a catalog stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.model import InterimPolicy, OutputOptions, TaskAttempt
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Store

DAG, RUN = "flights", "manual__2026-11-21T06:00:00+00:00"


@dataclass(frozen=True)
class MadeInterim:
    """The tables.

    :ivar needed: two tasks of its run need it, and one of them reads it.
    :ivar free: nobody needs it any more.
    :ivar kept: preserved for a day, and nobody needs it.
    :ivar named: what a global name means.
    :ivar writing: the id of one that is being made.
    """

    registry: InterimRegistry
    needed: TableRef
    free: TableRef
    kept: TableRef
    named: TableRef
    writing: str


def holder(task_id: str, *, map_index: int = -1, run_id: str = RUN, attempt: str = "a1", dag_id: str = DAG) -> TaskAttempt:
    """One attempt at a task of the run."""
    return TaskAttempt(TaskRef(dag_id, run_id, task_id, map_index), attempt)


def make_interim(store: Store) -> MadeInterim:
    """Make them all."""
    registry = InterimRegistry(store, InterimPolicy(lease=timedelta(minutes=30)))  # as an installation has it
    needed = handed_on(registry, holder("ingest"), rows=1_250_000, consumers=["clean", "report"])
    registry.consume([needed], attempt=holder("report"))
    free = handed_on(registry, holder("clean", map_index=3), rows=12)
    kept = handed_on(registry, holder("audit"), rows=7, preservation=Preservation.FULL, ttl=timedelta(days=1))
    named = handed_on(registry, holder("features", run_id="r2"), rows=99, name="features", scope=Scope.GLOBAL)
    writing = registry.begin(holder("slow", run_id="r2"), catalog="lake")
    return MadeInterim(registry, needed, free, kept, named, writing.table_id)


def handed_on(
    registry: InterimRegistry,
    who: TaskAttempt,
    *,
    rows: int,
    consumers: tuple[str, ...] | list[str] = (),
    name: str | None = None,
    scope: Scope = Scope.RUN,
    preservation: Preservation = Preservation.NONE,
    ttl: timedelta | None = None,
) -> TableRef:
    """One table, as its consumers get it."""
    writing = registry.begin(who, catalog="lake", options=OutputOptions(name, scope, preservation, ttl))
    return registry.commit(Output(writing, 1, rows), consumers=consumers)[0]
