"""Which runs of a DAG, or of a group, are active as far as the store knows.

    reserved_runs(conn, ["maintain_page_views"])     # those that take a place, whether Airflow knows of them yet or not
    runs_that_count(conn, "group:compaction")        # those that take a place of a group

What else is active (started by hand, by a backfill) only Airflow knows. The invariant: a run that a schedule started is here from
the commit that reserved it until its end is on record.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.pending_runs.gated_runs import active_gates, dags_with_gates, runs_at_gates
from airflow_snowpack.store.schedule_tables import schedule_groups, schedule_runs


def reserved_runs(conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """The runs that schedules reserved or started, or that came to a gate, and that have not ended, by DAG."""
    return _active(conn, dag_ids, sa.true())


def launched_runs(conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """Those among them that Airflow knows of."""
    return _active(conn, dag_ids, schedule_runs.c.launched_at.is_not(None))


def _active(conn: sa.Connection, dag_ids: Iterable[str], which: sa.ColumnElement[bool]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {dag_id: set() for dag_id in dag_ids}
    query = sa.select(schedule_runs.c.dag_id, schedule_runs.c.run_id)
    query = query.where(schedule_runs.c.dag_id.in_(sorted(found)), schedule_runs.c.ended_at.is_(None), which)
    for dag_id, run_id in conn.execute(query):
        found[dag_id].add(run_id)
    for gated in active_gates(conn, found):
        found[gated.dag_id].add(gated.run_id)
    return {dag_id: frozenset(run_ids) for dag_id, run_ids in found.items()}


def dags_of_group(conn: sa.Connection, group: str) -> list[str]:
    """The DAGs whose schedules name the group, or the gate of a run of theirs."""
    return dags_of_groups(conn, [group])[group]


def dags_of_groups(conn: sa.Connection, groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the DAGs of each group, as :func:`dags_of_group` does for one; two statements, however many groups."""
    found: dict[str, set[str]] = {group: set() for group in groups}
    query = sa.select(schedule_groups.c.group_name, schedule_groups.c.dag_id)
    named = conn.execute(query.where(schedule_groups.c.group_name.in_(sorted(found)))).all() if found else []
    for group, dag_id in [*named, *(dags_with_gates(conn) if found else [])]:
        if group in found:
            found[group].add(dag_id)
    return {group: sorted(dag_ids) for group, dag_ids in found.items()}


def runs_that_count(conn: sa.Connection, key: str) -> frozenset[tuple[str, str]]:
    """The runs, by DAG and id, that take the places which those count who wait for the key of a DAG or of a group.

    In a group, runs that wait at a gate of their own take none from others.
    """
    _, _, name = key.partition(":")
    if key == dag_wait_key(name):
        return frozenset((name, run_id) for run_id in reserved_runs(conn, [name])[name])
    dag_ids = dags_of_group(conn, name) if key == group_wait_key(name) else []
    waiting = runs_at_gates(conn, dag_ids)
    reserved = reserved_runs(conn, dag_ids)
    return frozenset((dag_id, run_id) for dag_id in dag_ids for run_id in reserved[dag_id] - waiting.get(dag_id, frozenset()))
