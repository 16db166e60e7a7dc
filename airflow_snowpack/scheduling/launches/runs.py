"""Records the ends of DAG runs, and wakes what waits for them.

    runs = Runs(store)
    runs.ended("maintain_page_views", "manual__2026-11-21", "success", at)

The end of a run is an event like any other. It ends what the run counts and has reserved, and wakes the next in the queues that
wait for its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.events.event_log import Event, publish
from airflow_snowpack.scheduling.launches.slot_reservations import release_slots
from airflow_snowpack.scheduling.pending_runs.gated_runs import end_gates, groups_of_gates, was_skipped
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.triggers.trigger import run_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.advisory_locks import lock_keys
from airflow_snowpack.store.dialect import upsert
from airflow_snowpack.store.tables.schedules import dag_successes, events, schedule_groups, schedule_runs

SUCCESS, FAILED = "success", "failed"
LOOK_AGAIN = timedelta(seconds=2)
UNCOMMITTED = timedelta(seconds=30)
"""Airflow may report an end so long before it commits it."""
KEYS_PER_STATEMENT = 5_000


class Runs:
    """Records the ends of DAG runs."""

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
        """Record that a run ended: once, however often it is reported.

        One that ended in one state and was then marked with another by hand has ended twice: each state counts once.

        :param state: ``success`` or ``failed``.
        :param at: the run's own end date, ``began_at``: its own start date, ``None`` for a run that never began.
        :param seen_at: when Airflow showed the end to a process that polled for it.
        :returns: whether the end was not on record.
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
            # Last: an evaluation at a gate locks its row while it waits for one that may have locked what is woken here.
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
        release_slots(conn, dag_id, run_id)
        self._wake(conn, dag_id, ended=run_id)

    def wake(self, dag_id: str) -> None:
        """Wake the next in the queues of the DAG and of its groups.

        An evaluation that is about to write that its run waits has not seen the end, and is not seen itself. It has locked its
        wait keys until it commits: so this waits for the locks, holding none, and wakes then.
        """
        if self._store.is_postgres:
            self._store.transact(lambda conn: lock_keys(conn, _wait_keys(conn, dag_id)))
        self._store.transact(lambda conn: self._wake(conn, dag_id))

    def _note_success(self, conn: sa.Connection, dag_id: str, run_id: str, at: datetime) -> None:
        latest = upsert(dag_successes, ["ended_at", "run_id"], where=dag_successes.c.ended_at < at)
        conn.execute(latest, {"dag_id": dag_id, "ended_at": at, "run_id": run_id})

    def _wake(self, conn: sa.Connection, dag_id: str, *, ended: str | None = None) -> None:
        now, but = self._store.clock(), None if ended is None else (dag_id, ended)
        wake_next(conn, _wait_keys(conn, dag_id), now, ended=but)


def end_source(dag_id: str, run_id: str, at: datetime, began_at: datetime | None, state: str) -> str:
    """Return the id by which the end of a run is recognised, however it is reported.

    A cleared run begins and ends again. The moment of the end would not do: Airflow reports it before it has committed it, and
    another one when the commit fails. Nor would it change when a failed run is marked successful by hand.
    """
    return f"run:{dag_id}:{run_id}:{(began_at or at).astimezone(UTC).isoformat()}:{state}"


def _wait_keys(conn: sa.Connection, dag_id: str) -> list[str]:
    query = sa.select(schedule_groups.c.group_name).where(schedule_groups.c.dag_id == dag_id)
    groups = {*conn.execute(query).scalars(), *groups_of_gates(conn, dag_id)}
    return [dag_wait_key(dag_id), *(group_wait_key(group) for group in groups)]


def ended_meanwhile(
    conn: sa.Connection, dags_of_keys: Mapping[str, Iterable[str]], newest_event: int, now: datetime
) -> dict[str, timedelta]:
    """Return how soon to evaluate again what is about to wait for one of these keys, where a counted run has just ended.

    :param dags_of_keys: the DAGs whose runs each key counts.
    :param newest_event: the number of the newest event when the snapshot was taken.
    """
    newest = _newest_ends(conn, sorted({dag_id for dag_ids in dags_of_keys.values() for dag_id in dag_ids}))
    found = {}
    for key, dag_ids in dags_of_keys.items():
        last = max((newest[dag_id] for dag_id in dag_ids if dag_id in newest), default=None)
        if last is not None and last[0] > newest_event:
            found[key] = timedelta(0)  # the snapshot is older
        elif last is not None and last[1] > now - UNCOMMITTED:
            found[key] = LOOK_AGAIN
    return found


def _newest_ends(conn: sa.Connection, dag_ids: Sequence[str]) -> dict[str, tuple[int, datetime]]:
    """Return the number of the newest end of a run of each DAG, and when it was recorded."""
    dag_of_key = {run_key(dag_id, state): dag_id for dag_id in dag_ids for state in (SUCCESS, FAILED, "removed")}
    keys = list(dag_of_key)
    found: dict[str, tuple[int, datetime]] = {}
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        some = [(key,) for key in keys[start : start + KEYS_PER_STATEMENT]]
        asked = sa.values(sa.column("key", sa.Text), name="asked").data(some).cte("asked")
        # One look-up for each key: grouping by it would read every event that it ever had.
        of_key = sa.select(sa.func.max(events.c.id)).where(events.c.key == asked.c.key).scalar_subquery()
        newest = [number for number in conn.execute(sa.select(of_key).select_from(asked)).scalars() if number is not None]
        rows = sa.select(events.c.key, events.c.id, events.c.recorded_at).where(events.c.id.in_(newest))
        for row in conn.execute(rows) if newest else ():
            dag_id = dag_of_key[row.key]
            found[dag_id] = max(found.get(dag_id, (0, row.recorded_at)), (row.id, row.recorded_at))
    return found
