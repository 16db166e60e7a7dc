"""Runs whole job lifecycles and is killed in the middle: ``python kill_process.py <store url> every|first``.

For each line on standard input it forks a child (an interpreter that has its imports already) and answers ``killed`` or
``finished``:

- ``statement 17``: the child goes through every step once and kills itself at the 17th moment, where each SQL statement has two
  moments, before and after it, and each commit has one;
- ``request 17``: likewise, through every request of an actor;
- ``milliseconds 40``: the child repeats every step and is killed from outside, 40 ms after it has done all of them once.

``every`` counts all of these moments. ``first`` counts those around a statement that the child runs for the first time, and the
commits that are the first after such a statement: each kind of statement once.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import count
from typing import Any, NoReturn

import sqlalchemy as sa
from heard_statements import hear_direct
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Attempt, Jobs
from airflow_snowpack.store import Actor, open_store

ACTIONS = ["rewrite_data_files", "expire_snapshots"]


def every_step(jobs: Jobs, name: str) -> None:
    """Submit, claim, two actions with progress, finish; then once more with take-over, cancel and unlock."""
    job = jobs.submit(TableName("lake", "db", f"{name}_a"), ACTIONS)
    claim = jobs.claim("doomed", job_id=job.job_id)
    assert claim is not None
    Attempt(jobs, claim, ScriptedEngine()).run()
    first = jobs.submit_and_claim(TableName("lake", "db", f"{name}_b"), ACTIONS, "doomed", owner=name)
    assert jobs.renew(first)
    second = jobs.take_over(first.job.job_id, "doomed", owner=name)
    jobs.cancel(second.job.job_id)
    assert jobs.release_lock(second)
    jobs.flush()


def every_request(jobs: Jobs, name: str) -> None:
    """What an actor requests: submit, drain mode, cancel, the same again, a dry run, delete, a sweep, a foreign lock."""
    doomed = Actor("doomed", via="api")
    job = jobs.submit_once(TableName("lake", "db", f"{name}_c"), ACTIONS, key=f"{name} 1", actor=doomed).job
    jobs.set_drain(True, actor=doomed)
    jobs.set_drain(False, actor=doomed)
    jobs.cancel(job.job_id, actor=doomed)
    again = jobs.rerun(job.job_id, actor=doomed)
    plan = jobs.submit_once(again.table, ACTIONS, results=[], key=f"{name} 2", actor=doomed).job
    jobs.delete(plan.job_id, actor=doomed)
    jobs.submit(TableName("lake", "db", f"{name}_d"), ACTIONS, actor=doomed)
    jobs.sweep(actor=doomed)
    jobs.flush()


def kill_at(engine: sa.Engine, moment: int, which: str) -> None:
    met: set[tuple[str, str]] = set()
    moments = count(1)
    last = ""

    def tick(when: str) -> None:
        if which == "first" and (when, last) in met:
            return
        met.add((when, last))
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        nonlocal last
        last = statement
        tick("before")

    sa.event.listen(engine, "before_cursor_execute", before)
    sa.event.listen(engine, "after_cursor_execute", lambda *_arguments: tick("after"))
    sa.event.listen(engine, "commit", lambda _conn: tick("commit"))
    hear_direct()


def child(url: str, how: str, number: int, name: str, which: str, once_done: int) -> NoReturn:
    jobs = Jobs(open_store(url))
    if how in ("statement", "request"):
        kill_at(jobs.store.engine, number, which)
        (every_step if how == "statement" else every_request)(jobs, name)
        os._exit(0)
    for turn in count():
        every_step(jobs, f"{name}_{turn}")
        if turn == 0:
            os.write(once_done, b"!")
    raise AssertionError("unreachable")


def main(url: str, which: str) -> None:
    print("ready", flush=True)
    for turn, line in enumerate(sys.stdin):
        how, number = line.split()
        is_done, once_done = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(url, how, int(number), f"t{turn}", which, once_done)
            finally:
                os._exit(3)
        os.close(once_done)
        if how == "milliseconds":
            os.read(is_done, 1)
            time.sleep(int(number) / 1000)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(is_done)
        print("killed" if os.WIFSIGNALED(status) else f"finished {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
