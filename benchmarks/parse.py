"""What our operators cost Airflow: to parse a DAG file that has them, and to run a task that finds nothing to do.

Each run is a process of its own, as Airflow's are, alternating with a bare one; its CPU is what the system counted for it.
Airflow alone imports SQLAlchemy, so that a module counts as ours only when the bare DAG file does not load it. What Airflow pays
again at each parse is measured in forks (:mod:`benchmarks.parse_forks`): in a process of its own, Airflow's own imports hide it.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import parse_forks, parse_many
from benchmarks.results import Finding, Results

BARE = """
from airflow.sdk import DAG, Asset, BaseSensorOperator, task
with DAG("bare", schedule=None) as dag:
    @task(outlets=[Asset("x://a")])
    def nothing(): ...
    nothing()
    BaseSensorOperator(task_id="wait")
"""
OURS = """
from airflow.sdk import DAG
from airflow_snowpack.operators import MaintainTableOperator, SubmitMaintenanceOperator, SweepOperator
from airflow_snowpack.sensors import MaintenanceJobSensor
with DAG("ours", schedule=None) as dag:
    MaintainTableOperator(task_id="maintain", table="demo.flights")
    SubmitMaintenanceOperator(task_id="submit", table="demo.flights")
    MaintenanceJobSensor(task_id="wait", job_id="0123")
    SweepOperator(task_id="sweep")
"""
HEAVY = ("pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "alembic", "psycopg", "pandas", "numpy")
LOADED = "import json, runpy, sys; runpy.run_path(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
AT_MOST_TASK = 1.5


def run(results: Results, *, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as home:
        folder = Path(home)
        bare, ours = folder / "bare.py", folder / "ours.py"
        bare.write_text(BARE)
        ours.write_text(OURS)
        environment = _environment(folder)
        _imports(results, bare, ours, environment)
        parse_forks.run(results, environment, folder, rounds=rounds)
        parse_many.run(results, environment, folder / "many", rounds=rounds)
        _ratio(results, "CPU to parse a DAG file: with our operators / with an empty @task", environment, rounds, bare, ours)
        _seconds(environment, ours, "sweep")  # the embedded store makes its tables once
        what = "CPU of a task process: SweepOperator on an empty store / an empty @task"
        _ratio(results, what, environment, rounds, bare, ours, "nothing", "sweep", at_most=AT_MOST_TASK)


def _imports(results: Results, bare: Path, ours: Path, environment: dict[str, str]) -> None:
    def loaded(dag_file: Path) -> set[str]:
        said = subprocess.run(
            [sys.executable, "-c", LOADED, dag_file], env=environment, check=True, capture_output=True, text=True
        )
        return set(json.loads(said.stdout.splitlines()[-1]))

    added = {module.split(".")[0] for module in loaded(ours) - loaded(bare)}
    heavy = sorted(added & set(HEAVY))
    says = ", ".join(heavy) or f"none of {', '.join(HEAVY)}"
    results.find(Finding("heavy packages that parsing our operators adds", len(heavy), at_most=0, says=says))


def _ratio(
    results: Results,
    what: str,
    environment: dict[str, str],
    rounds: int,
    bare: Path,
    ours: Path,
    bare_task: str = "",
    our_task: str = "",
    at_most: float | None = None,
) -> None:
    pairs = [(_seconds(environment, bare, bare_task), _seconds(environment, ours, our_task)) for _ in range(rounds)]
    base, mine = (statistics.median(column) for column in zip(*pairs, strict=True))
    results.find(Finding(what, mine / base, at_most=at_most, says=f"{mine:.2f} s : {base:.2f} s"))


def _seconds(environment: dict[str, str], dag_file: Path, task_id: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "benchmarks.task_process", str(dag_file), task_id]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The task {task_id} of {dag_file.name} failed:\n{done.stdout}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environment(home: Path) -> dict[str, str]:
    """A fresh Airflow home, and nothing of the caller's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    return inherited | {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    }
