"""An Airflow for the demo alone: a fresh home, its SQLite database, the repository's DAGs, nothing of the caller's settings.

airflow = LocalAirflow(home, dags)
airflow.adopt()                                  # this process reads the same configuration
airflow.migrate()
airflow.run_dag("snowpack_maintain_table", {"table": "demo.flights"}, meanwhile=show_progress)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.cluster.process import environment_without_airflow
from examples.demo.errors import AirflowFailed, NoDags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

POLL_SECONDS = 0.5
LOG_TAIL_LINES = 40


class LocalAirflow:
    """Airflow in a folder.

    :param home: becomes ``AIRFLOW_HOME``.
    :param dags: the folder with the DAG files.
    :raises NoDags: the folder does not exist.
    """

    def __init__(self, home: Path, dags: Path) -> None:
        if not dags.is_dir():
            raise NoDags(dags)
        self.home = home
        self._dags = dags
        self.log = home.parent / "airflow.log"

    def environment(self) -> dict[str, str]:
        """The caller's environment without any of its Airflow settings and connections, and with ours."""
        return environment_without_airflow() | {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }

    def adopt(self) -> None:
        """Give this process the same environment; before its first import of Airflow, which reads its configuration once."""
        adopt_environment(self.environment())

    def migrate(self) -> None:
        """Make Airflow's metadata database."""
        self._run(["db", "migrate"], lambda: None)

    def run_dag(self, dag_id: str, conf: Mapping[str, Any], *, meanwhile: Callable[[], None]) -> None:
        """Run a DAG from beginning to end.

        :param meanwhile: called about twice a second.
        :raises AirflowFailed: a task failed, or the DAG did not start; the end of the log is in the message.
        """
        file = self._dags / f"{dag_id}.py"
        self._run(["dags", "test", dag_id, "--dagfile-path", str(file), "--conf", json.dumps(conf)], meanwhile)

    def _run(self, arguments: list[str], meanwhile: Callable[[], None]) -> None:
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                while not _ended(process):
                    meanwhile()
            finally:
                # Also when the demo is interrupted: no task goes on without it.
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        if process.returncode:
            tail = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
            raise AirflowFailed(arguments[:3], process.returncode, self.log, tail)


def adopt_environment(environment: Mapping[str, str]) -> None:
    """Give this process an environment of Airflow, before its first import of Airflow."""
    os.environ.update(environment)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    # Airflow's logging writes to the standard output, which is the demo's.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
