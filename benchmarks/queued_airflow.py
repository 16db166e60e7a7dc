"""How soon the DAG ``snowpack_workers`` claims a job of an empty queue, on a running Airflow.

Each sample waits until the DAG's sensor is in the triggerer and may be woken. Then a job is submitted, whose table needs no
Spark. The clock stops at the claim; what Airflow has recorded of the two tasks in between shows where the time went.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from benchmarks.results import Finding, Results
from benchmarks.schedules_airflow import Airflow, eventually, running_airflow

if TYPE_CHECKING:
    from airflow_snowpack.jobs import Job

DAG = Path(__file__).parents[1] / "airflow_snowpack" / "dags" / "snowpack_workers.py"
DAG_ID = "snowpack_workers"
TABLE = "bench.waits"
SAMPLES = 5
AT_MOST_S = 5.0
UNTIL_IT_CAN_BE_WOKEN_S = 12.0
SENSOR_PERIOD_S = 1.0
LEGS = (
    "submit → end of jobs_wait",
    "→ work is queued",
    "→ work starts",
    "→ claim",
)


@dataclass(frozen=True)
class Sample:
    """One job."""

    seconds: float
    legs: tuple[float, ...]


def run(results: Results, *, rounds: int) -> None:
    """Five samples a round."""
    dag = DAG.read_text().replace("is_paused_upon_creation=True", "is_paused_upon_creation=False")
    with (
        tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder,
        running_airflow(Path(folder), dag) as airflow,
        Jobs(open_store(airflow.store_url)) as jobs,
    ):
        site = _Site(airflow, jobs)
        site.sample()  # the imports of the first tasks are written to disk
        samples = [site.sample() for _ in range(SAMPLES * rounds)]
    seconds = [sample.seconds for sample in samples]
    says = f"{len(seconds)} samples: {', '.join(f'{each:.2f}' for each in sorted(seconds))}"
    what = "seconds from a submit into an empty queue to the claim by snowpack_workers, median"
    results.find(Finding(what, statistics.median(seconds), at_most=AT_MOST_S, says=says))
    for number, leg in enumerate(LEGS):
        results.find(Finding(f"of them, {leg}, median", statistics.median(sample.legs[number] for sample in samples)))


class _Site:
    """A table, and the DAG that waits for its jobs."""

    def __init__(self, airflow: Airflow, jobs: Jobs) -> None:
        import pyarrow as pa

        self._airflow, self._jobs, self._chance = airflow, jobs, random.Random(7)
        config = CatalogConfig.embedded(airflow.lake)
        catalog = config.load()
        catalog.create_namespace_if_not_exists("bench")
        catalog.create_table(TABLE, schema=pa.schema([("id", pa.int64())]))
        self._table = TableName.parse(TABLE, catalog="lake", catalog_id=config.catalog_id)
        eventually(lambda: airflow.get(f"/dags/{DAG_ID}", allowed=(200, 404)).get("dag_id"), f"{DAG_ID} is parsed")

    def sample(self) -> Sample:
        """Submit a job at a random moment of the sensor's period, and wait for its end."""
        eventually(lambda: "deferred" in self._airflow.task_states(DAG_ID), "the sensor waits in the triggerer")
        time.sleep(UNTIL_IT_CAN_BE_WOKEN_S + self._chance.uniform(0, SENSOR_PERIOD_S))
        job = self._jobs.submit(self._table, ["expire_snapshots"])
        job = eventually(lambda: self._ended(job.job_id), "the job has ended")
        assert job.status is JobStatus.COMPLETED, job.error
        assert job.started_at is not None
        return Sample((job.started_at - job.submitted_at).total_seconds(), self._legs(job))

    def _ended(self, job_id: str) -> Job | None:
        job = self._jobs.get(job_id)
        return job if job.status.is_terminal else None

    def _legs(self, job: Job) -> tuple[float, ...]:
        """Find the run that ran the job by when its work began."""
        tasks = self._airflow.get(f"/dags/{DAG_ID}/dagRuns/~/taskInstances?order_by=-run_after&limit=100")["task_instances"]
        assert job.started_at is not None
        works = [each for each in tasks if each["task_id"] == "work" and each["start_date"]]
        work: dict[str, Any] = max((each for each in works if _at(each["start_date"]) <= job.started_at), key=_start)
        (sensor,) = [each for each in tasks if each["task_id"] == "jobs_wait" and each["dag_run_id"] == work["dag_run_id"]]
        moments = [
            job.submitted_at,
            *(_at(text) for text in (sensor["end_date"], work["queued_when"], work["start_date"])),
            job.started_at,
        ]
        return tuple((after - before).total_seconds() for before, after in pairwise(moments))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _start(task: dict[str, Any]) -> datetime:
    return _at(task["start_date"])
