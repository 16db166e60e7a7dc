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
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
from made_airflow import made_airflow
from postgres_server import new_database

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store import open_store
from examples.cluster.process import free_port

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

REPOSITORY = Path(__file__).parents[2]
PROCESSES = ("api-server", "dag-processor", "scheduler", "triggerer")
# Who there is besides the admin, by role; each one's password is his name. The shortcut that makes everybody an admin is off.
USERS = {"admin": "admin", "vic": "viewer", "uma": "user", "olga": "op"}
# No promises about speed: on a machine with a load of 30, a process of Airflow takes minutes to start.
PATIENCE_S = 900.0
LONGEST_TEST_S = 1500.0
# Of each log when a test fails. What a report shows may be cut, and more of them would hide the failure itself.
LOG_TAIL_LINES, LOG_LINE_LENGTH = 30, 300
WITHOUT_WORKER = ("deferred", "awaiting_input")
NOISE = ("request finished", "Refreshing bundle", "Searching for files", "Found ")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test here more time than the others have: several processes start in it, one after the other."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONGEST_TEST_S))


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
    :param dag_files: all of its DAGs; ``None``: those of the package and of the system tests.
    :param settings: further settings, such as ``{"CORE__PARALLELISM": "4"}``.
    """

    def __init__(
        self,
        home: Path,
        database: str,
        dag_files: Iterable[Path] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.port = free_port()
        self.dags = home / "dags"
        self.dags.mkdir()
        if dag_files is None:
            dag_files = [*(REPOSITORY / "dags").glob("*.py"), *(Path(__file__).parent / "dags").glob("*.py")]
        for file in dag_files:
            shutil.copy(file, self.dags)
        passwords = home / "passwords.json"
        passwords.write_text(json.dumps({name: name for name in USERS}))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
        # What `make airflow PORT=…` sets: without the address of the execution API, no task runs on any port but Airflow's own.
        made = made_airflow(home, self.port)[-1].environment
        defaults = {
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "8",  # a task that waits for its test keeps no other from running
            "CORE__AUTH_MANAGER": "limited_auth_manager.LimitedAuthManager",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in USERS.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__TEST_CONNECTION": "Enabled",
            "DATABASE__SQL_ALCHEMY_CONN": database,
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": uuid4().hex * 2,
            # Long enough for a task that lives on a machine that is busy; tests of dead ones do something else meanwhile.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
            "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",  # a task notices soon that it was marked
            "WORKERS__MAX_FAILED_HEARTBEATS": "30",
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            # A triggerer that was killed is given up on this soon; there is one, so nothing is taken from it while it lives.
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
            "TRIGGERER__RUNNER_HEALTH_CHECK_THRESHOLD": "300",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "SNOWPACK__SPARK_MASTER": "local[2]",
            "SNOWPACK__FENCE_CHECK": "1s",
            "SNOWPACK__TABLE_POLL": "1s",
            "SNOWPACK__RESUME_DELAY": "3s",  # the scheduler may be later; RunningAirflow.tries() accounts for that
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",  # a file that has changed does not wait for it
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        }
        chosen = defaults | dict(settings or {})
        self.environment = inherited | made | {f"AIRFLOW__{key}": value for key, value in chosen.items()}
        paths = (str(REPOSITORY / "tests" / "support"), self.environment.get("PYTHONPATH"))
        self.environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)

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

    def run_all(self, *commands: list[str]) -> str:
        """Run several to their end, in one process; gives what they printed."""
        done = subprocess.run(
            [sys.executable, str(REPOSITORY / "tests" / "support" / "airflow_commands.py")],
            env=self.environment,
            input=json.dumps(commands),
            capture_output=True,
            text=True,
            timeout=LONGEST_TEST_S - 60,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-40000:]}{done.stderr[-8000:]}"
        return done.stdout


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
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{home.port}", timeout=PATIENCE_S)

    def start(self) -> None:
        """Start all four; the scheduler last, since its first tasks fail as long as the API server does not answer."""
        for name in ("api-server", "dag-processor"):
            self.start_process(name)
        self.until(self._log_in, "the API server answers")
        for name in ("scheduler", "triggerer"):
            self.start_process(name)
        self.until(self._are_parsed, "all DAG files are parsed")

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
        self._started[name].wait(PATIENCE_S)

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
        return "\n".join(f"== {name}\n{self._log_tail(name)}" for name in PROCESSES)

    def _log_tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()
        telling = [line[:LOG_LINE_LENGTH] for line in lines if not any(each in line for each in NOISE)]
        return "\n".join(telling[-LOG_TAIL_LINES:])

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

    def backfill(self, dag_id: str, first: date, last: date, conf: dict[str, Any] | None = None) -> None:
        """Run ``airflow backfill create`` over these days, two runs at a time."""
        days = ("--from-date", f"{first}", "--to-date", f"{last}", "--max-active-runs", "2", "--reprocess-behavior", "none")
        self.home.run("backfill", "create", "--dag-id", dag_id, *days, "--dag-run-conf", json.dumps(conf or {}))

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

    def tries(self, run: Run, task_id: str) -> int:
        """How often the task was tried, without the tries that Airflow failed because it heard late of a deferral.

        The product waits before it resumes a task, but how long that takes Airflow on a busy machine is not bounded
        (docs/decisions/0010).
        """
        path = f"/eventLogs?dag_id={run.dag_id}&run_id={run.run_id}&task_id={task_id}&event=state+mismatch"
        late: int = self.call("GET", path)["total_entries"]
        return int(self.task(run, task_id)["try_number"]) - late

    def task_becomes(self, run: Run, task_id: str, *states: str) -> dict[str, Any]:
        """Wait for the task to be in one of the states and, if it waits without a worker, until the scheduler has processed this.

        Airflow fails a task that is resumed before (docs/decisions/0010).
        """
        found: dict[str, Any] = self.until(
            lambda: (task := self.task(run, task_id))["state"] in states and task, f"{run} {task_id} becomes {states}"
        )
        if found["state"] in WITHOUT_WORKER:
            key = f"dag_id={run.dag_id!r}, task_id={task_id!r}, run_id={run.run_id!r}, try_number={found['try_number']}"
            line = f"Received executor event with state success for task instance TaskInstanceKey({key}, map_index=-1)"
            self.until(lambda: line in self.log("scheduler").read_text(errors="replace"), f"the scheduler logs {line!r}")
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

    def _are_parsed(self) -> bool:
        parsed = {dag["relative_fileloc"] for dag in self.call("GET", "/dags?limit=100")["dags"]}
        return {file.name for file in self.home.dags.glob("*.py")} <= parsed

    def _state(self, path: str) -> str:
        return str(self.call("GET", path)["state"])

    def _assert_alive(self) -> None:
        for name, process in self._started.items():
            code = process.poll()
            assert code is None, f"{name} ended with {code}: {self.log(name).read_text(errors='replace')[-4000:]}"

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


@contextmanager
def embedded_jobs(home: AirflowHome) -> Iterator[Jobs]:
    """The store of an Airflow that has none configured."""
    with Jobs(open_store(f"sqlite:///{home.home / 'snowpack.db'}")) as jobs:
        yield jobs


def embedded_config(home: AirflowHome) -> CatalogConfig:
    """The catalog's description in an Airflow that has none configured."""
    return CatalogConfig.embedded(home.home / "snowpack")


def embedded_catalog(home: AirflowHome) -> Catalog:
    """The catalog of an Airflow that has none configured."""
    catalog = embedded_config(home).load()
    catalog.create_namespace_if_not_exists("db")
    return catalog


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
    with embedded_jobs(airflow_home) as jobs:
        yield jobs


@pytest.fixture(scope="session")
def catalog(airflow_home: AirflowHome) -> Catalog:
    """The catalog that the tasks use."""
    return embedded_catalog(airflow_home)


def create_table(catalog: Catalog, commits: list[pa.Table], schema: Schema | None = None, **arguments: Any) -> TableName:
    """Create a table of small files, one commit for each of ``commits``."""
    file = Path(catalog.properties["uri"].removeprefix("sqlite:///"))
    which = CatalogConfig.sqlite("lake", file, warehouse="").catalog_id
    name = TableName("lake", "db", f"t_{uuid4().hex[:10]}", which)
    table = catalog.create_table(name.identifier, schema=schema or commits[0].schema, **arguments)
    for rows in commits:
        table.append(rows)
    return name


@pytest.fixture(scope="session")
def new_table(catalog: Catalog) -> Callable[..., TableName]:
    """Make a table of small files: ``new_table([rows, rows, …])``, one commit for each."""
    return partial(create_table, catalog)


@pytest.fixture(scope="session")
def load(catalog: Catalog) -> Callable[[TableName], Table]:
    """The table as it is now."""
    return lambda name: catalog.load_table(name.identifier)
