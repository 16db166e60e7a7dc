"""The operators with real Spark: the session and the catalog of the test run, reached through the installation's settings."""

from __future__ import annotations

import importlib.util
import signal
import sys
import uuid
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest
from bounded import Beside

from airflow_snowpack import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import CatalogConfig, TableName

# The runner of operators is written once, beside the unit tests; a folder of tests is no package that it could be imported from.
_shared = importlib.util.spec_from_file_location("shared_faces", Path(__file__).parents[2] / "unit" / "faces" / "conftest.py")
assert _shared is not None
assert _shared.loader is not None
_faces = importlib.util.module_from_spec(_shared)
sys.modules[_shared.name] = _faces  # where dataclasses look for the names of a module
_shared.loader.exec_module(_faces)
jobs, run_operator = _faces.jobs, _faces.run_operator


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: CatalogConfig, spark: SparkSession) -> Iterator[Path]:
    """Settings that lead to the session and the catalog of the test run, and to a store of this test."""
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", f'{{"conn_type": "sqlite", "host": "{tmp_path}/snowpack.db"}}')
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(Path(lake.address).parent))
    # The catalog is every test's, and a namespace is one store's.
    monkeypatch.setenv("AIRFLOW__SNOWPACK__INTERIM_NAMESPACE", f"interim_{uuid.uuid4().hex[:12]}")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__SPARK_MASTER", "local[2]")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__FENCE_CHECK", "1s")
    assert hooks.IcebergSparkHook().session() is spark
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)  # the runner leaves its own behind


@pytest.fixture
def small_files(spark: SparkSession, new_table: Callable[..., TableName]) -> TableName:
    """A table of six small files."""
    name = new_table("id BIGINT, part INT")
    for part in range(6):
        spark.sql(f"INSERT INTO {name.quoted} SELECT id, {part} FROM range(0, 10, 1, 1)")
    return name


@pytest.fixture
def slow_table(spark: SparkSession, new_table: Callable[..., TableName]) -> TableName:
    """A table whose rewrite takes seconds, so that something can happen meanwhile: its files are compressed that hard."""
    name = new_table("id BIGINT, note STRING")
    for _ in range(3):
        spark.sql(f"INSERT INTO {name.quoted} SELECT id, concat(uuid(), uuid(), uuid()) FROM range(0, 150000, 1, 1)")
    hard = "'write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19'"
    spark.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({hard})")
    return name


@pytest.fixture
def when_spark_works(spark: SparkSession) -> Callable[[Callable[[], object]], Beside]:
    """Do something, once, in another thread, as soon as Spark works on a job."""
    tracker = spark.sparkContext.statusTracker()

    def start(action: Callable[[], object]) -> Beside:
        seen = set(tracker.getActiveJobsIds())

        def watch() -> None:
            deadline = monotonic() + 120
            while not set(tracker.getActiveJobsIds()) - seen:
                if monotonic() > deadline:
                    raise AssertionError("Spark never worked on anything")
                sleep(0.02)
            action()

        return Beside(watch)

    return start
