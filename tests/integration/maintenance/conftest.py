"""Tables in need of maintenance, and an engine to give it to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from bounded import Beside

from airflow_snowpack.jobs.model import Job, JobStatus
from airflow_snowpack.maintenance import Action, SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import TableName


@pytest.fixture
def engine(spark: SparkSession, catalog: Catalog) -> SparkEngine:
    return SparkEngine(lambda: spark, lambda: catalog)


@pytest.fixture
def job_for() -> Callable[..., Job]:
    """A job for a table; options by action, such as ``job_for(name, rewrite_data_files={"min_input_files": 2})``."""

    def make(table: TableName, **options: Mapping[str, Any]) -> Job:
        return Job(uuid4().hex, table, tuple(Action), options, False, JobStatus.RUNNING, datetime.now(UTC))

    return make


@dataclass(frozen=True)
class Content:
    """What a reader sees of a table; maintenance must not change it."""

    rows: int
    checksum: int


@pytest.fixture
def content_of(spark: SparkSession) -> Callable[[TableName], Content]:
    def read(name: TableName) -> Content:
        hashes = "coalesce(sum(CAST(xxhash64(*) AS DECIMAL(38, 0))), 0)"
        row = spark.sql(f"SELECT count(*) AS n, {hashes} AS h FROM {name.quoted}").collect()[0]
        return Content(row["n"], int(row["h"]))

    return read


@pytest.fixture
def table_of(catalog: Catalog) -> Callable[[TableName], Table]:
    """PyIceberg's view of a table as it is now."""
    return lambda name: catalog.load_table(name.identifier)


@pytest.fixture
def slow_to_rewrite(spark: SparkSession, fragmented: Callable[..., TableName]) -> Callable[..., TableName]:
    """A fragmented table whose rewrite takes seconds, for something to happen meanwhile: its files get compressed that hard."""

    def make(parts: int = 1) -> TableName:
        name = fragmented(commits=0, deletes=0)
        for _ in range(3):
            row = f"id, id % {parts}, concat(uuid(), uuid(), uuid())"
            spark.sql(f"INSERT INTO {name.quoted} SELECT {row} FROM range(0, {25_000 * parts}, 1, 1)")
        hard = "'write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19'"
        spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({hard})")
        return name

    return make


@dataclass(frozen=True)
class Meanwhile:
    """Something that another thread does as soon as Spark works on a job of ours."""

    spark: SparkSession

    def __call__(self, action: Callable[[], object], *, times: int = 1) -> Beside:
        """Start watching; ``times`` says for how many of the following Spark jobs the action is done."""
        tracker = self.spark.sparkContext.statusTracker()
        seen = set(tracker.getActiveJobsIds())

        def watch() -> None:
            deadline = monotonic() + 60
            done = 0
            while done < times and monotonic() < deadline:
                new = set(tracker.getActiveJobsIds()) - seen
                if new:
                    seen.update(new)
                    action()
                    done += 1
                sleep(0.02)

        return Beside(watch)


@pytest.fixture
def meanwhile(spark: SparkSession) -> Meanwhile:
    """``meanwhile(engine.interrupt)``: as soon as Spark runs a job."""
    return Meanwhile(spark)


@pytest.fixture
def fragmented(spark: SparkSession, new_table: Callable[..., TableName]) -> Callable[..., TableName]:
    """A partitioned merge-on-read table of many small commits, some rows of which were deleted again."""

    def make(commits: int = 6, parts: int = 2, deletes: int = 2, rows: int = 40, **properties: str) -> TableName:
        name = new_table("id BIGINT, part INT, note STRING", "part", **properties)
        for first in range(0, commits * rows, rows):
            source = f"range({first}, {first + rows}, 1, 1)"
            spark.sql(f"INSERT INTO {name.quoted} SELECT id, id % {parts}, concat('n', id) FROM {source}")
        for number in range(deletes):
            spark.sql(f"DELETE FROM {name.quoted} WHERE id % 10 = {number}")
        return name

    return make
