"""The ends of DAG runs: each is recorded once, and polled for in case it was never reported.

    Runs(store).ended("maintain_page_views", "manual__2026-11-21", "success", at)
    RunEnds(store, airflow).step()

The end of a run is an event like any other. It also releases what the run counts against and has reserved, and wakes the next run
in the queues that wait for its place.

Airflow calls a listener at each end, but the listener's process may die before it has written it. So every DAG that a trigger or
constraint of an enabled schedule names is polled once a minute, and DAGs with an unfinished run that a schedule launched less
often. The invariant: **each end counts once**, because it has the same id however it is reported (:meth:`Runs.ended`), and a
DAG's place moves only past recorded ends.

Airflow's interfaces answer in two ways. One lists what ended since a time. The other only counts: a count above the number of
recorded ends shows that an end is missing, and the DAG's runs are searched for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling.airflow_port import AirflowPort, EndedRun, EndsFound, EndsQuery, Unavailable
from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.events.event_log import Event, last_number, publish
from airflow_snowpack.scheduling.launches.active_runs import LAUNCHED_INTERVAL, active_runs, release_slots
from airflow_snowpack.scheduling.launches.missing_dags import note_missing
from airflow_snowpack.scheduling.pending_runs.gated_runs import end_gates, groups_of_gates, was_skipped
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.triggers.trigger import run_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import lock_keys, upsert
from airflow_snowpack.store.tables.schedules import (
    dag_successes,
    events,
    run_places,
    schedule_dags,
    schedule_groups,
    schedule_runs,
)

log = logging.getLogger(__name__)

SUCCESS, FAILED = "success", "failed"
LOOK_AGAIN = timedelta(seconds=2)
UNCOMMITTED = timedelta(seconds=30)
"""How long before its commit Airflow may report an end."""
NAMED_INTERVAL = timedelta(minutes=1)
"""How often a DAG is polled that an enabled schedule names."""
SEARCH_INTERVAL = timedelta(seconds=10)
OVERLAP = timedelta(minutes=10)
"""Airflow commits a run's end some time after its end date."""
BATCH_SIZE = 10
KEYS_PER_STATEMENT = 5_000


class RunEnds:
    """Finds the ends that are not recorded."""

    def __init__(self, store: Store, airflow: AirflowPort) -> None:
        self._store = store
        self._airflow = airflow
        self._runs = Runs(store)

    def step(self) -> int:
        """Poll the DAGs that are due, and return the number of ends that were not recorded."""
        now = self._store.clock()
        due = sa.select(run_places.c.dag_id).where(run_places.c.look_at <= now).limit(1)
        if self._store.first(due) is None:
            return 0
        places = self._store.transact(lambda conn: self._claim(conn, now))
        try:
            named = {dag_id: row for dag_id, row in places.items() if row.is_named}
            note_missing(self._store, self._airflow, list(named))
            return self._record_launched(list(places)) + self._record(named, now)
        except SnowpackError as problem:
            log.warning("run_ends_not_known: Airflow is polled again: %s", problem)
            return 0

    def _claim(self, conn: sa.Connection, now: datetime) -> dict[str, sa.Row[Any]]:
        """Claim due DAGs, to keep other processes from polling them; delete those that no schedule needs any more."""
        is_named = sa.exists().where(schedule_dags.c.dag_id == run_places.c.dag_id).label("is_named")
        has_open = sa.exists().where(schedule_runs.c.dag_id == run_places.c.dag_id, schedule_runs.c.ended_at.is_(None))
        due = sa.select(run_places, is_named, has_open.label("has_open")).where(run_places.c.look_at <= now)
        due = due.order_by(run_places.c.look_at).limit(BATCH_SIZE).with_for_update(of=run_places, skip_locked=True)
        rows = conn.execute(due).all()
        gone = [row.dag_id for row in rows if not (row.is_named or row.has_open)]
        conn.execute(sa.delete(run_places).where(run_places.c.dag_id.in_(gone)))
        named = run_places.c.dag_id.in_([row.dag_id for row in rows if row.is_named])
        conn.execute(sa.update(run_places).where(named).values(look_at=now + NAMED_INTERVAL))
        # Past ends do not matter when a schedule names the DAG for the first time.
        unnamed = run_places.c.dag_id.in_([row.dag_id for row in rows if row.has_open and not row.is_named])
        conn.execute(sa.update(run_places).where(unnamed).values(look_at=now + LAUNCHED_INTERVAL, since=now, mark={}))
        return {row.dag_id: row for row in rows if row.dag_id not in gone}

    def _record_launched(self, dag_ids: Iterable[str]) -> int:
        """Record the ends of runs that schedules launched, including runs deleted by hand."""
        active = self._store.read(lambda conn: active_runs(conn, dag_ids))
        launched = {dag_id: frozenset(runs.started) for dag_id, runs in active.items() if runs.started}
        found = self._airflow.dag_runs(launched) if launched else {}
        return sum(self._ended(dag_id, runs.ended) for dag_id, runs in found.items() if not isinstance(runs, Unavailable))

    def _ended(self, dag_id: str, ends: Mapping[str, EndedRun]) -> int:
        """Record these ends, and return how many were not recorded before."""
        return sum(self._runs.ended(dag_id, run_id, one.state, one.at, began_at=one.began_at) for run_id, one in ends.items())

    def _record(self, places: Mapping[str, sa.Row[Any]], now: datetime) -> int:
        asked = {dag_id: self._query_for(row, now) for dag_id, row in places.items()}
        found = self._airflow.ended_runs([one for one, _ in asked.values()]) if asked else {}
        news = 0
        for dag_id, ends in found.items():
            missing = self._ended(dag_id, self._unrecorded(dag_id, ends))
            if missing:
                log.warning("run_ends_made_good: %s ends of runs of %s had not been reported", missing, dag_id)
            self._save(places[dag_id], asked[dag_id], ends, now)
            news += missing
        return news

    def _query_for(self, row: sa.Row[Any], now: datetime) -> tuple[EndsQuery, Mapping[str, int] | None]:
        """Return the query for one DAG, and how many runs should have ended if all ends are recorded."""
        mark, keys = row.mark, {run_key(row.dag_id, state): state for state in (SUCCESS, FAILED)}
        counts = mark.get("counts")
        search = bool(mark.get("search")) or (counts is None and row.since < now - LAUNCHED_INTERVAL)
        new = sa.select(events.c.key, sa.func.count().label("number")).where(
            events.c.key.in_(keys), events.c.id > mark.get("event", 0)
        )
        rows = [] if counts is None else self._store.all(new.group_by(events.c.key))
        recorded = {row.key: row.number for row in rows}
        expected = None if counts is None else {state: counts[state] + recorded.get(key, 0) for key, state in keys.items()}
        on_record = sa.select(events.c.detail["run_id"].as_string()).where(events.c.key.in_(keys))
        known = frozenset(self._store.scalars(on_record) if search else ())
        return EndsQuery(row.dag_id, row.since, search, known, mark.get("after")), expected

    def _unrecorded(self, dag_id: str, found: EndsFound) -> dict[str, EndedRun]:
        """Leave out recorded ends: reading costs less than writing them again."""
        sources = {end_source(dag_id, run_id, end.at, end.began_at, end.state): run_id for run_id, end in found.ended.items()}
        recorded = {row.source_id for row in self._store.all_by_key(sa.select(events.c.source_id), events.c.source_id, sources)}
        return {run_id: found.ended[run_id] for source, run_id in sources.items() if source not in recorded}

    def _save(self, row: sa.Row[Any], asked: tuple[EndsQuery, Mapping[str, int] | None], found: EndsFound, now: datetime) -> None:
        """Store up to where this DAG's ends are recorded."""
        question, expected = asked
        values: dict[str, Any] = {"mark": self._mark(row.mark, question, expected, found)}
        if values["mark"].get("search"):
            values["look_at"] = now + SEARCH_INTERVAL
        else:
            values["since"] = max(row.since, now - OVERLAP)
        mine = run_places.c.dag_id == row.dag_id
        self._store.execute(sa.update(run_places).where(mine).values(**values))

    def _mark(
        self, mark: Mapping[str, Any], asked: EndsQuery, expected: Mapping[str, int] | None, found: EndsFound
    ) -> dict[str, Any]:
        if found.counts is None:
            return {}  # all ends were listed
        if found.searched_to is not None:
            return {**mark, "search": True, "after": found.searched_to}
        fresh = {"counts": dict(found.counts), "event": self._store.read(last_number)}
        if expected is None or asked.search:
            return fresh
        over = {state: found.counts[state] - expected[state] for state in (SUCCESS, FAILED)}
        if any(number > 0 for number in over.values()):
            return {**mark, "search": True}
        # Lower: a listener reported what Airflow has not committed yet, or runs were cleared or deleted, which stay missing.
        return fresh if any(over.values()) and over == mark.get("short") else {**mark, "short": over}


def ends_are_due(store: Store) -> bool:
    """Return whether a poll is overdue; a running scheduler polls sooner."""
    late = sa.select(run_places.c.dag_id).where(run_places.c.look_at <= store.clock() - LAUNCHED_INTERVAL).limit(1)
    return store.first(late) is not None


class Runs:
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
        """Record the end of a run once, however often it is reported.

        A run that ended in one state and was then marked with another by hand has ended twice: each state counts once.

        :param at: the run's end date; ``began_at``: its start date, ``None`` for a run that never began.
        :param seen_at: when Airflow showed the end to a process that polled for it.
        :returns: whether the end was not recorded before.
        """
        source = end_source(dag_id, run_id, at, began_at, state)
        others = [end_source(dag_id, run_id, at, began_at, other) for other in (SUCCESS, FAILED) if other != state]

        def write(conn: sa.Connection) -> bool:
            is_marked = conn.execute(sa.select(events.c.id).where(events.c.source_id.in_(others))).first() is not None
            # Airflow keeps the end date of a marked run, perhaps of days ago, although its state has only changed now.
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
            latest = upsert(dag_successes, ["ended_at", "run_id"], where=dag_successes.c.ended_at < at)
            conn.execute(latest, {"dag_id": dag_id, "ended_at": at, "run_id": run_id})
        release_slots(conn, dag_id, run_id)
        wake_next(conn, _wait_keys(conn, dag_id), self._store.clock(), ended=(dag_id, run_id))

    def wake(self, dag_id: str) -> None:
        """Wake the next runs in the queues of the DAG and its groups.

        An evaluation that is about to write that its run waits has not seen the end, and is itself not visible. It holds the
        locks of its wait keys until it commits, so this waits for the locks, holding none, and then wakes.
        """
        if self._store.is_postgres:
            self._store.transact(lambda conn: lock_keys(conn, _wait_keys(conn, dag_id)))
        self._store.transact(lambda conn: wake_next(conn, _wait_keys(conn, dag_id), self._store.clock()))


def end_source(dag_id: str, run_id: str, at: datetime, began_at: datetime | None, state: str) -> str:
    """Return the id that identifies the end of a run, however it is reported.

    A cleared run begins and ends again. The end date would not do: Airflow reports it before it has committed it, and another one
    if the commit fails. Nor would it change if a failed run is marked successful by hand.
    """
    return f"run:{dag_id}:{run_id}:{(began_at or at).astimezone(UTC).isoformat()}:{state}"


def _wait_keys(conn: sa.Connection, dag_id: str) -> list[str]:
    query = sa.select(schedule_groups.c.group_name).where(schedule_groups.c.dag_id == dag_id)
    groups = {*conn.execute(query).scalars(), *groups_of_gates(conn, dag_id)}
    return [dag_wait_key(dag_id), *(group_wait_key(group) for group in groups)]


def ended_meanwhile(
    conn: sa.Connection, dags_of_keys: Mapping[str, Iterable[str]], newest_event: int, now: datetime
) -> dict[str, timedelta]:
    """Return how soon to evaluate again what is about to wait for each of these keys, if a counted run has just ended.

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
        # One look-up for each key: grouping by key would read all its events.
        of_key = sa.select(sa.func.max(events.c.id)).where(events.c.key == asked.c.key).scalar_subquery()
        newest = [number for number in conn.execute(sa.select(of_key).select_from(asked)).scalars() if number is not None]
        rows = sa.select(events.c.key, events.c.id, events.c.recorded_at).where(events.c.id.in_(newest))
        for row in conn.execute(rows) if newest else ():
            dag_id = dag_of_key[row.key]
            found[dag_id] = max(found.get(dag_id, (0, row.recorded_at)), (row.id, row.recorded_at))
    return found
