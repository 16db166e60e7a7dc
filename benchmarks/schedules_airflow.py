"""An Airflow of the benchmark's own: its four processes on free ports of 127.0.0.1, with a store, a catalog and one file of DAGs.

with running_airflow(folder, DAGS) as airflow:
    airflow.queued("by_event")
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx

T = TypeVar("T")

PROCESSES = ("api-server", "dag-processor", "scheduler", "triggerer")
PATIENCE_S = 300.0
LOOK_S = 0.25
LOG_TAIL = 4_000


@dataclass(frozen=True)
class Airflow:
    """A running one, asked by its REST API."""

    home: Path
    client: httpx.Client

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self.home / 'snowpack.db'}"

    @property
    def lake(self) -> Path:
        return self.home / "snowpack"

    def get(self, path: str, *, allowed: tuple[int, ...] = (200,)) -> Any:
        answer = self.client.get(f"/api/v2{path}")
        if answer.status_code not in allowed:
            raise RuntimeError(f"GET {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def queued(self, dag_id: str) -> dict[str, datetime]:
        """When each of the newest runs of the DAG was queued, by its id."""
        runs = self.get(f"/dags/{dag_id}/dagRuns?order_by=-run_after&limit=100")["dag_runs"]
        return {run["dag_run_id"]: datetime.fromisoformat(run["queued_at"]) for run in runs if run["queued_at"]}

    def task_states(self, dag_id: str) -> list[str]:
        """The states of the tasks of its runs that have not ended."""
        tasks = self.get(f"/dags/{dag_id}/dagRuns/~/taskInstances?order_by=-run_after&limit=100")["task_instances"]
        return [str(task["state"]) for task in tasks if task["state"] not in ("success", "failed")]


def eventually(look: Callable[[], T | None], what: str) -> T:
    """What ``look`` gives as soon as it is something."""
    give_up = time.monotonic() + PATIENCE_S
    while not (found := look()):
        if time.monotonic() > give_up:
            raise RuntimeError(f"It did not happen within {PATIENCE_S:.0f} s: {what}.")
        time.sleep(LOOK_S)
    return found


@contextmanager
def running_airflow(home: Path, dags: str) -> Iterator[Airflow]:
    """Airflow on SQLite with the LocalExecutor; whatever it started ends with the block."""
    port = _free_port()
    environment = _environment(home, port)
    (home / "dags").mkdir()
    (home / "dags" / "bench_dags.py").write_text(dags)
    (home / "passwords.json").write_text(json.dumps({"admin": "admin"}))
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=environment, check=True, capture_output=True)
    started = {name: _start(home, name, environment) for name in PROCESSES}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            eventually(lambda: _log_in(home, client, started), "the API server answers")
            yield Airflow(home, client)
    finally:
        _stop(started)


def _environment(home: Path, port: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    settings = {
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "3",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": uuid4().hex * 2,
        "LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port()),
        "SNOWPACK__TABLE_POLL": "1s",
    }
    return inherited | {"AIRFLOW_HOME": str(home)} | {f"AIRFLOW__{name}": value for name, value in settings.items()}


def _start(home: Path, name: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with _log(home, name).open("ab") as log:
        command = [sys.executable, "-m", "airflow", name]
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _log_in(home: Path, client: httpx.Client, started: Mapping[str, subprocess.Popen[bytes]]) -> bool:
    for name, process in started.items():
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended: {_log(home, name).read_text(errors='replace')[-LOG_TAIL:]}")
    try:
        answer = client.post("/auth/token", json={"username": "admin", "password": "admin"})
    except httpx.TransportError:
        return False
    if answer.status_code != 201:
        return False
    client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return True


def _stop(started: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """End what was started, with everything below it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in started.values():
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                continue
        give_up = time.monotonic() + 15
        while any(process.poll() is None for process in started.values()) and time.monotonic() < give_up:
            time.sleep(0.2)


def _log(home: Path, name: str) -> Path:
    return home / f"{name}.log"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
