"""The scheduler's parts as processes that are killed: ``python schedule_process.py STORE_URL AIRFLOW_ADDRESS LAKE_FOLDER``.

For each line of JSON on standard input it starts the parts that are not running, lets all of them work, and kills some:

    {"ms": 40, "kill": ["checker", "rounds-1"], "suicides": {"intake": 17}, "ahead": 12.5, "wanted": 30}

- ``kill``: these parts get a kill -9, so many milliseconds after all parts have begun to work;
- ``suicides``: of the parts that it starts, these kill themselves at the moment with this number; each SQL statement has two
  moments, before and after it, and each commit has one;
- ``ahead``: by how many seconds the clock of all of them is ahead of the machine's; it only grows;
- ``wanted``: how many events the part ``sender`` is to have sent.

It answers ``{"killed": […], "ended": […]}``: who was killed, by us or by himself, and who ended in any other way.

The parts share no connection with this process: each opens its own after the fork. What they import is imported before it.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.dag_runs import RestDagRuns
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import EventIntake, Poller, Scheduler, send_event
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.store import Actor, Store, open_store, utc_now
from airflow_snowpack.store.signs_of_life import Role, SignOfLife

PARTS = ("intake", "checker", "launcher", "poller", "rounds-1", "rounds-2", "sender")
IDLE_S = 0.002
SENT = "go"
FLAGS = 24
"""Where the flags of the parts begin in the shared memory, behind three numbers."""


class Shared:
    """What all processes see: how far the clock is ahead, how many events are wanted and sent, and which parts work."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, FLAGS + len(PARTS))

    def _number(self, place: int, kind: str) -> Any:
        return struct.unpack_from(kind, self._memory, place)[0]

    @property
    def ahead(self) -> timedelta:
        return timedelta(seconds=self._number(0, "d"))

    @property
    def wanted(self) -> int:
        return int(self._number(8, "q"))

    @property
    def sent(self) -> int:
        return int(self._number(16, "q"))

    @sent.setter
    def sent(self, number: int) -> None:
        struct.pack_into("q", self._memory, 16, number)

    def works(self, part: str) -> bool:
        return self._memory[FLAGS + PARTS.index(part)] == 1

    def set_works(self, part: str, *, works: bool) -> None:
        self._memory[FLAGS + PARTS.index(part)] = int(works)

    def order(self, ahead: float, wanted: int) -> None:
        struct.pack_into("d", self._memory, 0, ahead)
        struct.pack_into("q", self._memory, 8, wanted)

    def clock(self) -> datetime:
        return utc_now() + self.ahead


@dataclass(frozen=True)
class World:
    """Where the parts work."""

    url: str
    address: str
    lake: str
    shared: Shared

    def store(self) -> Store:
        return open_store(self.url, clock=self.shared.clock)

    def runs(self) -> RestDagRuns:
        from airflow_snowpack.hooks.api_client import AirflowRest
        from airflow_snowpack.hooks.dag_runs import RestDagRuns

        return RestDagRuns(AirflowRest(self.address, token="of-the-tests"))

    def poller(self, store: Store) -> Poller:
        broker = Broker(CatalogConfig.embedded(Path(self.lake)).load)
        return Poller(store, catalog_name="lake", broker=broker, every=timedelta(0))


def step_of(part: str, world: World, store: Store) -> Callable[[], object]:
    """One step of a part; what it gives is nothing (falsy) when there was nothing to do."""
    runs, name = world.runs(), f"{part}:{os.getpid()}"
    match part:
        case "intake":
            return EventIntake(store).step
        case "checker":
            checker = Checker(store, runs)
            return lambda: checker.step(limit=20).evaluated
        case "launcher":
            launcher = Launcher(store, runs, name)
            return lambda: launcher.step(limit=20).launched
        case "poller":
            poller = world.poller(store)
            return lambda: poller.step().events
        case "sender":
            return lambda: send_next(store, world.shared)
        case _:
            rounds = Scheduler(store, runs, runs, name)
            world.poller(store).worker(SignOfLife(store, Role.POLLER), timedelta(seconds=IDLE_S)).start()
            return rounds.worker().run_once


def send_next(store: Store, shared: Shared) -> bool:
    """Send the next event that is wanted, as somebody does who, when he is killed, does not know whether it went through."""
    number = shared.sent
    if number >= shared.wanted:
        return False
    send_event(store, Actor("sender", "api"), SENT, source_id=str(number))
    shared.sent = number + 1
    return True


def live(part: str, world: World, suicide_at: int | None) -> NoReturn:
    store = world.store()
    if suicide_at is not None:
        from kill_process import kill_at

        kill_at(store.engine, suicide_at, "every")
    step = step_of(part, world, store)
    world.shared.set_works(part, works=True)
    while True:
        try:
            done = step()
        except SnowpackError:  # such as an Airflow that does not answer: the processes themselves go on too
            done = False
        if not done:
            time.sleep(IDLE_S)


class Fleet:
    """The parts that live."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pids: dict[str, int] = {}

    def live(self, ms: float, kill: Iterable[str], suicides: dict[str, int], ahead: float, wanted: int) -> dict[str, list[str]]:
        """One order."""
        self._world.shared.order(ahead, wanted)
        for part in PARTS:
            if part not in self._pids:
                self._pids[part] = self._start(part, suicides.get(part))
        while not all(self._works_or_ended(part) for part in PARTS):
            time.sleep(IDLE_S)
        time.sleep(ms / 1000)
        doomed = [part for part in PARTS if part in kill]
        for part in doomed:
            os.kill(self._pids[part], signal.SIGKILL)
        told: dict[str, list[str]] = {"killed": [], "ended": []}
        for part, pid in list(self._pids.items()):
            ended, status = os.waitpid(pid, 0 if part in doomed else os.WNOHANG)
            if ended:
                del self._pids[part]
                told["killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else "ended"].append(part)
        return told

    def _works_or_ended(self, part: str) -> bool:
        peek = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._world.shared.works(part) or os.waitid(os.P_PID, self._pids[part], peek) is not None

    def _start(self, part: str, suicide_at: int | None) -> int:
        self._world.shared.set_works(part, works=False)
        pid = os.fork()
        if pid:
            return pid
        try:
            live(part, self._world, suicide_at)
        except BaseException:  # noqa: BLE001 - nothing of the parent's may run in here
            traceback.print_exc()
        finally:
            os._exit(3)

    def end(self) -> None:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def import_all(world: World) -> None:
    """What the parts need. No connection is made that they would share, and no thread that they would miss."""
    import httpx  # noqa: F401
    import kill_process  # noqa: F401
    import pyiceberg.catalog.sql
    import pyiceberg.io.pyarrow  # noqa: F401

    import airflow_snowpack.hooks.api_client
    import airflow_snowpack.hooks.dag_runs
    import airflow_snowpack.hooks.services
    import airflow_snowpack.iceberg.arrivals  # noqa: F401

    logging.disable(logging.WARNING)
    world.store().close()


def main(url: str, address: str, lake: str) -> None:
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # where Airflow's log goes
    world = World(url, address, lake, Shared())
    import_all(world)
    fleet = Fleet(world)
    print("ready", file=said, flush=True)
    try:
        for line in sys.stdin:
            print(json.dumps(fleet.live(**json.loads(line))), file=said, flush=True)
    finally:
        fleet.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
