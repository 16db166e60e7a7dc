"""A worker whose jobs take a moment: ``python busy_worker.py <store url> <name> [<file>]``.

With a file, its engine reports ``working`` and goes on only when the file exists.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import timedelta
from pathlib import Path

from scripted_engine import ScriptedEngine, eventually

from airflow_snowpack.jobs import Jobs, JobWorker, LifecyclePolicy
from airflow_snowpack.store import open_store

POLICY = LifecyclePolicy(
    lease=timedelta(seconds=3), heartbeat=timedelta(seconds=0.5), retry_base=timedelta(0), max_attempts=10_000
)
LONGEST_ACTION_S = 0.05


def work(go_on: Path | None) -> None:
    if go_on is None:
        time.sleep(random.uniform(0, LONGEST_ACTION_S))
    else:
        print("working", flush=True)
        eventually(go_on.exists)


def main(url: str, name: str, file: str | None = None) -> int:
    go_on = None if file is None else Path(file)
    with Jobs(open_store(url), POLICY) as jobs:
        engine = lambda: ScriptedEngine(between=lambda _action: work(go_on))  # noqa: E731
        return JobWorker(jobs, engine, name, poll=timedelta(seconds=0.05)).run_forever()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
