"""Tables in need of maintenance, and an engine to give it to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

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
        row = spark.sql(f"SELECT count(*) AS n, coalesce(sum(xxhash64(*)), 0) AS h FROM {name.quoted}").collect()[0]
        return Content(row["n"], row["h"])

    # A sum of hashes may overflow 64 bits, which is fine for a checksum and not for ANSI arithmetic.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    return read


@pytest.fixture
def table_of(catalog: Catalog) -> Callable[[TableName], Table]:
    """PyIceberg's view of a table as it is now."""
    return lambda name: catalog.load_table(name.identifier)


@pytest.fixture
def fragmented(spark: SparkSession, new_table: Callable[..., TableName]) -> Callable[..., TableName]:
    """A partitioned merge-on-read table of many small commits, some rows of which were deleted again."""

    def make(commits: int = 6, parts: int = 2, deletes: int = 2, rows: int = 40, **properties: str) -> TableName:
        name = new_table("id BIGINT, part INT, note STRING", "part", **properties)
        for number in range(commits):
            spark.sql(
                f"INSERT INTO {name.quoted} SELECT id + {number * rows}, id % {parts}, concat('n', id) FROM range(0, {rows}, 1, 1)"
            )
        for number in range(deletes):
            spark.sql(f"DELETE FROM {name.quoted} WHERE id % 10 = {number}")
        return name

    return make
