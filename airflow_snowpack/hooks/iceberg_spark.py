"""The hook of Spark: a session that has the installation's catalog.

    session = IcebergSparkHook().session()
    session.sql("SELECT count(*) FROM lake.demo.flights")

Without a connection it is a local session in the calling process. A ``spark`` connection names a cluster's master (client mode:
the driver is the calling process), a ``spark_connect`` connection a Spark Connect server.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_snowpack.hooks.connections import read_connection
from airflow_snowpack.hooks.errors import IncompleteConnection, UnsuitableConnection
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.sdk import Connection
    from pyspark.sql import SparkSession

    from airflow_snowpack.spark import ConnectServer, SparkConfig

PURPOSE = "Spark"
WAIT = timedelta(seconds=30)
"""How long one call waits for statements to end; callers repeat it."""


class IcebergSparkHook(BaseHook):
    """Creates Spark sessions.

    :param spark_conn_id: a connection of the type ``spark`` or ``spark_connect``; ``None`` for ``[snowpack] spark_conn_id``. The
        extra ``conf`` of a ``spark`` connection is additional Spark configuration; the extra ``send_catalog`` of a
        ``spark_connect`` connection sends the catalog's configuration, with its secrets, to a server that does not have it.
    :param catalog_conn_id: as for :class:`IcebergCatalogHook`.
    """

    conn_name_attr = "spark_conn_id"
    hook_name = "Iceberg on Spark"

    def __init__(self, spark_conn_id: str | None = None, catalog_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = spark_conn_id
        self._catalog = IcebergCatalogHook(catalog_conn_id)

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    @cached_property
    def _connection(self) -> Connection | None:
        conn_id = self._given_conn_id or self.settings.spark_conn_id
        return None if conn_id is None else read_connection(conn_id, PURPOSE)

    @cached_property
    def config(self) -> SparkConfig:
        """The configuration of a session in this process. It may contain the catalog's secrets.

        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connections.
        """
        from airflow_snowpack.spark import SparkConfig

        catalog, settings = self._catalog.config, self.settings
        master, conf = settings.spark_master, settings.spark_conf
        if self._connection is not None:
            master, conf = spark_master(self._connection), {**conf, **connection_conf(self._connection)}
        return SparkConfig(
            catalogs=catalog.spark_conf(),
            master=master,
            driver_memory=settings.spark_driver_memory,
            packages=(*catalog.spark_packages(), *settings.spark_packages),
            conf=conf,
        )

    def session(self) -> SparkSession:
        """Return the session, and start it if there is none. A process reuses its session.

        :raises SparkUnavailable: no Java, no jar, the wrong Spark version, or a server that does not answer.
        """
        from airflow_snowpack.spark import connect_session, local_session

        connection = self._connection
        if connection is None or connection.conn_type != "spark_connect":
            return local_session(self.config)
        return connect_session(_connect_url(connection), catalogs=self._sent_catalogs(connection))

    @property
    def sessions(self) -> Callable[[], SparkSession] | ConnectServer:
        """What a :class:`SparkEngine` needs: a session of this process, or the server for sessions of jobs.

        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connections.
        """
        from airflow_snowpack.spark import ConnectServer

        connection = self._connection
        if connection is None or connection.conn_type != "spark_connect":
            return self.session
        return ConnectServer(connection.conn_id, _connect_url(connection), self._sent_catalogs(connection))

    def _sent_catalogs(self, connection: Connection) -> Mapping[str, str] | None:
        return self._catalog.config.spark_conf() if connection.extra_dejson.get("send_catalog") else None

    def check(self) -> None:
        """Check that a session can start in this process, without starting it. A Spark Connect server is not contacted.

        :raises SparkUnavailable: no Java, no jar, or the wrong Spark version.
        """
        from airflow_snowpack.spark import check_local

        if self._connection is None or self._connection.conn_type != "spark_connect":
            check_local(self.config)

    def get_conn(self) -> SparkSession:
        """Return :meth:`session`, under Airflow's usual name."""
        return self.session()


def spark_master(connection: Connection) -> str:
    """Return the master of a ``spark`` connection: ``local[4]``, ``yarn``, ``spark://host:7077``, ``k8s://https://host:6443``.

    :raises UnsuitableConnection, IncompleteConnection: it has none.
    """
    if connection.conn_type != "spark":
        raise UnsuitableConnection(connection.conn_id, PURPOSE, connection.conn_type, ("spark", "spark_connect"))
    if not connection.host:
        raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of Spark's master)")
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


def connection_conf(connection: Connection) -> Mapping[str, str]:
    """Return additional Spark configuration from the connection's extra ``conf``."""
    return {key: str(value) for key, value in (connection.extra_dejson.get("conf") or {}).items()}


def connect_url(conn_id: str) -> str:
    """Return the address of a connection's Spark Connect server. It may contain a token.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: it has none.
    """
    connection = read_connection(conn_id, PURPOSE)
    if connection.conn_type != "spark_connect":
        raise UnsuitableConnection(conn_id, PURPOSE, connection.conn_type, ("spark_connect",))
    return _connect_url(connection)


def _connect_url(connection: Connection) -> str:
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    if not connection.host:
        raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of the Spark Connect server)")
    return str(SparkConnectHook(connection.conn_id).get_connection_url())


class ConnectOrphans:
    """Ends what killed workers left running on Spark Connect servers, which it finds through their Airflow connections."""

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt the attempts' statements, wait for their end, and close the sessions.

        :param server: the id of an Airflow connection of the type ``spark_connect``.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        :raises SparkUnavailable: the server does not answer, or a statement is still running.
        """
        from airflow_snowpack.spark import end_session, session_id_of

        url = connect_url(server)
        for attempt in attempts:
            end_session(url, session_id_of(job_id, attempt), within=WAIT)
