"""500 mapped tasks wait at once for queued jobs, on an Airflow with four slots whose Postgres takes 100 connections.

What they use while they wait is compared with what five waiting tasks use. Then two workers run the jobs. ``make soak`` runs it;
``SNOWPACK_WAITING_TASKS`` is another number of tasks:

    SNOWPACK_SOAK=1 SNOWPACK_WAITING_TASKS=20 make test TESTS=tests/system/test_many_waiting.py
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from bounded import started
from postgres_server import PostgresServer, new_database, running_server

from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import Store, open_store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.jobs import job_queue
from tests.system.conftest import AirflowHome, Run, RunningAirflow, embedded_catalog

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

TASKS, FEW = int(os.environ.get("SNOWPACK_WAITING_TASKS", "500")), 5
SLOTS, CONNECTIONS, WORKERS = 4, 100, 2
POLL_S = 10  # the operator's default
WATCHED_S = 60
# Waits end when nothing has happened for this number of tasks within the patience of one wait.
STRIDE = 10
# How many connections are open in the pools of the API server, the scheduler and the triggerer depends on what they did last.
POOLS_MAY_DIFFER_BY = 10
DAG_FILE = Path(__file__).parent / "dags" / "system_waiting.py"
THE_POLL, ONE_JOB = "SELECT jobs.job_id, jobs.status ", re.compile(r"\$\d+")


@dataclass(frozen=True)
class Use:
    """What an Airflow uses while tasks wait.

    :ivar waiting: the tasks in the triggerer.
    :ivar slots: the slots of the pool that are in use.
    :ivar store: the most connections to the store at one moment.
    :ivar airflow: the most connections to Airflow's own database at one moment.
    :ivar polls: for each statement that reads the status of jobs, of how many.
    :ivar statements: all statements on the store.
    :ivar seconds: for how long the statements were counted.
    """

    waiting: int
    slots: int
    store: int
    airflow: int
    polls: list[int]
    statements: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.waiting} tasks wait: {self.slots} slots in use, {self.store} connections to the store, {self.airflow} to "
            f"Airflow's database; within {self.seconds:.0f} s, {len(self.polls)} reads of {self.polls[0]} jobs each, among "
            f"{self.statements} statements on the store"
        )


class Site:
    """The Airflow, its tables, and a look at its databases."""

    def __init__(self, airflow: RunningAirflow, server: PostgresServer, store: URL, connection: psycopg.Connection[Any]) -> None:
        self.airflow = airflow
        self._server = server
        self._store = store
        self._connection = connection
        self._catalog = embedded_catalog(airflow.home)
        self._tables = 0
        self.most_connections = 0

    def start(self, count: int) -> Run:
        """Create tables without data, and start a run with a task for each."""
        names = [f"db.t{self._tables + number}" for number in range(count)]
        for name in names:
            self._catalog.create_table(name, schema=pa.schema([("id", pa.int64())]))
        self._tables += count
        return self.airflow.trigger("system_waiting", {"tables": names})

    def become(self, run: Run, count: int, state: str) -> None:
        """Wait until all mapped tasks of the run are in this state, for as long as more and more of them are."""

        def are(enough: int) -> bool:
            return self._states(run).get(state, 0) >= enough

        for enough in [*range(STRIDE, count, STRIDE), count]:
            self.airflow.until(partial(are, enough), f"{enough} tasks are {state}")

    def use(self) -> Use:
        """Watch for a minute."""
        self.airflow.until(lambda: not {"running", "queued", "scheduled"} & self._states().keys(), "the slots are free")
        waiting, rested = self._states()["deferred"], self._server.log.stat().st_size
        self.airflow.until(lambda: waiting in polls(self._statements(rested)), "all of them wait in the triggerer")
        began, before, seen = time.monotonic(), self._server.log.stat().st_size, []
        while time.monotonic() < began + WATCHED_S:
            seen.append(self._connections())
            time.sleep(1)
        statements, seconds = self._statements(before), time.monotonic() - began
        pool = self.airflow.call("GET", "/pools/default_pool")
        return Use(
            waiting=waiting,
            slots=pool["occupied_slots"],
            store=max(store for store, _ in seen),
            airflow=max(airflow for _, airflow in seen),
            polls=polls(statements),
            statements=len(statements),
            seconds=seconds,
        )

    def tries(self, run: Run) -> int:
        """Count the tries of the run's mapped tasks."""
        query = "SELECT sum(try_number) FROM task_instance WHERE run_id = %s AND map_index >= 0"
        return int(self._connection.execute(query, [run.run_id]).fetchone()[0])  # type: ignore[index]  # there is one row

    def _states(self, run: Run | None = None) -> dict[str, int]:
        self._connections()
        of_the_run = "%(run)s::text IS NULL OR run_id = %(run)s AND map_index >= 0"
        query = f"SELECT state, count(*) FROM task_instance WHERE {of_the_run} GROUP BY 1"
        return dict(self._connection.execute(query, {"run": run and run.run_id}).fetchall())

    def _connections(self) -> tuple[int, int]:
        """Count the connections to the store and to Airflow's database, apart from the test's own."""
        query = (
            "SELECT count(*) FILTER (WHERE datname = %s), count(*) FILTER (WHERE datname = current_database()) "
            "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        store, airflow = self._connection.execute(query, [self._store.database]).fetchone() or (0, 0)
        self.most_connections = max(self.most_connections, store + airflow)
        return store, airflow

    def _statements(self, since: int) -> list[str]:
        """Return the statements on the store that the server has logged behind this place of its log."""
        with self._server.log.open(errors="replace") as log:
            log.seek(since)
            entries = re.split(r"^(?=\S*:LOG:|\S*:DETAIL:)", log.read(), flags=re.MULTILINE)
        statement = re.compile(rf"{self._store.database}:LOG:\s+(statement|execute [^:]*): ")
        return [entry for entry in entries if statement.match(entry)]


def polls(statements: list[str]) -> list[int]:
    """For each statement that reads the status of jobs, of how many."""
    return [len(ONE_JOB.findall(statement)) for statement in statements if THE_POLL in statement]


@pytest.fixture
def store() -> Iterator[tuple[PostgresServer, URL]]:
    """A server with few connections, and a database of it with the tables of the store, whose statements are logged."""
    with running_server(max_connections=CONNECTIONS, log_line_prefix="%d:", log_parameter_max_length=0) as server:
        address = server.url.render_as_string(hide_password=False)
        with new_database(address) as url:
            with Store(open_engine(url)) as store:
                upgrade_schema(store)
            with psycopg.connect(server.url.set(drivername="postgresql").render_as_string(False), autocommit=True) as connection:
                connection.execute(f"ALTER DATABASE {url.database} SET log_statement = 'all'")
            yield server, url


@pytest.fixture
def site(store: tuple[PostgresServer, URL], tmp_path: Path) -> Iterator[Site]:
    server, url = store
    with new_database(server.url.render_as_string(hide_password=False)) as database, ExitStack() as stack:
        settings = {"CORE__PARALLELISM": str(SLOTS), "SNOWPACK__STORE_CONN_ID": "many_store"}
        own = database.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
        home = AirflowHome(tmp_path, own, [DAG_FILE], settings)
        login = {"login": url.username, "password": url.password, "host": url.host, "port": url.port, "schema": url.database}
        home.environment["AIRFLOW_CONN_MANY_STORE"] = json.dumps({"conn_type": "postgres", **login})
        home.run("db", "migrate")
        airflow = RunningAirflow(home)
        stack.callback(airflow.stop)
        airflow.start()
        address = database.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = stack.enter_context(psycopg.connect(address, autocommit=True))
        yield Site(airflow, server, url, connection)


@pytest.mark.soak_only
@pytest.mark.timeout(6 * 3600)
def test_tasks_that_wait_hold_no_slot_and_no_connection_and_each_gets_its_job_done_once(
    site: Site, store: tuple[PostgresServer, URL], record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    runs = [site.start(FEW)]
    site.become(runs[0], FEW, "deferred")
    few = site.use()

    runs.append(site.start(TASKS))
    site.become(runs[1], TASKS, "deferred")
    waiting_after_s = time.monotonic() - began
    many = site.use()

    command = [sys.executable, "-m", "airflow", "snowpack", "worker", "--poll", "1s"]
    with ExitStack() as processes:
        for number in range(WORKERS):
            log = processes.enter_context((site.airflow.home.home / f"worker-{number}.log").open("ab"))
            processes.enter_context(started(command, env=site.airflow.home.environment, stdout=log, stderr=log))
        for run, count in zip(runs, (FEW, TASKS), strict=True):
            site.become(run, count, "success")
    assert [site.airflow.ended(run) for run in runs] == ["success", "success"]

    figures = f"{few}. {many}. Most connections at any moment: {site.most_connections} of {CONNECTIONS}."
    times = f"All waited after {waiting_after_s / 60:.0f} min, and had succeeded after {(time.monotonic() - began) / 60:.0f} min"
    tries = sum(site.tries(run) for run in runs)
    record_property("measured", f"{figures} {times}; {tries} tries of {FEW + TASKS} tasks.")
    print(f"{figures} {times}; {tries} tries of {FEW + TASKS} tasks.")

    assert (few.waiting, many.waiting) == (FEW, FEW + TASKS)
    assert (few.slots, many.slots) == (0, 0)
    assert abs(many.store - few.store) <= POOLS_MAY_DIFFER_BY
    assert abs(many.airflow - few.airflow) <= POOLS_MAY_DIFFER_BY
    assert 1 <= len(many.polls) <= many.seconds / POLL_S + 1
    assert set(many.polls) == {FEW + TASKS}
    with Jobs(open_store(store[1])) as jobs:
        ended = jobs.list(limit=FEW + TASKS + 1)
        assert len(ended) == len({job.table for job in ended}) == FEW + TASKS
        assert {(job.status, job.attempt) for job in ended} == {(JobStatus.COMPLETED, 1)}
        ends = [entry for job in ended for entry in jobs.history(job.job_id) if entry.event == "completed"]
        assert len(ends) == FEW + TASKS
        assert jobs.locks.list() == []
        assert jobs.store.all(sa.select(job_queue)) == []
