"""Builds, publishes, rolls back and cleans up, and is killed in the middle: ``python kill_builds.py <store url> <folder>``.

For each line on standard input it forks a child (an interpreter that has its imports already), which goes through every step once
and kills itself at the moment of that number. The answer is ``killed``, or ``finished`` and how many moments there were; number 0
never comes. Each SQL statement has two moments, before and after it, each commit one, and each call of the storage two, as has
the renaming of a file to its name.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import sqlalchemy as sa
from built_runs import DATASET, DAY, MIDNIGHT, begun, selected, write_attempt
from heard_statements import hear_direct

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import open_store


def every_step(registry: BuildRegistry, storage: Storage, day: int) -> None:
    """A build with a loser, by two tasks; a failed one, a later try of it; a rollback and the way back; all of cleanup."""
    handle = begun(registry, storage, MIDNIGHT + day * DAY, shards=1, owner="task")
    for task in (0, 1):
        write_attempt(storage, handle.run_id, 0, task=task)
    handle = registry.resume(DATASET, handle.run_id)
    registry.heartbeat(handle)
    publish(registry, storage, handle, selected(storage, handle))
    rollback(registry, storage, DATASET, "-1", "another")
    begun(registry, storage, MIDNIGHT + day * DAY, shards=1, owner="other")
    failed = begun(registry, storage, MIDNIGHT + day * DAY, shards=1, owner="other")
    write_attempt(storage, failed.run_id, 0)
    registry.fail(failed, "it was no good")
    cleanup(registry, storage, DATASET, Retention(keep_runs=2))
    rollback(registry, storage, DATASET, handle.run_id, "another")


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
    Storage._tried = ticking(Storage._tried)  # type: ignore[method-assign]
    Path.replace = ticking(Path.replace)  # type: ignore[method-assign]
    return moments


def child(url: str, folder: str, moment: int, day: int) -> NoReturn:
    with open_store(url) as store:
        moments = kill_at(store.engine, moment)
        every_step(BuildRegistry(store), Storage(folder), day)
    print(f"finished {next(moments) - 1}", flush=True)
    os._exit(0)


def main(url: str, folder: str) -> None:
    print("ready", flush=True)
    for day, line in enumerate(sys.stdin, start=10):
        pid = os.fork()
        if pid == 0:
            try:
                child(url, folder, int(line), day)
            finally:
                os._exit(3)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            print("killed" if os.WIFSIGNALED(status) else f"failed {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
