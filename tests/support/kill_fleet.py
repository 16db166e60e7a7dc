"""Runs passes over a fleet and is killed in the middle: ``python kill_fleet.py <store url> <home of the catalog>``.

For each line on standard input, such as ``17 night3/run/plan``, it forks a child (an interpreter that has its imports already)
that plans a pass, maintains its tables and reports, and kills itself at the 17th moment: each SQL statement has two moments,
before and after it, and each commit has one. At ``0``, it does so in its first job. It answers ``killed`` or ``finished``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import sqlalchemy as sa
from fleet_lake import FleetLake
from heard_statements import hear_direct
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import JobWorker
from airflow_snowpack.jobs.model import Engine
from airflow_snowpack.maintenance.fleet import Budget
from airflow_snowpack.maintenance.fleet.fleet import COMMAND
from airflow_snowpack.maintenance.fleet.report import PassReport
from airflow_snowpack.store import open_store

BUDGET = Budget(tables=3)


def run_pass(fleet: FleetLake, owner: str, worker_id: str, make_engine: Callable[[], Engine] = ScriptedEngine) -> PassReport:
    """Plan, maintain and report, as the three tasks of the DAG do; each part resumes what an earlier process has left.

    The pass of a command is kept alive, as ``airflow snowpack fleet run`` does.
    """
    passes = fleet.fleet
    with ExitStack() as open_until_reported:

        def begun(pass_id: str) -> None:
            if owner.startswith(COMMAND):
                open_until_reported.enter_context(passes.attend(pass_id))

        planned = passes.start(owner, BUDGET, workers=1, holder=worker_id, begun=begun)
        drain = passes.drain(planned, worker_id)
        catalog_id = fleet.config.catalog_id
        drain.run(JobWorker(fleet.jobs, make_engine, worker_id, catalog_id=catalog_id, claim_next=drain.claim_next))
        return passes.report(planned)


def kill(_action: str = "") -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(engine: sa.Engine, moment: int) -> None:
    moments = count(1)

    def tick(*_: Any) -> None:
        if next(moments) == moment:
            kill()

    sa.event.listen(engine, "before_cursor_execute", tick)
    sa.event.listen(engine, "after_cursor_execute", tick)
    sa.event.listen(engine, "commit", tick)
    hear_direct()


def child(url: str, home: str, moment: int, owner: str) -> NoReturn:
    fleet = FleetLake(CatalogConfig.embedded(Path(home)), open_store(url))
    kill_at(fleet.store.engine, moment)
    run_pass(fleet, owner, f"doomed {os.getpid()}", ScriptedEngine if moment else partial(ScriptedEngine, between=kill))
    os._exit(0)


def main(url: str, home: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        moment, owner = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                child(url, home, int(moment), owner)
            finally:
                os._exit(3)
        _, status = os.waitpid(pid, 0)
        print("killed" if os.WIFSIGNALED(status) else f"finished {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
