"""The operators with real Spark: the session and the catalog of the test run, reached through the installation's settings."""

from __future__ import annotations

import importlib.util
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import CatalogConfig, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The runner of operators is written once, beside the unit tests; a folder of tests is no package that it could be imported from.
_shared = importlib.util.spec_from_file_location("shared_faces", Path(__file__).parents[2] / "unit" / "faces" / "conftest.py")
assert _shared is not None
assert _shared.loader is not None
_faces = importlib.util.module_from_spec(_shared)
sys.modules[_shared.name] = _faces  # where dataclasses look for the names of a module
_shared.loader.exec_module(_faces)
jobs, registry, run_operator = _faces.jobs, _faces.registry, _faces.run_operator


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
def small_files(new_table: Callable[..., TableName], append: Callable[..., None], lake: CatalogConfig) -> TableName:
    """A table of six small files."""
    name = new_table("id BIGINT, part INT")
    for part in range(6):
        append(name, id=range(10), part=[part] * 10)
    return replace(name, catalog_id=lake.catalog_id)
