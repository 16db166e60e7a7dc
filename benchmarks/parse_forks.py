"""What a DAG file that uses the package costs beyond one without it, where Airflow parses: in a fork of the DAG processor.

The parent has loaded what the DAG processor has. Each measurement is a fork that parses and serializes one file, as
``airflow.dag_processing.processor`` does, and reports its CPU. Files with and without the package alternate.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.results import Finding, Results

AT_MOST_MS = 20.0
LEAST_ROUNDS = 15

# Each beside a file with the same parts of Airflow itself.
FILES: Mapping[str, tuple[str, str]] = {
    "an operator": (
        """
from airflow.sdk import DAG, Asset, BaseOperator
with DAG("plain", schedule=None):
    BaseOperator(task_id="maintain", outlets=[Asset("iceberg://lake/demo/flights")])
""",
        """
from airflow.sdk import DAG
from airflow_snowpack.operators import MaintainTableOperator
with DAG("ours", schedule=None):
    MaintainTableOperator(task_id="maintain", table="demo.flights")
""",
    ),
    "a sensor": (
        """
from airflow.sdk import DAG, BaseSensorOperator
with DAG("plain", schedule=None):
    BaseSensorOperator(task_id="arrived")
""",
        """
from airflow.sdk import DAG
from airflow_snowpack.scheduling import PartitionsAdded
from airflow_snowpack.sensors import IcebergDataArrivalSensor
with DAG("ours", schedule=None):
    IcebergDataArrivalSensor(task_id="arrived", trigger=PartitionsAdded("demo.flights", 5))
""",
    ),
    "a schedule": (
        """
from airflow.sdk import DAG, BaseOperator
with DAG("plain", schedule=None):
    BaseOperator(task_id="nothing")
""",
        """
from airflow.sdk import DAG, BaseOperator
from airflow_snowpack.scheduling import PartitionsAdded, Schedule, SinceLastRun
with DAG("ours", schedule=None):
    BaseOperator(task_id="nothing")
Schedule("s", dag_id="ours", trigger=PartitionsAdded("demo.flights"), constraints=[SinceLastRun("5m")])
""",
    ),
    "a decorated task": (
        """
from airflow.sdk import DAG, task
with DAG("plain", schedule=None):
    @task
    def features(flights): ...
    features(None)
""",
        """
from airflow.sdk import DAG, task
from airflow_snowpack.interim import TableRef
with DAG("ours", schedule=None):
    @task.snowpack
    def features(flights: TableRef): ...
    features(None)
""",
    ),
    "all four": (
        """
from airflow.sdk import DAG, Asset, BaseOperator, BaseSensorOperator, task
with DAG("plain", schedule=Asset("iceberg://lake/demo/flights")):
    arrived = BaseSensorOperator(task_id="arrived")
    maintain = BaseOperator(task_id="maintain", outlets=[Asset("iceberg://lake/demo/flights")])
    @task
    def features(flights): ...
    arrived >> maintain >> features(None)
""",
        """
from airflow.sdk import DAG, task
from airflow_snowpack.assets import iceberg_asset
from airflow_snowpack.interim import TableRef
from airflow_snowpack.operators import MaintainTableOperator
from airflow_snowpack.scheduling import PartitionsAdded, Schedule, SinceLastRun
from airflow_snowpack.sensors import IcebergDataArrivalSensor
with DAG("ours", schedule=iceberg_asset("demo.flights")):
    arrived = IcebergDataArrivalSensor(task_id="arrived", trigger=PartitionsAdded("demo.flights", 5))
    maintain = MaintainTableOperator(task_id="maintain", table="demo.flights")
    @task.snowpack
    def features(flights: TableRef): ...
    arrived >> maintain >> features(None)
Schedule("s", dag_id="ours", trigger=PartitionsAdded("demo.flights"), constraints=[SinceLastRun("5m")])
""",
    ),
}
FORKS = """
import gc, json, logging, os, sys, time
from pathlib import Path

import structlog
from airflow.dag_processing import manager, processor
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

providers_configuration_loaded(lambda: None)()
logging.disable(logging.INFO)
rounds, dags, *files = sys.argv[1:]

def parse(file, there):
    began = time.process_time()
    request = processor.DagFileParseRequest(file=file, bundle_path=Path(file).parent, bundle_name="bench")
    parsed = processor._parse_file(request, structlog.get_logger())
    assert len(parsed.serialized_dags) == int(dags) and not parsed.import_errors, parsed.import_errors
    os.write(there, str(time.process_time() - began).encode())

def cpu(file):
    processor._pre_import_airflow_modules(file, structlog.get_logger())
    here, there = os.pipe()
    if os.fork() == 0:
        code = 1
        try:
            parse(file, there)
            code = 0
        finally:
            os._exit(code)
    os.close(there)
    with open(here) as file:
        return float(file.read())

for file in files:
    cpu(file)  # what is compiled once, and loaded into the parent
gc.freeze()
print(json.dumps([[cpu(file) for file in files] for _ in range(int(rounds))]))
"""


def run(results: Results, environment: Mapping[str, str], folder: Path, *, rounds: int) -> None:
    """Compare each pair of files.

    :param environment: of a fresh Airflow; ``folder``: where the files are written.
    """
    files = []
    for number, pair in enumerate(FILES.values()):
        for which, source in zip(("plain", "ours"), pair, strict=True):
            file = folder / f"{which}_{number}.py"
            file.write_text(source)
            files.append(str(file))
    columns = [[seconds * 1000 for seconds in column] for column in cpu_of_parses(files, environment, max(rounds, LEAST_ROUNDS))]
    for what, plain, ours in zip(FILES, columns[::2], columns[1::2], strict=True):
        added = statistics.median(with_ours - without for without, with_ours in zip(plain, ours, strict=True))
        says = f"{statistics.median(ours):.1f} ms : {statistics.median(plain):.1f} ms, {len(plain)} pairs"
        title = f"CPU (ms) that a DAG file with {what} adds in a fork of the DAG processor"
        results.find(Finding(title, added, at_most=AT_MOST_MS, says=says))


def cpu_of_parses(files: Sequence[str], environment: Mapping[str, str], rounds: int, *, dags: int = 1) -> list[tuple[float, ...]]:
    """Parse the files in turns, each in a fork of its own, and return the CPU seconds of each file's parses.

    :param dags: how many DAGs each file has.
    """
    command = [sys.executable, "-c", FORKS, str(rounds), str(dags), *files]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Parsing failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    measured: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return [*zip(*measured, strict=True)]
