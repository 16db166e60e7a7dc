"""Airflow as its four processes and Snowpack's scheduler, on Postgres, with the DAGs of the repository.

airflow = AirflowProcesses(home, postgres, installation)
airflow.start()
run_id = airflow.trigger("snowpack_maintain_table", {"table": "demo.flights"})
airflow.state_of("snowpack_maintain_table", run_id)
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import httpx

from examples.cluster.errors import ServerFailed
from examples.cluster.part import Part
from examples.cluster.postgres import Postgres
from examples.cluster.process import LOCALHOST, LOG_TAIL_LINES, ServerProcess, environment_without_airflow, free_ports
from examples.cluster.snowpack import SnowpackInstallation, write_environment

if TYPE_CHECKING:
    from collections.abc import Callable

DAGS = Path(__file__).parents[2] / "dags"
USER = "admin"
MIGRATION_LIMIT_S = 900.0
REQUEST_LIMIT_S = 60.0


class AirflowProcesses(Part):
    """API server, DAG processor, scheduler, triggerer, and ``airflow snowpack scheduler``.

    :param home: becomes AIRFLOW_HOME.
    """

    name: ClassVar[str] = "airflow"
    needs: ClassVar[tuple[type[Part], ...]] = (Postgres, SnowpackInstallation)

    def __init__(self, home: Path, postgres: Postgres, installation: SnowpackInstallation) -> None:
        super().__init__()
        self.home = home
        self._postgres, self._installation = postgres, installation
        self._port, self._worker_logs, self._trigger_logs = free_ports(3)
        self._password = secrets.token_hex(8)
        self._client = httpx.Client(base_url=f"http://{LOCALHOST}:{self._port}", timeout=REQUEST_LIMIT_S)
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        """Migrate the database and start the processes; the scheduler after the API server, which its tasks need."""
        self.home.mkdir(parents=True)
        (self.home / "passwords.json").write_text(json.dumps({USER: self._password}))
        (self.home / "passwords.json").chmod(0o600)
        settings = self._settings() | self._installation.environment
        write_environment(self.home / "environment.sh", settings)
        self.environment = environment_without_airflow() | settings
        self._migrate()
        self._run("api-server", self._logs_in, port=self._port)
        self._run("dag-processor", self._has_dags)
        for name in ("scheduler", "triggerer"):
            self._run(name, partial(self._is_healthy, name))
        log = self.home / "snowpack scheduler.log"
        self._run("snowpack scheduler", lambda: "works on the store" in log.read_text())

    @property
    def addresses(self) -> dict[str, str]:
        return {
            "Airflow": f"http://{LOCALHOST}:{self._port}",
            f"password of {USER}": str(self.home / "passwords.json"),
            "settings": str(self.home / "environment.sh"),
        }

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Unpause a DAG and start a run; return the run's id."""
        self._call("PATCH", f"/dags/{dag_id}", {"is_paused": False})
        return str(self._call("POST", f"/dags/{dag_id}/dagRuns", {"conf": conf, "logical_date": None})["dag_run_id"])

    def state_of(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run, such as ``running`` or ``success``."""
        return str(self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def _settings(self) -> dict[str, str]:
        """Return the settings of all processes; those of ``make airflow`` and a shared database."""
        database = self._postgres.new_database("airflow").set(drivername="postgresql+psycopg2")
        url = f"http://{LOCALHOST}:{self._port}"
        rest = {"conn_type": "http", "host": url, "login": USER, "password": self._password}
        settings = {
            "API__BASE_URL": url,
            "API__HOST": LOCALHOST,
            "API__PORT": str(self._port),
            "API__SECRET_KEY": uuid4().hex,
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": uuid4().hex * 2,
            "CORE__DAGS_FOLDER": str(DAGS),
            "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "4",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "DATABASE__SQL_ALCHEMY_CONN": database.render_as_string(hide_password=False),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(self._trigger_logs),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(self._worker_logs),
            "SNOWPACK__AIRFLOW_CONN_ID": "airflow",
        }
        named = {f"AIRFLOW__{key}": value for key, value in settings.items()}
        return named | {"AIRFLOW_HOME": str(self.home), "AIRFLOW_CONN_AIRFLOW": json.dumps(rest)}

    def _migrate(self) -> None:
        log = self.home / "migration.log"
        with log.open("w") as output:
            done = subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=MIGRATION_LIMIT_S,
                check=False,
            )
        if done.returncode:
            tail = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
            raise ServerFailed("airflow db migrate", f"ended with exit code {done.returncode}", log, tail)

    def _run(self, command: str, probe: Callable[[], bool], port: int | None = None) -> None:
        server = ServerProcess(
            f"airflow {command}",
            [sys.executable, "-m", "airflow", *command.split()],
            port=port,
            log=self.home / f"{command}.log",
            environment=self.environment,
            folder=self.home,
        )
        self.run(server, probe)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._client.request(method, f"/api/v2{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    def _logs_in(self) -> bool:
        answer = self._client.post("/auth/token", json={"username": USER, "password": self._password})
        answer.raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        return True

    def _has_dags(self) -> bool:
        parsed = {dag["relative_fileloc"] for dag in self._call("GET", "/dags?limit=100")["dags"]}
        return {file.name for file in DAGS.glob("*.py")} <= parsed

    def _is_healthy(self, name: str) -> bool:
        return bool(self._call("GET", "/monitor/health")[name]["status"] == "healthy")
