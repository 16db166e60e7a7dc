"""DAG runs as schedules see them: which ones are active, and when one last succeeded.

    runs = Runs(store)
    runs.ended("maintain_page_views", "manual__2026-11-21", "success", at)

A run that a schedule started counts as active from the moment that it is reserved, before Airflow knows of it; what
else is active (started by hand, by a backfill) comes from Airflow. The end of a run is an event like any other, and
wakes whoever waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.constraints import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.events import Event, publish
from airflow_snowpack.scheduling.gated_runs import (
    active_gates,
    dags_with_gates_of_group,
    end_gates,
    groups_of_gates,
    was_turned_away,
)
from airflow_snowpack.scheduling.pending import is_open
from airflow_snowpack.scheduling.trigger import run_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import dag_successes, pending_jobs, schedule_groups, schedule_runs

SUCCESS = "success"


class Runs:
    """Keeps what is known of DAG runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ended(self, dag_id: str, run_id: str, state: str, at: datetime, *, seen_at: datetime | None = None) -> bool:
        """Note that a run ended; once, however often it is told.

        :param state: ``success`` or ``failed``.
        :param at: the run's own end date, so that whoever tells it says the same.
        :param seen_at: when it was seen to be over, for somebody who has asked.
        :returns: whether that was news.
        """
        source = f"run:{dag_id}:{run_id}:{at.isoformat()}"  # a cleared run ends again, at another moment
        event = Event(run_key(dag_id, state), at, detail={"dag_id": dag_id, "run_id": run_id}, source_id=source)

        def write(conn: sa.Connection) -> bool:
            news = bool(publish(conn, self._store, [event]))
            if news:
                self._note_end(conn, dag_id, run_id, state, at)
            # Last: a gate holds its row while it waits for whoever is about to reserve, who may hold what is woken here.
            end_gates(conn, dag_id, run_id, seen_at or at)
            return news

        return self._store.transact(write)

    def _note_end(self, conn: sa.Connection, dag_id: str, run_id: str, state: str, at: datetime) -> None:
        run = sa.and_(schedule_runs.c.dag_id == dag_id, schedule_runs.c.run_id == run_id)
        earlier = sa.or_(schedule_runs.c.ended_at.is_(None), schedule_runs.c.ended_at < at)
        conn.execute(sa.update(schedule_runs).where(run, earlier).values(ended_at=at, state=state))
        if state == SUCCESS and not was_turned_away(conn, dag_id, run_id):
            self._note_success(conn, dag_id, run_id, at)
        self._wake(conn, dag_id)

    def wake(self, dag_id: str) -> None:
        """Have everybody who waits for runs of the DAG, or of its groups, looked at now."""
        self._store.transact(lambda conn: self._wake(conn, dag_id))

    def _note_success(self, conn: sa.Connection, dag_id: str, run_id: str, at: datetime) -> None:
        insert = postgresql.insert if self._store.is_postgres else sqlite.insert
        values = {"ended_at": at, "run_id": run_id}
        statement = insert(dag_successes).values(dag_id=dag_id, **values)
        newer = dag_successes.c.ended_at < at
        conn.execute(statement.on_conflict_do_update(index_elements=["dag_id"], set_=values, where=newer))

    def _wake(self, conn: sa.Connection, dag_id: str) -> None:
        query = sa.select(schedule_groups.c.group_name).where(schedule_groups.c.dag_id == dag_id)
        groups = {*conn.execute(query).scalars(), *groups_of_gates(conn, dag_id)}
        keys = [dag_wait_key(dag_id), *(group_wait_key(group) for group in groups)]
        waiting = sa.and_(pending_jobs.c.waits_for.in_(keys), is_open)
        # In one order for everybody, as the subscriber locks them too.
        mine = sa.select(pending_jobs.c.pending_id).where(waiting).order_by(pending_jobs.c.pending_id).with_for_update()
        woken = pending_jobs.c.pending_id.in_(conn.execute(mine).scalars().all())
        conn.execute(sa.update(pending_jobs).where(woken).values(next_check_at=self._store.clock()))


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
    query = sa.select(schedule_groups.c.dag_id).where(schedule_groups.c.group_name == group)
    return sorted({*conn.execute(query).scalars(), *dags_with_gates_of_group(conn, group)})
