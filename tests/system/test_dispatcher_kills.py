"""kill -9 of whatever starts runs, while events come in: each event is in exactly one run, and each run is there once.

Killed are the triggerer, the task of the dispatcher, that task's supervisor (which leaves the task behind as an orphan), and
``airflow snowpack scheduler``, which works beside the dispatcher. ``make test`` kills each of them once, in 3 rounds;
``make soak`` runs 40 rounds. ``SNOWPACK_SEED`` chooses other moments.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S, Beside
from effort import rounds, seed
from titled_process import process_titled

from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import CustomEvents, Event, EventLog, Schedule, Schedules
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import Store, StoreUnreachable
from airflow_snowpack.store.tables.schedules import events, launches, pending_events, pending_jobs
from tests.system.conftest import RunningAirflow

ROUNDS = rounds(3, soak=40)
SEED = seed(11)
LONGEST_S = 1500 + 60 * ROUNDS
BETWEEN_EVENTS_S = 0.7
AT_LEAST = 20
# What the first rounds kill; the last one of them is missed for the longest time. The later ones are chosen by chance.
FIRST = (("scheduler_process", "task"), ("triggerer",), ("supervisor_of_the_task",))
KINDS = [kind for kinds in FIRST for kind in kinds]


class Sender:
    """Sends events, two at a time, until it is stopped.

    A store that is too busy to take them gets the same two again: what the test counts on does not depend on the load.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._log, self._key, self._stop = EventLog(store), custom_key(name), threading.Event()
        self._store = store
        self.sent = 0
        self._thread = Beside(self._send)

    def _send(self) -> None:
        while not self._stop.wait(BETWEEN_EVENTS_S):
            two = [Event(self._key, self._store.clock(), source_id=f"{self._key}:{self.sent + each}") for each in range(2)]
            with suppress(StoreUnreachable):
                self._log.publish(two)
                self.sent += 2

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Starters:
    """Whatever starts runs, to be killed and brought back."""

    def __init__(self, airflow: RunningAirflow) -> None:
        self._airflow = airflow
        self._process = self._start_process()
        self.killed = Counter[str]()

    def triggerer(self) -> None:
        self._airflow.kill_process("triggerer")
        self._airflow.start_process("triggerer")

    def scheduler_process(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._process = self._start_process()

    def task(self) -> None:
        self._airflow.until(lambda: is_killed(self._task()), "the dispatcher's task is killed")

    def supervisor_of_the_task(self) -> None:
        self._airflow.until(lambda: is_killed(supervisor_of(self._task())), "its supervisor is killed")

    def kill(self, name: str) -> None:
        getattr(self, name)()
        self.killed[name] += 1

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def _start_process(self) -> subprocess.Popen[bytes]:
        home = self._airflow.home
        connection = f'{{"conn_type": "http", "host": "http://127.0.0.1:{home.port}", "login": "admin", "password": "admin"}}'
        command = [sys.executable, "-m", "airflow", "snowpack", "scheduler", "--airflow-conn-id", "rest", "--poll", "1s"]
        with (home.home / "killed-scheduler.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=home.environment | {"AIRFLOW_CONN_REST": connection},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _task(self) -> psutil.Process:
        """The dispatcher's task, once it is no longer in the triggerer; events wake it."""

        def look() -> psutil.Process | None:
            with suppress(httpx.TransportError):  # an API server that is busy with all the runs
                return self._look_for_task()
            return None

        found: psutil.Process = self._airflow.until(look, "the dispatcher's task runs")
        return found

    def _look_for_task(self) -> psutil.Process | None:
        runs = self._airflow.call("GET", "/dags/snowpack_dispatcher/dagRuns?state=running")["dag_runs"]
        for run in runs:
            path = f"/dags/snowpack_dispatcher/dagRuns/{run['dag_run_id']}/taskInstances/dispatch"
            task = self._airflow.call("GET", path, allowed=(200, 404))
            if task.get("state") == "running":
                return process_titled(f"airflow worker -- {task['id']}")
        return None


def supervisor_of(task: psutil.Process) -> psutil.Process | None:
    """Its parent, unless it is an orphan."""
    with suppress(psutil.NoSuchProcess):
        parent = task.parent()
        if parent is not None and "airflow" in " ".join(parent.cmdline()):
            return parent
    return None


def is_killed(process: psutil.Process | None) -> bool:
    """Kill it, unless it has just ended by itself."""
    with suppress(psutil.NoSuchProcess):
        if process is not None:
            process.send_signal(signal.SIGKILL)
            return True
    return False


@pytest.fixture
def starters(airflow: RunningAirflow) -> Iterator[Starters]:
    starters = Starters(airflow)
    yield starters
    starters.stop()


@pytest.fixture
def name(jobs: Jobs) -> Iterator[str]:
    """What the events are called; two schedules listen to them, as long as the test lasts."""
    name = f"killed_{uuid4().hex[:8]}"
    schedules = Schedules(jobs.store, catalog="lake")
    for many, dag_id in ((1, "system_killed_each"), (5, "system_killed_fifth")):
        trigger = CustomEvents(name, many)
        schedules.create(Schedule(f"{name}_{many}", dag_id=dag_id, trigger=trigger, enabled=True))
    yield name
    for many in (1, 5):
        schedules.suspend(f"{name}_{many}")


@pytest.mark.timeout(LONGEST_S)
def test_kills_of_all_that_starts_runs_lose_no_event_and_start_no_run_twice(
    airflow: RunningAirflow, jobs: Jobs, starters: Starters, name: str, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(SEED)
    sender = Sender(jobs.store, name)
    try:
        for turn in range(ROUNDS):
            before = sender.sent
            airflow.until(lambda before=before: sender.sent > before, "events come")
            time.sleep(chance.uniform(0.5, 3))
            for kind in FIRST[turn] if turn < len(FIRST) else [chance.choice(KINDS)]:
                starters.kill(kind)
        airflow.until(lambda: sender.sent >= AT_LEAST, "enough events for several runs have come")
    finally:
        sender.stop()
    assert set(starters.killed) == set(KINDS)
    let_the_leases_of_the_dead_run_out(jobs.store)
    airflow.until(lambda: not what_is_left(jobs.store, name), "everything is counted and launched")

    sent = found(jobs.store, sa.select(events.c.id).where(events.c.key == custom_key(name)))
    assert len(sent) >= sender.sent
    for many, dag_id in ((1, "system_killed_each"), (5, "system_killed_fifth")):
        runs = runs_of(airflow, dag_id, f"{name}_{many}")
        launched = launched_jobs(jobs.store, f"{name}_{many}")
        assert sorted(run["dag_run_id"] for run in runs) == sorted(launched), "each run is there once, and no other is"
        told = Counter(event["id"] for run in runs for event in run["conf"]["snowpack"]["events"])
        assert set(told.values()) <= {1}, "no event is in two runs"
        assert sum(run["conf"]["snowpack"]["event_count"] for run in runs) + waiting(jobs.store, f"{name}_{many}") == len(sent)
        record_property(dag_id, len(runs))
    record_property("events", len(sent))
    record_property("killed", dict(starters.killed))
    record_property("faults", starters.killed.total())


def let_the_leases_of_the_dead_run_out(store: Store) -> None:
    """What somebody was just starting when he was killed would be left alone for two minutes."""
    held = sa.update(launches).where(launches.c.claimed_at.is_not(None))
    store.transact(lambda conn: conn.execute(held.values(visible_at=store.clock())))


def what_is_left(store: Store, name: str) -> list[Any]:
    """The events that nobody has heard, and the jobs that are not launched though their trigger is satisfied."""
    mine = pending_jobs.c.schedule.startswith(name)
    counted = sa.select(pending_events.c.event_id).join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id)
    unheard = sa.select(events.c.id).where(events.c.key == custom_key(name), events.c.id.not_in(counted.where(mine)))
    moving = sa.select(pending_jobs.c.pending_id).where(mine, pending_jobs.c.state != "launched")
    moving = moving.where(sa.not_(sa.and_(pending_jobs.c.state == "pending_trigger", pending_jobs.c.schedule.endswith("_5"))))
    return found(store, unheard) + found(store, moving)


def launched_jobs(store: Store, schedule: str) -> list[str]:
    query = sa.select(pending_jobs.c.run_id).where(pending_jobs.c.schedule == schedule, pending_jobs.c.state == "launched")
    return [row.run_id for row in found(store, query)]


def waiting(store: Store, schedule: str) -> int:
    """How many events are in the job that waits for more."""
    query = sa.select(pending_events.c.event_id).join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id)
    return len(found(store, query.where(pending_jobs.c.schedule == schedule, pending_jobs.c.state == "pending_trigger")))


def runs_of(airflow: RunningAirflow, dag_id: str, schedule: str) -> list[dict[str, Any]]:
    """The runs that this schedule started."""
    every: list[dict[str, Any]] = []
    while page := airflow.call("GET", f"/dags/{dag_id}/dagRuns?limit=100&offset={len(every)}&order_by=id")["dag_runs"]:
        every += page
    return [run for run in every if run["conf"]["snowpack"]["schedule"] == schedule]


def found(store: Store, query: Any) -> list[Any]:
    return list(store.read(lambda conn: conn.execute(query).all()))
