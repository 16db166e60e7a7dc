"""Schedules: looking events up, handing them over, and what waits without being asked; on SQLite and on Postgres.

Nothing of it starts a DAG run; `schedule_latency` does. Every figure is a ratio of two things that were done in turns in the same
run, in seconds and in CPU, so that a busy minute of the machine falls on both.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling import EventIntake, TimeWindow
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import pending_events
from benchmarks.harness import Meter, wait_calm
from benchmarks.postgres import Server
from benchmarks.results import Finding, Measurement, Results
from benchmarks.schedules_fill import (
    OPENS,
    Clock,
    add_events,
    add_pending,
    analyze,
    filled_store,
    forget_what_was_taken,
)
from benchmarks.schedules_patterns import PatternMatching

DATABASES = ("sqlite", "postgres")
OURS, BARE, KEYED, PATTERNS = "ours", "a plain join by equality", "the same with a key", "one statement with patterns"

FEW, MANY = 100, 100_000
LOOK_UPS = 100
AT_MOST_LOOK_UP = 1.5

SCHEDULES = EVENTS = 10_000
TABLES = 20_000
BATCHES = 10
AT_LEAST_MATCHING = 0.5

IDLE_ROUNDS = 200


def run(server: Server, results: Results, *, rounds: int) -> None:
    for database in DATABASES:
        with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder:
            place = Place(database, server, Path(folder))
            _look_up(place, results, rounds)
            _match(place, results, rounds)
            _wait(place, results, rounds)


@dataclass(frozen=True)
class Place:
    """One of the two databases, empty as often as one asks."""

    database: str
    server: Server
    folder: Path

    def url(self, name: str) -> str:
        if self.database == "postgres":
            return self.server.fresh_database(f"bench_{name}", durable=False)
        file = self.folder / f"{name}.db"
        file.unlink(missing_ok=True)
        return f"sqlite:///{file}"

    def meter(self) -> Meter:
        return Meter(self.server if self.database == "postgres" else None)


# --- looking up -------------------------------------------------------------------------------------------------------


def _look_up(place: Place, results: Results, rounds: int) -> None:
    """A hundred events, each for one schedule: among a hundred schedules and among a hundred thousand."""
    with _listening(place, FEW) as few, _listening(place, MANY) as many:
        wait_calm()
        for round_ in range(max(rounds, 3)):
            for size, store in ((FEW, few), (MANY, many)):
                setting = {"database": place.database, "schedules": size, "round": round_}
                results.add(_taken("look-up", OURS, place, store, setting, LOOK_UPS, lambda: None, batches=20))
    _compare(results, place, "look-up", f"{LOOK_UPS} events looked up and taken: among {MANY:,} schedules / among {FEW}")


@contextmanager
def _listening(place: Place, size: int) -> Iterator[Store]:
    keys = [f"event:e{number}" for number in range(size)]
    with filled_store(place.url(f"look_up_{size}"), keys) as store:
        add_events(store, random.Random(7).sample(keys, LOOK_UPS))
        analyze(store)
        yield store


def _compare(results: Results, place: Place, what: str, title: str) -> None:
    """With many beside with few, per piece: in seconds and in CPU."""
    for figure, unit in (("cpu_us", "CPU"), ("seconds", "wall")):
        few, many = (
            results.median(figure, what, OURS, database=place.database, schedules=size) * (1 if figure == "cpu_us" else 1e3)
            for size in (FEW, MANY)
        )
        says = f"{many:,.1f} : {few:,.1f} {'µs a piece' if figure == 'cpu_us' else 'ms'}"
        results.find(Finding(f"{title}, {place.database}, {unit}", many / few, at_most=AT_MOST_LOOK_UP, says=says))


# --- matching ---------------------------------------------------------------------------------------------------------


def _match(place: Place, results: Results, rounds: int) -> None:
    """10,000 events over 20,000 tables, half of which have a schedule: beside one statement that only writes pairs down.

    The target is half the rate of the peers' harness's statement, on Postgres. What the same pairs cost where they are joined by
    equality and nothing else is kept stands beside it, as a lower bound that nobody who keeps progress can reach.
    """
    chance = random.Random(7)
    tables = [f"table:lake.ns{number % 200}.t{number}" for number in range(TABLES)]
    with filled_store(place.url("match"), [chance.choice(tables) for _ in range(SCHEDULES)]) as store:
        add_events(store, [chance.choice(tables) for _ in range(EVENTS)])
        store.transact(_make_pairs)
        analyze(store)
        pairs = _write_pairs(store, BARE)
        heard = _heard(store)
        before: dict[str, Callable[[], None]] = {
            "none yet": lambda: None,
            "waiting for a window": lambda: add_pending(store, heard, PendingState.CONSTRAINT, OPENS),
            "waiting for more events": lambda: add_pending(store, heard, PendingState.TRIGGER, None),
        }
        wait_calm()
        for round_ in range(max(rounds, 3)):
            setting = {"database": place.database, "round": round_}
            if store.is_postgres:
                results.add(_patterns_matched(place, setting))
            for jobs, prepare in before.items():
                for peer in (BARE, KEYED):
                    results.add(_pairs_written(place, store, peer, setting | {"jobs": jobs}))
                results.add(_taken("match", OURS, place, store, setting | {"jobs": jobs}, EVENTS, prepare))
                assert store.read(_handed_over) == pairs, "the same pairs"
    for jobs in before:
        _compare_matching(results, place, jobs)


def _compare_matching(results: Results, place: Place, jobs: str) -> None:
    """Against the harness's statement, which is the target; the pairs with a number, and with a key by which a job finds them."""
    setting = {"database": place.database, "jobs": jobs}
    for peer in (BARE, KEYED):
        title = f"{EVENTS:,} events matched and handed over, pending jobs {jobs}, {place.database}: ours / {peer}"
        ours, theirs = (results.median("per_s", "match", each, **setting) for each in (OURS, peer))
        says = f"{ours:,.0f}/s : {theirs:,.0f}/s"
        results.find(Finding(f"{title}, rate by the wall clock", ours / theirs, says=says))
        ours, theirs = (results.median("cpu_us", "match", each, **setting) for each in (OURS, peer))
        says = f"{ours:,.1f} µs : {theirs:,.1f} µs an event"
        results.find(Finding(f"{title}, rate by CPU", theirs / ours, says=says))
    if place.database == "postgres":
        theirs = results.median("per_s", "match", PATTERNS, database=place.database)
        ours = results.median("per_s", "match", OURS, **setting)
        title = f"{EVENTS:,} events matched and handed over, pending jobs {jobs}, {place.database}: ours / {PATTERNS}"
        says = f"{ours:,.0f}/s : {theirs:,.0f}/s"
        results.find(Finding(f"{title}, rate by the wall clock", ours / theirs, at_least=AT_LEAST_MATCHING, says=says))


def _patterns_matched(place: Place, setting: dict[str, Any]) -> Measurement:
    with closing(PatternMatching(place.server)) as theirs:
        return _measured("match", PATTERNS, place, setting, EVENTS, theirs.match, theirs.empty, batches=3)


def _make_pairs(conn: sa.Connection) -> None:
    number = "bigint GENERATED ALWAYS AS IDENTITY" if conn.dialect.name == "postgresql" else "integer"
    conn.exec_driver_sql(f"CREATE TABLE pairs (id {number} PRIMARY KEY, schedule text NOT NULL, event bigint NOT NULL)")
    conn.exec_driver_sql(
        "CREATE TABLE keyed_pairs (schedule text, event bigint, leaf integer, PRIMARY KEY (schedule, event, leaf))"
    )


def _pairs_written(place: Place, store: Store, peer: str, setting: dict[str, Any]) -> Measurement:
    return _measured("match", peer, place, setting, EVENTS, lambda: _write_pairs(store, peer), lambda: _empty_pairs(store))


def _empty_pairs(store: Store) -> None:
    for table in ("pairs", "keyed_pairs"):
        empty = f"TRUNCATE {table}" if store.is_postgres else f"DELETE FROM {table}"
        store.transact(lambda conn, empty=empty: conn.exec_driver_sql(empty))  # type: ignore[misc]  # mypy takes the default for an argument


def _write_pairs(store: Store, peer: str) -> int:
    """As somebody would write it who only wants the pairs; on the store's own connection, by the same index."""
    found = "FROM events e JOIN schedule_triggers t ON t.event_key = e.key"
    statement = {
        BARE: f"INSERT INTO pairs (schedule, event) SELECT t.schedule, e.id {found}",
        KEYED: f"INSERT INTO keyed_pairs (schedule, event, leaf) SELECT t.schedule, e.id, t.leaf {found}",
    }[peer]
    return store.transact(lambda conn: conn.exec_driver_sql(statement).rowcount)


def _heard(store: Store) -> list[int]:
    """The numbers of the schedules that an event is for."""
    query = "SELECT DISTINCT t.schedule FROM events e JOIN schedule_triggers t ON t.event_key = e.key"
    names = store.read(lambda conn: conn.exec_driver_sql(query).scalars().all())
    return sorted(int(name.removeprefix("s")) for name in names)


def _handed_over(conn: sa.Connection) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(pending_events)).scalar_one()


# --- waiting ----------------------------------------------------------------------------------------------------------


class EmptyAirflow:
    """Nothing runs in it."""

    def dag_runs(self, known: Any) -> dict[str, Any]:
        return {}

    def active_among(self, dag_id: str, run_ids: Any) -> int:
        return 0

    def ended_runs(self, asked: Any) -> dict[str, Any]:
        return {}

    def missing_dags(self, dag_ids: Any) -> dict[str, Any]:
        return {}

    def free_slots(self, pools: Any) -> dict[str, Any]:
        return {}


def _wait(place: Place, results: Results, rounds: int) -> None:
    """Rounds of a scheduler that has nothing to do, while few and while many pending jobs wait for a window."""
    with _waiting(place, FEW) as few, _waiting(place, MANY) as many:
        wait_calm()
        with _asked() as asked:
            for round_ in range(max(rounds, 3)):
                for size, store in ((FEW, few), (MANY, many)):
                    setting = {"database": place.database, "schedules": size, "round": round_}
                    results.add(_measured("idle", OURS, place, setting, IDLE_ROUNDS, _idle(store), batches=1))
        title = f"evaluations of {MANY:,} pending jobs before their window opens, {place.database}"
        results.find(Finding(title, len(asked), at_most=0, says=f"in {max(rounds, 3) * IDLE_ROUNDS} rounds"))
        _compare(results, place, "idle", f"an idle round while {MANY:,} pending jobs wait / while {FEW} do")
        with _asked() as asked:
            _move(many).now = OPENS
            Checker(many, EmptyAirflow()).step(limit=50)
        assert len(asked) == 50, "and they are asked when it opens"


@contextmanager
def _waiting(place: Place, size: int) -> Iterator[Store]:
    with filled_store(place.url(f"wait_{size}"), [f"event:e{number}" for number in range(size)]) as store:
        forget_what_was_taken(store)
        add_pending(store, range(size), PendingState.CONSTRAINT, OPENS)
        analyze(store)
        yield store


def _move(store: Store) -> Clock:
    assert isinstance(store.clock, Clock)
    return store.clock


def _idle(store: Store) -> Callable[[], None]:
    intake, checker = EventIntake(store), Checker(store, EmptyAirflow())

    def rounds() -> None:
        for _ in range(IDLE_ROUNDS):
            intake.step()
            assert checker.step().evaluated == 0

    return rounds


@contextmanager
def _asked() -> Iterator[list[object]]:
    """Whom the checker asks meanwhile whether its window is open."""
    asked: list[object] = []
    evaluate = TimeWindow.evaluate

    def keep(self: TimeWindow, context: Any) -> Any:
        asked.append(self)
        return evaluate(self, context)

    TimeWindow.evaluate = keep  # type: ignore[method-assign]  # counted, and put back
    try:
        yield asked
    finally:
        TimeWindow.evaluate = evaluate  # type: ignore[method-assign]


# --- measuring --------------------------------------------------------------------------------------------------------


def _taken(
    what: str,
    contender: str,
    place: Place,
    store: Store,
    setting: dict[str, Any],
    n: int,
    prepare: Callable[[], None],
    *,
    batches: int = BATCHES,
) -> Measurement:
    """The subscriber takes the whole log, from its beginning each time."""
    subscriber = Subscriber(store)

    def take() -> None:
        taken = subscriber.step()
        assert taken == n, f"{taken} of {n}"

    def begin_anew() -> None:
        forget_what_was_taken(store)
        prepare()
        analyze(store, "pending_jobs")

    return _measured(what, contender, place, setting, n, take, begin_anew, batches=batches)


def _measured(
    what: str,
    contender: str,
    place: Place,
    setting: dict[str, Any],
    n: int,
    do: Callable[[], object],
    before: Callable[[], None] = lambda: None,
    *,
    batches: int = BATCHES,
) -> Measurement:
    """The sum over some batches: one alone is too short for CPU to be told."""
    seconds = own = foreign = 0.0
    for _ in range(batches):
        before()
        with place.meter() as meter:
            do()
        seconds, own, foreign = seconds + meter.seconds, own + meter.own_cpu, foreign + meter.foreign_cores / batches
    return Measurement(
        what=what,
        contender=contender,
        n=n * batches,
        seconds=round(seconds, 4),
        per_s=round(n * batches / seconds, 1),
        cpu_us=round(own / (n * batches) * 1e6, 2),
        foreign_cpu=round(foreign, 2),
        setting=setting,
    )
