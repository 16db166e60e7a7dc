"""One Spark session and one embedded catalog for all integration tests that need real tables.

``lake`` is the catalog's configuration, ``spark`` the session that has it, ``catalog`` PyIceberg's view of the same,
``new_table`` makes an empty table, and ``append`` adds rows to one without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from held_jobs import held_jobs
from table_zoo import Zoo

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.spark import SparkConfig, local_session
from examples.cluster.jars import AWS_BUNDLE, Jars

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

DATABASE = "db"

# For tables of a few rows: what Spark does to be fast on millions of rows costs it more than the rows do.
FOR_SMALL_TABLES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> CatalogConfig:
    """The embedded catalog, in a folder of this test run."""
    return CatalogConfig.embedded(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="session")
def spark_config(lake: CatalogConfig) -> SparkConfig:
    """What the session of the test run is made of."""
    return SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), app_name="snowpack-tests")


@pytest.fixture(scope="session")
def spark(spark_config: SparkConfig) -> SparkSession:
    """The one session of the test run; it ends with the process.

    Its JVM has the clients of S3, for the catalogs that some tests add, which its configuration leaves out: it is that of
    the installations that tests make in this process.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_DIST_CLASSPATH", str(Jars().get("aws", [AWS_BUNDLE])[0]))
        session = local_session(spark_config)
    for key, value in FOR_SMALL_TABLES.items():
        session.conf.set(key, value)
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{DATABASE}")
    return session


@pytest.fixture(scope="session")
def catalog(lake: CatalogConfig, spark: SparkSession) -> Catalog:
    """The same catalog through PyIceberg."""
    return lake.load()


@pytest.fixture(scope="session")
def new_table(spark: SparkSession, lake: CatalogConfig) -> Callable[..., TableName]:
    """Make an empty table with a name that no other test has: ``new_table("id BIGINT, day INT", "day")``."""
    return table_maker(spark, lake.name)


def table_maker(spark: SparkSession, catalog: str) -> Callable[..., TableName]:
    """Return what makes an empty table in a catalog of the session.

    Its arguments are the columns, what it is partitioned by, and table properties beside format version 2 and merge-on-read.
    """

    def make(
        columns: str = "id BIGINT, part INT, note STRING", partitioned_by: str | None = None, **properties: str
    ) -> TableName:
        name = TableName(catalog, DATABASE, f"t_{uuid4().hex[:12]}")
        settings = {
            "format-version": "2",
            "write.delete.mode": "merge-on-read",
            "write.update.mode": "merge-on-read",
            **{key.replace("_", "-"): value for key, value in properties.items()},
        }
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
        partitions = f"PARTITIONED BY ({partitioned_by}) " if partitioned_by else ""
        spark.sql(f"CREATE TABLE {name.quoted} ({columns}) USING iceberg {partitions}TBLPROPERTIES ({pairs})")
        return name

    return make


@pytest.fixture(scope="session")
def append(catalog: Catalog) -> Callable[..., None]:
    """Commit rows to a table with PyIceberg: ``append(name, id=range(40), note=["n"] * 40)``."""
    return appender(catalog)


def appender(catalog: Catalog) -> Callable[..., None]:
    """Return what commits rows to a table of a catalog, in a tenth of the time of an ``INSERT``.

    The values of a column get the type that the table has.
    """
    import pyarrow as pa

    def commit(name: TableName, **columns: Sequence[Any]) -> None:
        table = catalog.load_table(name.identifier)
        table.append(pa.table([list(values) for values in columns.values()], schema=table.schema().select(*columns).as_arrow()))

    return commit


@pytest.fixture(scope="session")
def zoo(catalog: Catalog, spark: SparkSession) -> Zoo:
    """Tables of every kind, made when they are first asked for, in the catalog of ``lake``."""
    from table_zoo import Zoo

    return Zoo(catalog, spark)


@pytest.fixture
def meanwhile(spark: SparkSession) -> Callable[..., AbstractContextManager[None]]:
    """Do something while the next Spark job waits for a task slot, as :func:`held_jobs` says: ``with meanwhile(append):``."""
    return partial(held_jobs, spark)
