"""Runs tries of a task with an entry, each in a process of its own, and kills that with SIGKILL in a given phase.

For each line on standard input, ``[phase, try number, folder, place]``, it forks a child, an interpreter that has its imports
already. The place is where the entry runs, as arguments of the task. The answer, among the lines of Airflow's log, is ``killed``
or the XCom as JSON. The settings come from the environment, as in a worker.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyiceberg.io.pyarrow  # noqa: F401
from airflow.sdk import DAG, task
from airflow.sdk.execution_time import task_runner
from handed_tables import NUMBERS, handed

from airflow_snowpack.interim.handover import TableHandover
from airflow_snowpack.operators import RunEntryOperator
from airflow_snowpack.operators.entries.base import RunsEntry
from airflow_snowpack.operators.entries.docker_container import FollowedClient
from airflow_snowpack.operators.entries.kubernetes_pod import EntryPod
from airflow_snowpack.runners.exchange import Exchange
from tests.unit.faces.conftest import Runner, Supervisor

ANSWER = "answer:"

ENDLESS = ("while the entry runs", "before it defers")
"""The phases in which the entry does not end by itself."""

ENTRY = """
import json, os, subprocess, sys, time
source, target, attempt, folder, is_endless = sys.argv[1:]
if folder:
    below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    with open(f"{folder}/pids-{attempt}.json", "w") as file:
        json.dump([os.getpid(), below.pid], file)
print("running")
print("the provider passes on a line of a pod when the next one has arrived", flush=True)
if is_endless:
    time.sleep(600)
import pyarrow as pa, pyarrow.parquet as pq
rows = pq.read_table(f"{source}/part-0.parquet")
pq.write_table(rows.append_column("try", pa.array([int(attempt)] * rows.num_rows)), target)
"""


def kill(*_arguments: Any, **_named: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_before(cls: type, name: str) -> None:
    setattr(cls, name, kill)


def killed_after(cls: type, name: str) -> None:
    original: Callable[..., Any] = getattr(cls, name)

    def called(*arguments: Any, **named: Any) -> None:
        original(*arguments, **named)
        kill()

    setattr(cls, name, called)


def set_trap(phase: str, runner: str) -> None:
    """Kill this process when it reaches the phase."""
    match phase, runner:
        case "before the run", _:
            killed_after(Exchange, "write_call")
        case "after it was created", "docker":
            killed_after(FollowedClient, "create_container")
        case "after it was created", "kubernetes":
            killed_before(EntryPod, "_create_secret")
        case "while the entry runs", _:
            killed_before(RunsEntry, "_log_line")
        case "before it defers", "kubernetes":
            killed_before(RunsEntry, "defer")
        case "before it is removed", "docker":
            killed_before(FollowedClient, "remove_container")
        case "before it is removed", "kubernetes":
            killed_before(EntryPod, "cleanup")
        case "after it ended", _:
            killed_before(Exchange, "result")
        case "before the commit", _:
            killed_before(TableHandover, "_commit")
        case "after the commit", _:
            killed_after(TableHandover, "_commit")
        case "", _:
            pass
        case unknown:
            raise ValueError(unknown)


def run_try(phase: str, try_number: int, folder: str, place: dict[str, Any]) -> Any:
    """Run one try of the task ``score``, with a table in and a table out."""
    set_trap(phase, place["runner"])
    run = Runner(Supervisor())
    task_runner.SUPERVISOR_COMMS = run.supervisor  # type: ignore[assignment]  # the other end of the socket
    with open(f"{folder}/../numbers.json") as file:
        numbers = json.load(file)
    with DAG("guard", schedule=None):
        command = [sys.executable, "-c", ENTRY, "{inputs}/numbers", "{outputs}/scored.parquet", str(try_number)]
        command += [folder if place["runner"] == "subprocess" else "", "endless" if phase in ENDLESS else ""]
        arguments: dict[str, Any] = {"command": command, "inputs": {"numbers": numbers}, "outputs": ["scored"], "name": "scored"}
        score = RunEntryOperator(task_id="score", command_env={"TOKEN": "a secret of the task"}, **arguments, **place)

        @task(task_id="after")
        def after(scored: Any) -> None: ...

        after(score.output)
    outcome = run(score, try_number=try_number, run_id=os.path.basename(folder))
    if outcome.error is not None:
        raise outcome.error
    return outcome.xcom


def write_numbers(folder: str) -> list[str]:
    """Write the reference of a table that a task has returned; return the modules that this process has loaded for it."""
    run = Runner(Supervisor())
    task_runner.SUPERVISOR_COMMS = run.supervisor  # type: ignore[assignment]  # the other end of the socket
    with open(f"{folder}/numbers.json", "w") as file:
        json.dump(handed(run, NUMBERS, preservation="FULL"), file)
    return sorted(sys.modules)


def load(modules: list[str]) -> None:
    """Load modules once instead of in each child."""
    for name in modules:
        with suppress(ImportError):  # a name that another module has made up
            importlib.import_module(name)


def main() -> None:
    for line in sys.stdin:
        phase, try_number, folder, place = json.loads(line)
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(here)
            answer = write_numbers(folder) if phase == "numbers" else run_try(phase, try_number, folder, place)
            os.write(there, json.dumps(answer).encode())
            os._exit(0)
        os.close(there)
        with open(here) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        if phase == "numbers":
            load(json.loads(answer))
            answer = "written"
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(ANSWER, "killed" if killed else answer or f"status {status}", flush=True)


if __name__ == "__main__":
    main()
