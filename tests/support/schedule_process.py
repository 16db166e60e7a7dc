"""A scheduler with all its parts and an Airflow that survives: ``python schedule_process.py <store url> <Airflow's file>``.

For each line on standard input, ``milliseconds 40``, it forks a child that works round and round, kills it after that time,
wherever it is then, and answers ``killed``.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from airflow_snowpack.scheduling import Checker, Clocks, DagRuns, EndsFound, Launcher, NotStarted, Subscriber
from airflow_snowpack.store import Store, open_store, utc_now

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from airflow_snowpack.scheduling import EndsAsked, Launch


class FiledAirflow:
    """An Airflow that is a file: run ids are its primary key, and so is each run's start."""

    def __init__(self, file: Path | str) -> None:
        self._file = str(file)
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE IF NOT EXISTS runs (run_id TEXT PRIMARY KEY, dag_id TEXT, conf TEXT, active INT)")
            db.execute("CREATE TABLE IF NOT EXISTS asked (run_id TEXT)")

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, timeout=30, isolation_level=None)
        db.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing of it
        return db

    def start(self, launch: Launch) -> NotStarted | None:
        import json

        with self._open() as db:
            db.execute("INSERT INTO asked VALUES (?)", (launch.run_id,))
            row = (launch.run_id, launch.dag_id, json.dumps(launch.conf), 1)
            db.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?)", row)
        return None

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns]:
        active = self.active()
        return {dag_id: DagRuns(others=len(active.get(dag_id, set()) - ids)) for dag_id, ids in known.items()}

    def ended_runs(self, asked: Sequence[EndsAsked]) -> Mapping[str, EndsFound]:
        return {one.dag_id: EndsFound() for one in asked}

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, int | None]:
        return dict.fromkeys(pools)

    def active(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        with self._open() as db:
            for dag_id, run_id in db.execute("SELECT dag_id, run_id FROM runs WHERE active"):
                found.setdefault(dag_id, set()).add(run_id)
        return found

    def runs(self) -> list[tuple[str, str]]:
        """Every run that was started and its conf, in the order of their starts."""
        with self._open() as db:
            return list(db.execute("SELECT run_id, conf FROM runs ORDER BY rowid"))

    def times_asked(self) -> int:
        with self._open() as db:
            return int(db.execute("SELECT count(*) FROM asked").fetchone()[0])


class AheadClock:
    """The machine's clock, so far ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def __call__(self) -> datetime:
        return utc_now() + self._ahead


def work_once(store: Store, airflow: FiledAirflow, name: str) -> int:
    """One round of every part; how much there was to do."""
    done = Clocks(store).step()
    done += Subscriber(store).step(limit=7)
    done += Checker(store, airflow).step(limit=20).looked_at
    return done + len(Launcher(store, airflow, name).step(limit=20).launched)


def child(url: str, file: str, name: str) -> NoReturn:
    store, airflow = open_store(url), FiledAirflow(file)
    while True:
        if not work_once(store, airflow, name):
            time.sleep(0.001)


def main(url: str, file: str) -> None:
    open_store(url).close()  # what opening imports, the children have then
    print("ready", flush=True)
    for turn, line in enumerate(sys.stdin):
        pids = []
        for number in range(2):
            pid = os.fork()
            if pid == 0:
                try:
                    child(url, file, f"doomed-{turn}-{number}")
                finally:
                    os._exit(3)
            pids.append(pid)
        time.sleep(int(line.split()[1]) / 1000)
        statuses = []
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            statuses.append(os.waitpid(pid, 0)[1])
        killed = all(os.WIFSIGNALED(status) for status in statuses)
        print("killed" if killed else f"finished {statuses}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
