"""One demo, from an empty folder to the numbers.

A year of flights arrives in 365 commits, the cancelled ones are deleted, files are left behind; then the DAG
``snowpack_maintain_table`` runs in a real Airflow, and the table is measured again.

    outcome = Demo(home, 365, Console(), LocalAirflow(home / "airflow", dags), set_modified).run()
    outcome.is_good, outcome.to_json()
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from airflow_snowpack.iceberg import load_table
from examples.demo.errors import JobMissing
from examples.demo.flights import create_table, days_of, read_flights
from examples.demo.measure import Measurement, measure
from examples.demo.report import show_job, show_numbers, summary
from examples.demo.wear import Wear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import date

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession
    from rich.console import Console

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Job, Jobs

T = TypeVar("T")

DAG_ID = "snowpack_maintain_table"
TABLE = "demo.flights"
WHOLE_YEAR = 365
ORPHANS = 20
AGE = timedelta(days=10)
# The commits are minutes old, and nothing makes a commit look older: with the default of five days none would expire.
OPTIONS = {"expire_snapshots": {"max_age": "0s"}}
MARGIN = 50
STDERR = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result."""

    before: Measurement
    after: Measurement
    job: Job
    days: int
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether the job completed and no row changed."""
        return self.job.status.value == "completed" and self.after.same_rows_as(self.before)

    def to_json(self) -> str:
        return summary(self.before, self.after, self.job, days=self.days, seconds=self.seconds)


class DemoAirflow(Protocol):
    """The Airflow of a demo."""

    log: Path

    def adopt(self) -> None:
        """Give this process the environment of Airflow's processes, before its first import of Airflow."""

    def migrate(self) -> None:
        """Create the metadata database, if it is missing."""

    def run_dag(self, dag_id: str, conf: Mapping[str, Any], *, meanwhile: Callable[[], None]) -> None:
        """Run a DAG from beginning to end.

        :param meanwhile: called about twice a second.
        """


class Demo:
    """One run, step by step.

    :param home: an empty folder.
    :param days: how much of the year.
    :param airflow: where the DAG runs; the catalog and Spark are those of its settings.
    :param set_modified: see :class:`Wear`.
    """

    def __init__(
        self,
        home: Path,
        days: int,
        console: Console,
        airflow: DemoAirflow,
        set_modified: Callable[[Iterable[str], float], None],
    ) -> None:
        self._days = days
        self._console = console
        self._airflow = airflow
        self._set_modified = set_modified
        self._spark_log = home / "spark.log"
        columns = (TextColumn(f"{{task.description:<{MARGIN}}}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, redirect_stderr=False)

    def run(self) -> Outcome:
        """Everything, with progress and tables on the console.

        :raises AirflowFailed: the DAG did not end well.
        """
        started = time.monotonic()
        self._airflow.adopt()
        from airflow_snowpack.hooks import IcebergCatalogHook, IcebergSparkHook, SnowpackHook

        catalog_hook = IcebergCatalogHook()
        catalog, name = catalog_hook.catalog, catalog_hook.table_name(TABLE)
        with SnowpackHook() as store, self._screen(), ThreadPoolExecutor(1) as background:
            with self._step("Starting Spark"):
                session = IcebergSparkHook().session()
            database = background.submit(self._airflow.migrate)
            days = self._load(catalog, name)
            self._wear(session, load_table(catalog, name), name, days)
            with self._step("Measuring the table"):
                before = measure(session, catalog, name)
            database.result()
            job = self._maintain(store.jobs(), name)
            with self._step("Measuring the table again"):
                after = measure(session, catalog, name)
            history = store.jobs().history(job.job_id)
            session.stop()
        show_job(self._console, job, history)
        show_numbers(self._console, before, after)
        return Outcome(before, after, job, self._days, time.monotonic() - started)

    def _load(self, catalog: Catalog, name: TableName) -> list[date]:
        """Append day by day; gives the days."""
        flights = read_flights(self._days)
        table = create_table(catalog, name, flights)
        loaded = []
        for day, rows in self._track("Loading the flights of 2013, a commit a day", days_of(flights), self._days):
            table.append(rows)
            loaded.append(day)
        return loaded

    def _wear(self, session: SparkSession, table: Table, name: TableName, days: list[date]) -> None:
        wear = Wear(session, table, name, self._set_modified)
        months = sorted({day.replace(day=1) for day in days})
        for month in self._track("Deleting the cancelled flights, a commit a month", months, len(months)):
            wear.delete_cancelled(month)
        wear.leave_orphans(ORPHANS)
        wear.age(AGE)

    def _maintain(self, jobs: Jobs, name: TableName) -> Job:
        """Run the DAG; gives the job that it left in the store."""
        bar = self._progress.add_task(f"Airflow runs the DAG {DAG_ID}", total=None)

        def look() -> None:
            for job in jobs.list(name, limit=1):
                self._progress.update(bar, total=len(job.actions), completed=len(job.results))

        self._airflow.run_dag(DAG_ID, {"table": TABLE, "options": OPTIONS}, meanwhile=look)
        look()
        found = jobs.list(name, limit=1)
        if not found:
            raise JobMissing(str(name), self._airflow.log)
        return found[0]

    @contextmanager
    def _screen(self) -> Iterator[None]:
        """Progress for people; what the JVM writes goes into a file, through its logger or by the standard error."""
        ours, jvm = os.dup(STDERR), logging.getLogger("airflow_snowpack.spark.jvm")
        with self._spark_log.open("w") as log, self._progress:
            os.dup2(log.fileno(), STDERR)
            handler, jvm.propagate = logging.StreamHandler(log), False
            jvm.addHandler(handler)
            try:
                yield
            finally:
                jvm.removeHandler(handler)
                jvm.propagate = True
                os.dup2(ours, STDERR)
                os.close(ours)

    @contextmanager
    def _step(self, description: str) -> Iterator[None]:
        bar = self._progress.add_task(description, total=1)
        yield
        self._progress.update(bar, completed=1)

    def _track(self, description: str, items: Iterable[T], total: int) -> Iterable[T]:
        return self._progress.track(items, total=total, description=description)
