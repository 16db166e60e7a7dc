"""DAG runs as schedules see them: which ones are active, and when one last succeeded.

    runs = Runs(store)
    runs.ended("maintain_page_views", "manual__2026-11-21", "success", at)

A run that a schedule started counts as active from the moment that it is reserved, before Airflow knows of it; what
else is active (started by hand, by a backfill) comes from Airflow. The end of a run is an event like any other, and
wakes those who are next in line for its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.events.event_log import Event, publish
from airflow_snowpack.scheduling.launches.slot_reservations import let_go
from airflow_snowpack.scheduling.pending_runs.gated_runs import end_gates, groups_of_gates, was_skipped
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.triggers.trigger import run_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.advisory_locks import lock_keys
from airflow_snowpack.store.tables.schedules import dag_successes, events, schedule_groups, schedule_runs

SUCCESS, FAILED = "success", "failed"
LOOK_AGAIN = timedelta(seconds=2)
UNCOMMITTED = timedelta(seconds=30)
"""Airflow may tell an end so long before it shows it to others."""
NO_WIDER_THAN = 5_000
"""So many keys in one statement at most."""


class Runs:
    """Keeps what is known of DAG runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ended(
        self,
        dag_id: str,
        run_id: str,
        state: str,
        at: datetime,
        *,
        began_at: datetime | None = None,
        seen_at: datetime | None = None,
    ) -> bool:
        """Note that a run ended; once, however often and by whomever it is told.

        One that ended in one state and was then marked with another by hand has ended twice: each state counts once.

        :param state: ``success`` or ``failed``.
        :param at: the run's own end date, and ``began_at``: its own start date, ``None`` for a run that never began.
        :param seen_at: when it was seen to be over, for somebody who has asked.
        :returns: whether that was news.
        """
        source = end_source(dag_id, run_id, at, began_at, state)
        others = [end_source(dag_id, run_id, at, began_at, other) for other in (SUCCESS, FAILED) if other != state]

        def write(conn: sa.Connection) -> bool:
            is_marked = conn.execute(sa.select(events.c.id).where(events.c.source_id.in_(others))).first() is not None
            # Airflow leaves a marked run the date at which it had ended, days ago perhaps; it has become this only now.
            happened = max(at, self._store.clock()) if is_marked else at
            event = Event(run_key(dag_id, state), happened, detail={"dag_id": dag_id, "run_id": run_id}, source_id=source)
            news = bool(publish(conn, self._store, [event]))
            if news:
                self._note_end(conn, dag_id, run_id, state, at)
            # Last: a gate holds its row while it waits for whoever is about to reserve, who may hold what is woken here.
            end_gates(conn, dag_id, run_id, seen_at or at)
            return news

        news = self._store.transact(write)
        if news and self._store.is_postgres:
            self.wake(dag_id)
        return news

    def _note_end(self, conn: sa.Connection, dag_id: str, run_id: str, state: str, at: datetime) -> None:
        run = sa.and_(schedule_runs.c.dag_id == dag_id, schedule_runs.c.run_id == run_id)
        earlier = sa.or_(schedule_runs.c.ended_at.is_(None), schedule_runs.c.ended_at <= at)
        conn.execute(sa.update(schedule_runs).where(run, earlier).values(ended_at=at, state=state))
        if state == SUCCESS and not was_skipped(conn, dag_id, run_id):
            self._note_success(conn, dag_id, run_id, at)
        let_go(conn, dag_id, run_id)
        self._wake(conn, dag_id, ended=run_id)

    def wake(self, dag_id: str) -> None:
        """Have those looked at now who are next in line for runs of the DAG, or of its groups.

        A checker that is about to write down that its job waits has not seen the end, and is not seen itself. It holds its turn
        until it has committed: so this waits for the turn, holding nothing, and wakes then.
        """
        if self._store.is_postgres:
            self._store.transact(lambda conn: lock_keys(conn, _wait_keys(conn, dag_id)))
        self._store.transact(lambda conn: self._wake(conn, dag_id))

    def _note_success(self, conn: sa.Connection, dag_id: str, run_id: str, at: datetime) -> None:
        insert = postgresql.insert if self._store.is_postgres else sqlite.insert
        values = {"ended_at": at, "run_id": run_id}
        statement = insert(dag_successes).values(dag_id=dag_id, **values)
        newer = dag_successes.c.ended_at < at
        conn.execute(statement.on_conflict_do_update(index_elements=["dag_id"], set_=values, where=newer))

    def _wake(self, conn: sa.Connection, dag_id: str, *, ended: str | None = None) -> None:
        now, but = self._store.clock(), None if ended is None else (dag_id, ended)
        wake_next(conn, _wait_keys(conn, dag_id), now, ended=but)


def end_source(dag_id: str, run_id: str, at: datetime, began_at: datetime | None, state: str) -> str:
    """What everybody knows the end of a run by.

    A cleared run begins anew and ends again. The moment of the end would not do: Airflow tells it before it has committed it, and
    when that fails it tells another one. Nor would it tell that somebody has marked a failed run successful: that moves no date.
    """
    return f"run:{dag_id}:{run_id}:{(began_at or at).astimezone(UTC).isoformat()}:{state}"


def _wait_keys(conn: sa.Connection, dag_id: str) -> list[str]:
    query = sa.select(schedule_groups.c.group_name).where(schedule_groups.c.dag_id == dag_id)
    groups = {*conn.execute(query).scalars(), *groups_of_gates(conn, dag_id)}
    return [dag_wait_key(dag_id), *(group_wait_key(group) for group in groups)]


def ended_meanwhile(
    conn: sa.Connection, dags_of_keys: Mapping[str, Iterable[str]], newest_event: int, now: datetime
) -> dict[str, timedelta]:
    """Return how soon to look again at what is about to wait for one of these keys, where a counted run has just ended.

    :param dags_of_keys: the DAGs whose runs each key counts.
    :param newest_event: the number of the newest event when Airflow was asked for runs.
    """
    newest = _newest_ends(conn, sorted({dag_id for dag_ids in dags_of_keys.values() for dag_id in dag_ids}))
    found = {}
    for key, dag_ids in dags_of_keys.items():
        last = max((newest[dag_id] for dag_id in dag_ids if dag_id in newest), default=None)
        if last is not None and last[0] > newest_event:
            found[key] = timedelta(0)  # Airflow was asked before
        elif last is not None and last[1] > now - UNCOMMITTED:
            found[key] = LOOK_AGAIN
    return found


def _newest_ends(conn: sa.Connection, dag_ids: Sequence[str]) -> dict[str, tuple[int, datetime]]:
    """The number of the newest end of a run of each DAG, and when it was recorded."""
    dag_of_key = {run_key(dag_id, state): dag_id for dag_id in dag_ids for state in (SUCCESS, FAILED, "removed")}
    keys = list(dag_of_key)
    found: dict[str, tuple[int, datetime]] = {}
    for start in range(0, len(keys), NO_WIDER_THAN):
        some = [(key,) for key in keys[start : start + NO_WIDER_THAN]]
        asked = sa.values(sa.column("key", sa.Text), name="asked").data(some).cte("asked")
        # One look-up for each key: to group by it would read every event that it ever had.
        of_key = sa.select(sa.func.max(events.c.id)).where(events.c.key == asked.c.key).scalar_subquery()
        newest = [number for number in conn.execute(sa.select(of_key).select_from(asked)).scalars() if number is not None]
        rows = sa.select(events.c.key, events.c.id, events.c.recorded_at).where(events.c.id.in_(newest))
        for row in conn.execute(rows) if newest else ():
            dag_id = dag_of_key[row.key]
            found[dag_id] = max(found.get(dag_id, (0, row.recorded_at)), (row.id, row.recorded_at))
    return found
