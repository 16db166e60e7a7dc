"""The hook of Spark: a session with the installation's catalog.

    session = IcebergSparkHook().session()
    session.sql("SELECT count(*) FROM lake.demo.flights")

:mod:`airflow_snowpack.connections.spark` chooses the engine by the type of the connection.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_snowpack.connections.spark import PURPOSE, Spark, spark_of, sparks_of
from airflow_snowpack.hooks.connections import read_connection
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from airflow_snowpack.settings import Settings
    from airflow_snowpack.spark import SparkConfig, SparkServer


def sparks(spark_conn_id: str | None, catalog_conn_ids: Sequence[str]) -> list[Spark]:
    """Return where Spark runs for each catalog, by default the installation's; raises like :attr:`IcebergSparkHook.spark`."""
    catalogs = [IcebergCatalogHook(conn_id) for conn_id in catalog_conn_ids or (None,)]
    settings = catalogs[0].settings
    conn_id = spark_conn_id or settings.spark_conn_id
    connection = None if conn_id is None else read_connection(conn_id, PURPOSE)
    return sparks_of(settings, [each.config for each in catalogs], connection)


class IcebergSparkHook(BaseHook):
    """Creates Spark sessions.

    :param spark_conn_id: a connection whose type has an engine; ``None`` for ``[snowpack] spark_conn_id``.
    :param catalog_conn_id: as for :class:`IcebergCatalogHook`.
    """

    conn_name_attr = "spark_conn_id"
    hook_name = "Iceberg on Spark"

    def __init__(self, spark_conn_id: str | None = None, catalog_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = spark_conn_id
        self._catalog = IcebergCatalogHook(catalog_conn_id)

    @property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return self._catalog.settings

    @cached_property
    def spark(self) -> Spark:
        """Where Spark runs.

        :raises InvalidSetting: as :meth:`Settings.load`.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableEngine: from the Airflow connections.
        """
        conn_id = self._given_conn_id or self.settings.spark_conn_id
        return spark_of(self.settings, self._catalog.config, None if conn_id is None else read_connection(conn_id, PURPOSE))

    @property
    def config(self) -> SparkConfig:
        """The configuration of a session in this process, see :attr:`Spark.config`."""
        return self.spark.config

    @property
    def sessions(self) -> Callable[[], SparkSession] | SparkServer:
        """The argument of a :class:`SparkEngine`: a session of this process, or the server for sessions of jobs."""
        return self.spark.sessions

    def session(self) -> SparkSession:
        """Return the process's session, starting it if there is none.

        :raises SparkUnavailable: no Java, no jar, the wrong Spark version, or a server that does not answer.
        """
        return self.spark.session()

    def check(self) -> None:
        """Check that a session can start in this process, see :meth:`Spark.check`."""
        self.spark.check()

    def get_conn(self) -> SparkSession:
        """Return :meth:`session`; Airflow's name for it."""
        return self.session()
