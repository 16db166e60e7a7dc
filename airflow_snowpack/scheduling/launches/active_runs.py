"""Which runs of DAGs are active as far as the store knows.

    active_runs(conn, ["maintain_page_views"])       # those that schedules reserved or started, and those that came to a gate
    runs_that_count(conn, "group:compaction")        # those that count against the limit of a wait key

Only Airflow tracks other active runs (started by hand, by a backfill). The invariant: a run that a schedule started is here
from the commit that reserved it until its end is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.pending_runs.gated_runs import GateState, active_gates, dags_with_gates
from airflow_snowpack.store.tables.schedules import schedule_groups, schedule_runs


@dataclass(slots=True)
class ActiveRuns:
    """The ids of the runs of one DAG that have not ended.

    :param every: all of them. ``started``: those that Airflow has. ``passed``: those that passed a gate.
    :param has_gate: whether one of them came to a gate.
    """

    every: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    at_gates: set[str] = field(default_factory=set)
    has_gate: bool = False

    @property
    def counted_in_group(self) -> set[str]:
        """Those that count against the limit of a group: a run that waits at its own gate takes no place from other DAGs."""
        return self.every - (self.at_gates - self.passed)


def active_runs(conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, ActiveRuns]:
    """Return the active runs of each of these DAGs, in two statements."""
    found = {dag_id: ActiveRuns() for dag_id in sorted(set(dag_ids))}
    query = sa.select(schedule_runs.c.dag_id, schedule_runs.c.run_id, schedule_runs.c.launched_at)
    for row in conn.execute(query.where(schedule_runs.c.dag_id.in_(found), schedule_runs.c.ended_at.is_(None))):
        found[row.dag_id].every.add(row.run_id)
        if row.launched_at is not None:
            found[row.dag_id].started.add(row.run_id)
    for gated in active_gates(conn, found):
        runs = found[gated.dag_id]
        runs.has_gate = True
        for ids in (runs.every, runs.started, runs.passed if gated.state == GateState.PASSED else runs.at_gates):
            ids.add(gated.run_id)
    return found


def dags_of_groups(conn: sa.Connection, groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the DAGs whose schedules or gates name each group, in two statements."""
    found: dict[str, set[str]] = {group: set() for group in groups}
    query = sa.select(schedule_groups.c.group_name, schedule_groups.c.dag_id)
    named = conn.execute(query.where(schedule_groups.c.group_name.in_(sorted(found)))).all() if found else []
    for group, dag_id in [*named, *(dags_with_gates(conn) if found else [])]:
        if group in found:
            found[group].add(dag_id)
    return {group: sorted(dag_ids) for group, dag_ids in found.items()}


def runs_that_count(conn: sa.Connection, key: str, *, at_gate_of: str | None = None) -> frozenset[tuple[str, str]]:
    """Return the runs, as DAG and run id, that count against the limits of the wait key of a DAG or of a group.

    :param at_gate_of: as runs of this DAG count that wait at a gate: in DAGs with a gate, only runs that passed it.
    """
    _, _, name = key.partition(":")
    of_group = key == group_wait_key(name)
    dag_ids = dags_of_groups(conn, [name])[name] if of_group else [name] if key == dag_wait_key(name) else []
    counted = set()
    for dag_id, runs in active_runs(conn, dag_ids).items() if dag_ids else ():
        if at_gate_of is not None and (runs.has_gate or dag_id == at_gate_of):
            ids = runs.passed
        else:
            ids = runs.counted_in_group if of_group else runs.every
        counted |= {(dag_id, run_id) for run_id in ids}
    return frozenset(counted)
