"""Makes, reads and drops an interim table, and is killed in the middle: ``python kill_interim.py <store url> <lake folder>``.

For each line on standard input (a moment, and by how many seconds the clock is ahead) it forks a child, an interpreter that has
its imports already, which goes through every step once in a DAG run of its own and kills itself at the moment of that number. The
answer is ``killed``, or ``finished`` and how many moments there were; number 0 never comes. Each SQL statement has two moments,
before and after it, each commit one, and each call of the catalog and each deletion of a folder two.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pyiceberg.io.pyarrow  # noqa: F401  (loaded before the forks, so that no child pays for it)
import sqlalchemy as sa
from clocks import ShiftedClock
from heard_statements import hear_direct
from interim_lake import InterimLake, ReportedRuns, holder
from pyiceberg.catalog.sql import SqlCatalog

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.interim.collection.dropping import Folder
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine


def every_step(lake: InterimLake, clock: ShiftedClock, run_id: str) -> None:
    """A first try that dies, a second that hands on; a consumer that reads and hands on; and the pass that drops it all."""
    registry, reported = lake.registry, ReportedRuns()
    lake.begun("clean", run_id=run_id, try_number=1)
    writing = lake.begun("clean", run_id=run_id, try_number=2, name="features", scope=Scope.RUN)
    lake.create(writing, with_rows=True)
    registry.heartbeat(writing)
    ref = registry.commit(Output(writing, 1, 3), consumers=["report"])[0]
    reading = registry.consume([ref], attempt=holder("report", run_id=run_id))
    registry.pin_on([ref], consumers=["publish"], attempt=holder("report", run_id=run_id))
    registry.release(reading)
    given_up = lake.begun("report", run_id=run_id)
    lake.create(given_up)
    registry.abandon(given_up, "it was no good")
    reported.finish("clean", "report", "publish", run_id=run_id)
    clock.ahead += timedelta(hours=2)
    lake.collector(reported).run()


def kill_at(engine: sa.Engine, moment: int) -> Iterator[int]:
    """Kill this process at that moment; what comes next in the iterator is the number of the moment that comes next."""
    moments = count(1)

    def tick(*_arguments: Any) -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    for event in ("before_cursor_execute", "after_cursor_execute", "commit"):
        sa.event.listen(engine, event, tick)
    hear_direct()

    def ticking(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            tick()
            result = inner(*arguments, **named)
            tick()
            return result

        return call

    # In this doomed process only.
    for owner, name in (
        (SqlCatalog, "create_table"),
        (SqlCatalog, "commit_table"),
        (SqlCatalog, "drop_table"),
        (Folder, "delete"),
    ):
        setattr(owner, name, ticking(getattr(owner, name)))
    return moments


def child(url: str, home: str, moment: int, ahead: float) -> NoReturn:
    clock = ShiftedClock(timedelta(seconds=ahead))
    with Store(open_engine(url), clock) as store:
        moments = kill_at(store.engine, moment)
        lake = InterimLake(InterimRegistry(store), CatalogConfig.embedded(Path(home)).load())
        every_step(lake, clock, f"run{moment}")
    print(f"finished {next(moments) - 1}", flush=True)
    os._exit(0)


def main(url: str, home: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        moment, ahead = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                child(url, home, int(moment), float(ahead))
            finally:
                os._exit(3)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            print("killed" if os.WIFSIGNALED(status) else f"failed {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
