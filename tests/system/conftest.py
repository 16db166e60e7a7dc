"""A real Airflow for the whole session: its own home, its four processes, its REST API, and the embedded store and catalog.

    def test_…(airflow: RunningAirflow, new_table) -> None:
        run = airflow.trigger("snowpack_maintain_table", {"table": "db.events"})
        assert airflow.ended(run) == "success"

The processes are started once, on free ports of 127.0.0.1, and ended by their process ids. The test process looks into the same
store and catalog as another process of the installation would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
from postgres_server import new_database

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

REPOSITORY = Path(__file__).parents[2]
PROCESSES = ("api-server", "dag-processor", "scheduler", "triggerer")
# Who there is besides the admin, by role; each one's password is his name. The shortcut that makes everybody an admin is off.
USERS = {"admin": "admin", "vic": "viewer", "uma": "user", "olga": "op"}
PATIENCE_S = 300.0
LOG_TAIL_LINES = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what needs no running Airflow: a scheduler would take the runs of ``airflow dags test``."""
    mine = [place for place, item in enumerate(items) if Path(__file__).parent in item.path.parents]
    ordered = sorted((items[place] for place in mine), key=lambda item: "_running" in getattr(item, "fixturenames", ()))
    for place, item in zip(mine, ordered, strict=True):
        items[place] = item


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(look: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """What ``look`` gives as soon as it is something."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"It did not happen within {patience_s} s: {what}")
        time.sleep(0.3)
    return found


class AirflowHome:
    """An Airflow that is set up and not running.

    :param database: the URL of its own database.
    """

    def __init__(self, home: Path, database: str) -> None:
        self.home = home
        self.port = free_port()
        self.dags = home / "dags"
        shutil.copytree(REPOSITORY / "dags", self.dags)
        for file in (Path(__file__).parent / "dags").glob("*.py"):
            shutil.copy(file, self.dags)
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
        settings = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "3",
            "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__TEST_CONNECTION": "Enabled",
            "DATABASE__SQL_ALCHEMY_CONN": database,
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": uuid4().hex * 2,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "SNOWPACK__SPARK_MASTER": "local[2]",
            "SNOWPACK__FENCE_CHECK": "1s",
            "SNOWPACK__TABLE_POLL": "1s",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",  # a file that has changed does not wait for it
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        }
        self.environment = inherited | {"AIRFLOW_HOME": str(home)} | {f"AIRFLOW__{key}": value for key, value in settings.items()}

    def run(self, *arguments: str, timeout_s: float = PATIENCE_S) -> str:
        """Run an ``airflow`` command to its end; gives what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"airflow {' '.join(arguments)}: {done.stdout[-40000:]}{done.stderr[-4000:]}"
        return done.stdout

    def run_all(self, *commands: list[str]) -> None:
        """Run several to their end, in one process."""
        done = subprocess.run(
            [sys.executable, str(REPOSITORY / "tests" / "support" / "airflow_commands.py")],
            env=self.environment,
            input=json.dumps(commands),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S + 90,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-8000:]}{done.stderr[-8000:]}"


@dataclass(frozen=True)
class Run:
    """A DAG run."""

    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        return f"/dags/{self.dag_id}/dagRuns/{self.run_id}"


class RunningAirflow:
    """The four processes and their REST API."""

    def __init__(self, home: AirflowHome) -> None:
        self.home = home
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{home.port}", timeout=30)

    def start(self) -> None:
        for name in PROCESSES:
            self.start_process(name)
        eventually(self._log_in, "the API server answers")
        eventually(lambda: self.call("GET", "/dags/system_maintain", allowed=(200, 404)).get("dag_id"), "the DAGs are parsed")

    def start_process(self, name: str) -> None:
        """Start one of the four; its log goes on."""
        with self.log(name).open("ab") as log:
            self._started[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", name],
                env=self.home.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_process(self, name: str) -> None:
        """What a machine that fails does: kill -9, of everything below it too."""
        _signal_group(self._started[name].pid, signal.SIGKILL)
        self._started[name].wait(30)

    def stop(self) -> None:
        """End what was started, with everything below it."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started.values():
                if process.poll() is None or signal_number == signal.SIGKILL:
                    _signal_group(process.pid, signal_number)
            deadline = time.monotonic() + 15
            while any(process.poll() is None for process in self._started.values()) and time.monotonic() < deadline:
                time.sleep(0.2)
        self._client.close()

    def log(self, name: str) -> Path:
        return self.home.home / f"{name}.log"

    def log_tails(self) -> str:
        tails = (self.log(name).read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:] for name in PROCESSES)
        return "\n".join(f"== {name}\n" + "\n".join(tail) for name, tail in zip(PROCESSES, tails, strict=True))

    def until(self, look: Callable[[], Any], what: str) -> Any:
        """Wait for ``look`` to give something, as long as all four processes live."""

        def look_again() -> Any:
            self._assert_alive()
            return look()

        return eventually(look_again, what)

    def call(self, method: str, path: str, body: Any = None, allowed: tuple[int, ...] = (200, 201)) -> Any:
        """A call of the REST API. An allowed 500 gives nothing."""
        answer = self._client.request(method, f"/api/v2{path}", json=body)
        assert answer.status_code in allowed, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.status_code < 500 else {}

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> Run:
        """What the trigger form of the UI does."""
        run = Run(dag_id, f"system_{uuid4().hex[:8]}")
        self.call("POST", f"/dags/{dag_id}/dagRuns", {"dag_run_id": run.run_id, "logical_date": None, "conf": conf})
        return run

    def backfill_runs(self, dag_id: str) -> list[Run]:
        """The runs that backfills of this DAG have made."""
        found = self.call("GET", f"/dags/{dag_id}/dagRuns?run_type=backfill")["dag_runs"]
        return [Run(dag_id, run["dag_run_id"]) for run in found]

    def ended(self, run: Run) -> str:
        """The state in which the run ends."""
        final = ("success", "failed")
        state: str = self.until(lambda: self._state(run.path) in final and self._state(run.path), f"{run} ends")
        return state

    def task(self, run: Run, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"{run.path}/taskInstances/{task_id}")
        return found

    def task_becomes(self, run: Run, task_id: str, *states: str) -> dict[str, Any]:
        """Wait for the task to be in one of the states."""
        found: dict[str, Any] = self.until(
            lambda: (task := self.task(run, task_id))["state"] in states and task, f"{run} {task_id} becomes {states}"
        )
        return found

    def result(self, run: Run, task_id: str) -> Any:
        """The task's XCom."""
        return self.call("GET", f"{run.path}/taskInstances/{task_id}/xcomEntries/return_value?deserialize=true")["value"]

    def set_task_state(self, run: Run, task_id: str, state: str) -> None:
        self.call("PATCH", f"{run.path}/taskInstances/{task_id}", {"new_state": state})

    def clear(self, run: Run) -> None:
        """Run all tasks of the run again."""
        body = {"dry_run": False, "dag_run_id": run.run_id, "only_failed": False, "reset_dag_runs": True}
        self.call("POST", f"/dags/{run.dag_id}/clearTaskInstances", body)

    def end_active(self, dag_id: str) -> None:
        """Mark the DAG's active runs failed."""
        for run in self.call("GET", f"/dags/{dag_id}/dagRuns?state=running&state=queued")["dag_runs"]:
            self.call("PATCH", f"/dags/{dag_id}/dagRuns/{run['dag_run_id']}", {"state": "failed"})

    def _state(self, path: str) -> str:
        return str(self.call("GET", path)["state"])

    def _assert_alive(self) -> None:
        for name, process in self._started.items():
            assert process.poll() is None, f"{name} ended: {self.log(name).read_text(errors='replace')[-4000:]}"

    def _log_in(self) -> bool:
        self._assert_alive()
        try:
            answer = self._client.post("/auth/token", json={"username": "admin", "password": "admin"})
        except httpx.TransportError:
            return False
        if answer.status_code != 201:
            return False
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return True


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[AirflowHome]:
    """An Airflow with its database, not running.

    On Postgres: with SQLite, Airflow's own commands fail at once where they meet a write of the scheduler's.
    """
    with new_database(postgres_url) as url:
        database = url.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
        home = AirflowHome(tmp_path_factory.mktemp("airflow"), database)
        home.run("db", "migrate")
        yield home


@pytest.fixture(scope="session")
def _running(airflow_home: AirflowHome) -> Iterator[RunningAirflow]:
    running = RunningAirflow(airflow_home)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def airflow(_running: RunningAirflow, request: pytest.FixtureRequest) -> Iterator[RunningAirflow]:
    """The running Airflow; when a test fails, the ends of its logs are printed."""
    failures = request.session.testsfailed
    yield _running
    if request.session.testsfailed > failures:
        print(_running.log_tails())


@pytest.fixture(scope="session")
def jobs(airflow_home: AirflowHome) -> Iterator[Jobs]:
    """The store that the tasks use."""
    with Jobs(open_store(f"sqlite:///{airflow_home.home / 'snowpack.db'}")) as jobs:
        yield jobs


@pytest.fixture(scope="session")
def catalog(airflow_home: AirflowHome) -> Catalog:
    """The catalog that the tasks use."""
    catalog = CatalogConfig.embedded(airflow_home.home / "snowpack").load()
    catalog.create_namespace_if_not_exists("db")
    return catalog


@pytest.fixture
def new_table(catalog: Catalog) -> Callable[..., TableName]:
    """Make a table of small files: ``new_table([rows, rows, …])``, one commit for each."""

    def make(commits: list[pa.Table], schema: Schema | None = None, **arguments: Any) -> TableName:
        name = TableName("lake", "db", f"t_{uuid4().hex[:10]}")
        table = catalog.create_table(name.identifier, schema=schema or commits[0].schema, **arguments)
        for rows in commits:
            table.append(rows)
        return name

    return make


@pytest.fixture
def load(catalog: Catalog) -> Callable[[TableName], Table]:
    """The table as it is now."""
    return lambda name: catalog.load_table(name.identifier)
