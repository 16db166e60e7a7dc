"""Where Spark runs, as the settings and an Airflow connection describe it.

Without a connection it is a local session in the calling process. A ``spark`` connection names a cluster's master (client mode:
the driver is the calling process), a ``spark_connect`` connection a Spark Connect server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_snowpack.connections.connection import Connection, ReadConnection
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.settings import Settings
    from airflow_snowpack.spark import ConnectServer, SparkConfig

PURPOSE = "Spark"
WAIT = timedelta(seconds=30)
"""How long one call waits for statements to end; callers repeat it."""


@dataclass(frozen=True)
class Spark:
    """Creates sessions that have the installation's catalog.

    :param connection: of the type ``spark`` or ``spark_connect``; ``None`` for a local session. The extra ``conf`` of a ``spark``
        connection is additional Spark configuration; the extra ``send_catalog`` of a ``spark_connect`` connection sends the
        catalog's configuration, with its secrets, to a server that does not have it.
    """

    settings: Settings
    catalog: CatalogConfig
    connection: Connection | None = None

    @cached_property
    def config(self) -> SparkConfig:
        """The configuration of a session in this process. It may contain the catalog's secrets.

        :raises UnsuitableConnection, IncompleteConnection: the connection names no master.
        """
        from airflow_snowpack.spark import SparkConfig

        master, conf = self.settings.spark_master, self.settings.spark_conf
        if self.connection is not None:
            master, conf = spark_master(self.connection), {**conf, **connection_conf(self.connection)}
        return SparkConfig(
            catalogs=self.catalog.spark_conf(),
            master=master,
            driver_memory=self.settings.spark_driver_memory,
            packages=(*self.catalog.spark_packages(), *self.settings.spark_packages),
            conf=conf,
        )

    @cached_property
    def server(self) -> ConnectServer | None:
        """The Spark Connect server; ``None`` if sessions run in this process.

        :raises IncompleteConnection: the connection has no host.
        """
        from airflow_snowpack.spark import ConnectServer

        if self.connection is None or self.connection.conn_type != "spark_connect":
            return None
        catalogs = self.catalog.spark_conf() if self.connection.extra_dejson.get("send_catalog") else None
        return ConnectServer(self.connection.conn_id, connect_url(self.connection), catalogs)

    @property
    def sessions(self) -> Callable[[], SparkSession] | ConnectServer:
        """What a :class:`SparkEngine` needs: a session of this process, or the server for sessions of jobs."""
        return self.server or self.session

    def session(self) -> SparkSession:
        """Return the session, and start it if there is none. A process reuses its session.

        :raises SparkUnavailable: no Java, no jar, the wrong Spark version, or a server that does not answer.
        """
        from airflow_snowpack.spark import connect_session, local_session

        if self.server is None:
            return local_session(self.config)
        return connect_session(self.server.url, catalogs=self.server.catalogs)

    def check(self) -> None:
        """Check that a session can start in this process, without starting it. A Spark Connect server is not contacted.

        :raises SparkUnavailable: no Java, no jar, or the wrong Spark version.
        """
        from airflow_snowpack.spark import check_local

        if self.server is None:
            check_local(self.config)


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


def connect_url(connection: Connection) -> str:
    """Return the address of a Spark Connect server, as Airflow's Spark provider does. It may contain a token.

    :raises UnsuitableConnection, IncompleteConnection: the connection names none.
    """
    if connection.conn_type != "spark_connect":
        raise UnsuitableConnection(connection.conn_id, PURPOSE, connection.conn_type, ("spark_connect",))
    if not connection.host:
        raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of the Spark Connect server)")
    place = connection.host.partition("://")[2] or connection.host
    given = {"user_id": connection.login, "token": connection.password, "use_ssl": connection.extra_dejson.get("use_ssl")}
    parameters = ";".join(f"{name}={quote(str(value))}" for name, value in given.items() if value not in (None, ""))
    port = f":{connection.port}" if connection.port else ""
    return f"sc://{place}{port}/" + (f";{parameters}" if parameters else "")


@dataclass(frozen=True)
class ConnectOrphans:
    """Ends what killed workers left running on Spark Connect servers, which it finds through their Airflow connections."""

    read_connection: ReadConnection

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt the attempts' statements, wait for their end, and close the sessions.

        :param server: the id of an Airflow connection of the type ``spark_connect``.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        :raises SparkUnavailable: the server does not answer, or a statement is still running.
        """
        from airflow_snowpack.spark import end_session, session_id_of

        url = connect_url(self.read_connection(server, PURPOSE))
        for attempt in attempts:
            end_session(url, session_id_of(job_id, attempt), within=WAIT)
