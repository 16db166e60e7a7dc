"""The engine of ``spark_connect`` connections: sessions on a Spark Connect server."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_snowpack.connections.errors import IncompleteConnection, UnusableExtra
from airflow_snowpack.connections.spark import PURPOSE, Spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from airflow_snowpack.connections.connection import Connection
    from airflow_snowpack.spark import ConnectServer

WAIT = timedelta(seconds=30)
"""How long a call waits for statements to end; callers repeat it."""


class SparkConnect(Spark):
    """Creates sessions on a Spark Connect server.

    The connection's extra ``send_catalog`` sends the catalog's configuration, with its secrets, to a server that lacks it.
    """

    conn_type = "spark_connect"

    @cached_property
    def sessions(self) -> ConnectServer:
        """The server, with a session per attempt at a job; raises :class:`IncompleteConnection` if the connection has no host."""
        from airflow_snowpack.spark import ConnectServer

        assert self.connection is not None, "its type names this class"
        catalogs = self.catalog.spark_conf() if self.connection.extra_dejson.get("send_catalog") else None
        return ConnectServer(self.connection.conn_id, self.url(self.connection), catalogs)

    def session(self) -> SparkSession:
        """Return a session on the server, or raise :class:`SparkUnavailable` if the server does not answer."""
        from airflow_snowpack.spark import connect_session

        return connect_session(self.sessions.url, catalogs=self.sessions.catalogs)

    def check(self) -> None:
        """Check that the server can have the catalogs of this process, without contacting it.

        :raises UnusableExtra: it would have to have several catalogs under one name.
        """
        assert self.connection is not None, "its type names this class"
        if len(self.process_catalogs) > 1 and not self.sessions.catalogs:
            raise UnusableExtra(self.connection.conn_id, "send_catalog", "true, because a worker of several catalogs sends each")

    @classmethod
    def end_sessions(cls, connection: Connection, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt the statements of attempts, wait for their end, and close the sessions.

        :raises IncompleteConnection: the connection has no host.
        :raises SparkUnavailable: the server does not answer, or a statement is still running.
        """
        from airflow_snowpack.spark import end_session, session_id_of

        url = cls.url(connection)
        for attempt in attempts:
            end_session(url, session_id_of(job_id, attempt), within=WAIT)

    @classmethod
    def url(cls, connection: Connection) -> str:
        """Return the server's address, built like in Airflow's Spark provider; it may contain a token.

        :raises IncompleteConnection: the connection has no host.
        """
        if not connection.host:
            raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of the Spark Connect server)")
        place = connection.host.partition("://")[2] or connection.host
        given = {"user_id": connection.login, "token": connection.password, "use_ssl": connection.extra_dejson.get("use_ssl")}
        parameters = ";".join(f"{name}={quote(str(value))}" for name, value in given.items() if value not in (None, ""))
        port = f":{connection.port}" if connection.port else ""
        return f"sc://{place}{port}/" + (f";{parameters}" if parameters else "")
