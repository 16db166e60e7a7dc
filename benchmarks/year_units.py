"""The units of work of the year in a box, each with its limits.

    with unit.prepare(year) as work:
        work()                              # what is counted

What is prepared is not counted: a process that runs for a while has its connections open and its tables read. The limits are
those of an operation that pays for what it touches; ``Sizes`` says how many tables, runs and sensors that is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy as sa

from airflow_snowpack.jobs import Jobs, JobStatus
from benchmarks.year_fill import CATALOG, DATABASE, FILES_A_MANIFEST, NOW, Sizes, Year

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

Work = Callable[[], Mapping[str, float] | None]
Limit = float | Callable[[Sizes], float]

ACTIONS = ["expire_snapshots"]
EVERY_ACTION = [
    *("rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"),
]
A_YEAR_AND_MORE = timedelta(days=400)
STARTED_S = 300.0
LONG_AFTER = "2999-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Unit:
    """A unit of work and what it may cost.

    :param prepare: yields the work. What the work returns is counted as well.
    :param limits: by the name of a count (:class:`~benchmarks.counts.Counts`); what is not named must be 0.
    :param varies: counts that have a limit, and are not compared with those of another year: they depend on how threads meet, or
        on rows that the work has to read, such as the schedules that listen to a table.
    """

    name: str
    prepare: Callable[[Year], AbstractContextManager[Work]]
    limits: Mapping[str, Limit]
    varies: frozenset[str] = frozenset()

    def limit(self, what: str, sizes: Sizes) -> float:
        """The limit of a count in a year of these sizes."""
        said = self.limits.get(what, 0)
        return said(sizes) if callable(said) else said


# --- jobs -------------------------------------------------------------------------------------------------------------


@contextmanager
def _submit(year: Year) -> Iterator[Work]:
    with _jobs(year) as jobs:
        jobs.submit(year.table(0), ACTIONS)

        def work() -> None:
            jobs.submit(year.table(1), ACTIONS)
            jobs.flush()

        yield work


@contextmanager
def _claim(year: Year) -> Iterator[Work]:
    with _jobs(year) as jobs:
        assert jobs.claim("worker", catalog_id=year.config.catalog_id)

        def work() -> None:
            assert jobs.claim("worker", catalog_id=year.config.catalog_id)
            jobs.flush()

        yield work


@contextmanager
def _finish(year: Year) -> Iterator[Work]:
    with _jobs(year) as jobs:
        first, second = (jobs.claim("worker", catalog_id=year.config.catalog_id) for _ in range(2))
        assert first
        assert second
        jobs.finish(first, JobStatus.COMPLETED, [])
        jobs.flush()

        def work() -> None:
            assert jobs.finish(second, JobStatus.COMPLETED, [])
            jobs.flush()

        yield work


@contextmanager
def _find_owned(year: Year) -> Iterator[Work]:
    with _jobs(year) as jobs:
        jobs.find_owned("an unknown task")
        yield lambda: _none(jobs.find_owned("dag_7|never|maintain|-1"))


@contextmanager
def _sweep(year: Year) -> Iterator[Work]:
    with _jobs(year) as jobs:
        jobs.sweep()
        yield lambda: _none(jobs.sweep())


@contextmanager
def _task_process(year: Year) -> Iterator[Work]:
    """Everything that a task does with the store, in a process of its own."""
    from airflow_snowpack.store import open_store

    url = year.store.engine.url.render_as_string(hide_password=False)

    def work() -> None:
        with Jobs(open_store(url, clock=year.clock, of_a_task=True)) as jobs:
            claim = jobs.submit_and_claim(year.table(2), ACTIONS, "task")
            jobs.renew(claim)
            assert jobs.finish(claim, JobStatus.COMPLETED, [])

    yield work


@contextmanager
def _jobs(year: Year) -> Iterator[Jobs]:
    """Without closing the store at the end, which all units share."""
    jobs = Jobs(year.store)
    yield jobs
    jobs.flush()


# --- the API and the pages --------------------------------------------------------------------------------------------


def _get(path: str) -> Callable[[Year], AbstractContextManager[Work]]:
    @contextmanager
    def prepare(year: Year) -> Iterator[Work]:
        client = _client(year)

        def work() -> None:
            answer = client.get(path)
            assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:1000]}"

        work()
        yield work

    return prepare


class _Opened:
    """Services that are open, without the thread that lists the catalog again and again."""

    def __init__(self, services: Any) -> None:
        self._services = services

    def if_open(self) -> Any:
        return self._services


class _Vera:
    """Authenticates every request as a user who may change things."""

    probes_are_open = True

    async def authenticate(self, request: Any) -> Any:
        from airflow_snowpack.api import User

        return User("vera", True)


@lru_cache(maxsize=1)
def _client(year: Year) -> TestClient:
    from fastapi.testclient import TestClient

    from airflow_snowpack.api import Services, build_app
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.maintenance import DEFAULT_ORDER

    services = Services(Installation(year.store), year.inventory, DEFAULT_ORDER)
    app = build_app(lambda: services, _Vera(), timeout=timedelta(minutes=10))
    app.state.services = _Opened(services)
    return TestClient(app)


# --- maintenance ------------------------------------------------------------------------------------------------------


def _dry_run(actions: list[str], number: int | None) -> Callable[[Year], AbstractContextManager[Work]]:
    """A dry run of one table; the same of another table came before."""

    @contextmanager
    def prepare(year: Year) -> Iterator[Work]:
        from airflow_snowpack.maintenance.submit import MaintenanceRequest, dry_run

        def preview(which: int | None) -> None:
            name = year.table(which)
            request = MaintenanceRequest.parse(name.dotted, actions, catalog=CATALOG, catalog_id=name.catalog_id)
            job = dry_run(jobs, year.catalog, request)
            assert all(result.success for result in job.results), job.results

        with _jobs(year) as jobs:
            preview(3)
            jobs.flush()
            yield lambda: preview(number)

    return prepare


# --- schedules --------------------------------------------------------------------------------------------------------


@contextmanager
def _poller_round(year: Year) -> Iterator[Work]:
    """A round in which no table has changed."""
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.scheduling import Poller

    poller = Poller(year.store, catalog_name=CATALOG, broker=Broker(lambda: year.catalog))
    year.clock.now = NOW - timedelta(hours=1)
    while poller.step().tables:
        pass
    year.clock.now = NOW

    def work() -> None:
        assert poller.step().tables == year.sizes.watched

    yield work


@contextmanager
def _evaluation(year: Year) -> Iterator[Work]:
    """Looks at all runs that wait for one place, and starts the one that waits for nothing."""
    from airflow_snowpack.scheduling.pending_runs.checker import Checker
    from benchmarks.schedules import EmptyAirflow

    class OneRuns(EmptyAirflow):
        """The run that has the place is active."""

        def active_among(self, dag_id: str, run_ids: Any) -> int:
            return len(run_ids)

        def dag_runs(self, known: Any) -> dict[str, Any]:
            from airflow_snowpack.scheduling.airflow_port import DagRuns

            return {dag_id: DagRuns() for dag_id in known}

    checker = Checker(year.store, OneRuns())

    def work() -> Mapping[str, float]:
        parts = list(checker.parts())
        assert sum(part.evaluated for part in parts) == year.sizes.waiting + 1
        reserved = [number for number, part in enumerate(parts, 1) if "free" in part.reserved]
        assert reserved, "the run that waits for nothing is started"
        return {"parts_until_what_is_free_starts": reserved[0]}

    yield work


@contextmanager
def _idle_round(year: Year) -> Iterator[Work]:
    """A round of the scheduler in which nothing has happened."""
    from airflow_snowpack.scheduling import EventIntake
    from airflow_snowpack.scheduling.pending_runs.checker import Checker
    from benchmarks.schedules import EmptyAirflow

    intake, checker = EventIntake(year.store), Checker(year.store, EmptyAirflow())
    intake.step()
    while checker.step().evaluated:
        pass

    def work() -> None:
        intake.step()
        assert not checker.step().evaluated

    yield work


@contextmanager
def _nothing_is_too_old(year: Year) -> Iterator[Work]:
    """What the hourly look costs when nothing is old enough to be deleted."""
    _prune(year, A_YEAR_AND_MORE)
    yield lambda: _prune(year, A_YEAR_AND_MORE)


@contextmanager
def _old_rows(year: Year) -> Iterator[Work]:
    """Deletes the oldest jobs, with their histories, and the runs, events and entries of the same age."""
    sizes = year.sizes

    def work() -> None:
        rows = _prune(year, timedelta(days=365) * (1 - (sizes.old - 0.5) / sizes.jobs))
        assert rows["jobs"] > 0.9 * sizes.old, rows  # the newest dry run of a table stays

    yield work


def _prune(year: Year, older_than: timedelta) -> Counter[str]:
    from airflow_snowpack.installation import retained_rows
    from airflow_snowpack.store.retention import Pruner

    return Pruner(year.store, retained_rows(year.store), older_than=older_than).run(sleep=_none)


# --- sensors ----------------------------------------------------------------------------------------------------------


@contextmanager
def _first_look(year: Year) -> Iterator[Work]:
    """Deferred sensors of one triggerer, from their start until each has looked."""
    with _triggerer(year) as runner:

        def work() -> None:
            runner.run(_begun(year, runner.run(_defer(year, poll_seconds=600))))

        yield work


@contextmanager
def _next_rounds(year: Year) -> Iterator[Work]:
    """The same sensors later: two looks of each, while no table has changed."""
    with _triggerer(year) as runner, _looks() as looks:
        sensors = runner.run(_defer(year, poll_seconds=1))
        runner.run(_until(looks, 2 * len(sensors), sensors))
        yield lambda: runner.run(_until(looks, len(looks) + 2 * len(sensors), sensors))


@contextmanager
def _triggerer(year: Year) -> Iterator[asyncio.Runner]:
    """An event loop, in an installation of this year's store and catalog; what runs in it is cancelled at the end."""
    settings = {
        "AIRFLOW_CONN_YEAR": json.dumps(_connection(year.store.engine.url)),
        "AIRFLOW__SNOWPACK__STORE_CONN_ID": "year",
        "AIRFLOW__SNOWPACK__HOME": str(year.home),
        "AIRFLOW__SNOWPACK__RESUME_DELAY": "1s",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with asyncio.Runner() as runner:
            yield runner
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def _defer(year: Year, *, poll_seconds: float) -> list[asyncio.Future[Any]]:
    from airflow_snowpack.triggers.waits import DataArrivalTrigger

    began = NOW.isoformat()
    tasks: list[asyncio.Future[Any]] = []
    for number in range(year.sizes.sensors):
        awaited = {"commits_added": {"table": f"{DATABASE}.t{number % year.sizes.awaited}", "count": 1_000}}
        trigger = DataArrivalTrigger(f"sensor{number}", "owner", awaited, began, LONG_AFTER, poll_seconds=poll_seconds)
        tasks.append(asyncio.ensure_future(anext(trigger.run())))
    return tasks


@contextmanager
def _looks() -> Iterator[list[None]]:
    """Gets an entry for each look of a sensor."""
    from airflow_snowpack.scheduling.sources.consumer import Consumer

    looks: list[None] = []
    judge = Consumer.judge

    def count(self: Consumer, *arguments: Any, **named: Any) -> Any:
        looks.append(None)
        return judge(self, *arguments, **named)

    Consumer.judge = count  # type: ignore[method-assign]  # counted, and put back
    try:
        yield looks
    finally:
        Consumer.judge = judge  # type: ignore[method-assign]


async def _until(looks: list[None], number: int, sensors: list[asyncio.Future[Any]]) -> None:
    async with asyncio.timeout(STARTED_S):
        while len(looks) < number:
            _refuse_ended(sensors)
            await asyncio.sleep(0.05)


async def _begun(year: Year, sensors: list[asyncio.Future[Any]]) -> None:
    """Wait until the store has a place for each sensor, in its table."""
    placed = "SELECT count(*) FROM considered WHERE CAST(upto AS text) LIKE '%snapshot_id%'"
    with closing(_uncounted(year.store.engine.url)) as driver:
        async with asyncio.timeout(STARTED_S):
            while driver.execute(placed).fetchone()[0] < year.sizes.sensors:
                _refuse_ended(sensors)
                await asyncio.sleep(0.2)


def _refuse_ended(sensors: list[asyncio.Future[Any]]) -> None:
    for sensor in sensors:
        if sensor.done():
            raise RuntimeError("A sensor ended before anything had arrived.") from sensor.exception()


def _uncounted(url: sa.URL) -> Any:
    """A connection of the driver, of which SQLAlchemy does not know."""
    if url.get_backend_name() == "sqlite":
        return sqlite3.connect(url.database or "", isolation_level=None)
    return psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True)


def _connection(url: sa.URL) -> Mapping[str, Any]:
    """The store as an Airflow connection."""
    if url.get_backend_name() == "sqlite":
        return {"conn_type": "sqlite", "host": url.database}
    login = {"login": url.username, "password": url.password, "schema": url.database}
    return {"conn_type": "postgres", "host": url.host, "port": url.port} | login


def _none(found: object) -> None:
    """The value is of no interest; the work that found it is."""


def _compared_locations(sizes: Sizes) -> float:
    """A row for each table: any of them may have moved to where the files are that are to be removed."""
    return SHORT_WALK + sizes.tables / 50


def _counted_tables(sizes: Sizes) -> float:
    """The number of tables is shown, which takes five steps for each; and the state of the queue."""
    return SHORT_WALK + sizes.queued / 20 + sizes.tables / 100


def _counted_rows(sizes: Sizes) -> float:
    """As the page of tables, and the numbers of schedules and of runs that wait: ten steps and more for each."""
    return _counted_tables(sizes) + sizes.schedules / 40 + sizes.waiting / 10


def _manifests(sizes: Sizes) -> float:
    return -(-sizes.files // FILES_A_MANIFEST)


# In steps, a walk along an index is cheap, 0.1 for ten rows, and a walk over a million rows is 5,000 or more.
SHORT_WALK = 20
# What is searched for without an index is searched among so many of the newest jobs.
BOUNDED_WALK = 1_000

UNITS = (
    Unit("submit", _submit, {"statements": 4, "steps": 2}),
    Unit("claim", _claim, {"statements": 4, "steps": 2}),
    Unit("finish", _finish, {"statements": 5, "steps": 2}),
    Unit("a task's job", _task_process, {"statements": 20, "opened": 1, "at_once": 1, "steps": 2}),
    Unit("find a task's job", _find_owned, {"statements": 1, "steps": 2}),
    Unit("sweep, nothing has expired", _sweep, {"statements": 12, "steps": SHORT_WALK}),
    Unit("list jobs", _get("/jobs?limit=50"), {"statements": 2, "steps": SHORT_WALK}),
    Unit("list failed jobs", _get("/jobs?status=failed&limit=50"), {"statements": 2, "steps": SHORT_WALK}),
    Unit(
        "search jobs, no match",
        _get("/jobs?search=nothing_has_this_name"),
        {"statements": 3, "steps": BOUNDED_WALK},
        varies=frozenset({"steps"}),
    ),
    Unit("jobs of an unknown DAG", _get("/jobs?dag=unknown"), {"statements": 3, "steps": SHORT_WALK}),
    Unit("scrape of metrics", _get("/metrics"), {"statements": 30, "steps": _counted_rows}, varies=frozenset({"steps"})),
    Unit("page of tables", _get("/ui/"), {"statements": 20, "steps": _counted_tables}, varies=frozenset({"steps"})),
    Unit("page of jobs", _get("/ui/jobs"), {"statements": 20, "steps": BOUNDED_WALK}, varies=frozenset({"steps"})),
    Unit(
        "dry run of orphan removal",
        _dry_run(["remove_orphan_files"], 4),
        {"statements": 10, "steps": _compared_locations, "catalog_statements": 10, "loads": 4, "manifests": 2},
        varies=frozenset({"steps"}),
    ),
    Unit(
        "dry run of all actions on the large table",
        _dry_run(EVERY_ACTION, None),
        {"statements": 10, "steps": _compared_locations, "catalog_statements": 10, "loads": 4, "manifests": _manifests},
        varies=frozenset({"steps"}),
    ),
    Unit(
        "round of the poller, no table has changed",
        _poller_round,
        {
            "statements": 3,
            "catalog_statements": 1,
            "steps": lambda sizes: SHORT_WALK + sizes.schedules / 10 + sizes.watched / 5,
        },
        varies=frozenset({"steps"}),
    ),
    Unit(
        "look at all runs that wait for one place",
        _evaluation,
        {
            "statements": lambda sizes: 60 + sizes.waiting / 20,
            "steps": lambda sizes: 60 + sizes.waiting,
            "parts_until_what_is_free_starts": 1,
        },
    ),
    Unit("idle round of the scheduler", _idle_round, {"statements": 10, "steps": SHORT_WALK}),
    Unit(
        "look for what is too old, nothing is",
        _nothing_is_too_old,
        {"statements": 25, "steps": lambda sizes: 100 + sizes.schedules / 50},
        varies=frozenset({"steps"}),
    ),
    Unit(
        "delete old jobs and what belongs to them",
        _old_rows,
        {"statements": lambda sizes: 60 + sizes.old / 50, "steps": lambda sizes: 200 + sizes.old},
        varies=frozenset({"steps"}),
    ),
    Unit(
        "first look of all deferred sensors",
        _first_look,
        {
            "statements": lambda sizes: 20 + 8 * sizes.sensors,
            "steps": lambda sizes: 60 + sizes.sensors,
            "opened": 4,
            "at_once": 4,
            "catalog_opened": 1,
            "catalog_statements": 10,
            "loads": lambda sizes: sizes.awaited,
        },
        varies=frozenset({"statements", "steps", "opened", "at_once", "catalog_statements"}),
    ),
    Unit(
        "two rounds of all deferred sensors, no table has changed",
        _next_rounds,
        {"statements": 10, "steps": lambda sizes: 60 + sizes.sensors, "opened": 2, "at_once": 2, "catalog_statements": 6},
        varies=frozenset({"statements", "steps", "opened", "at_once", "catalog_statements"}),
    ),
)
