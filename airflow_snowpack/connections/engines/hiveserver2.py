"""The engine of ``hiveserver2`` connections: SQL statements on a Spark Thrift Server or Kyuubi."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_snowpack.connections.errors import IncompleteConnection, OneCatalogOnly, StatementsOnly, UnusableExtra
from airflow_snowpack.connections.spark import PURPOSE, Spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from airflow_snowpack.connections.connection import Connection
    from airflow_snowpack.spark import Statements, ThriftServer

WAIT = timedelta(seconds=30)
"""How long a call waits for statements to end; callers repeat it."""
PORT = 10000
# As Airflow's provider for Hive names them, and as the client does.
MECHANISMS = {"NONE": "PLAIN", "CUSTOM": "PLAIN", "KERBEROS": "GSSAPI"} | {
    name: name for name in ("PLAIN", "LDAP", "GSSAPI", "NOSASL")
}


class Hiveserver2(Spark):
    """Runs maintenance on a HiveServer2 endpoint that has the catalog; it has no data frames."""

    conn_type = "hiveserver2"

    @cached_property
    def sessions(self) -> ThriftServer:
        """The server, with sessions for each attempt at a job; raises like :meth:`server_of`."""
        assert self.connection is not None, "its type names this class"
        return self.server_of(self.connection)

    def session(self) -> NoReturn:
        """:raises StatementsOnly: always."""
        assert self.connection is not None, "its type names this class"
        raise StatementsOnly(self.connection.conn_id, self.conn_type)

    @contextmanager
    def statements(self) -> Iterator[Statements]:
        with self.sessions.opened("none", 0) as statements:
            yield statements

    def check(self) -> None:
        """Check that the client is installed, and that the process has one catalog; the server is not contacted.

        :raises SparkUnavailable: the client is not installed.
        :raises OneCatalogOnly: the server has one catalog under this name, and a job of another would run on its tables.
        """
        assert self.connection is not None, "its type names this class"
        if len(self.process_catalogs) > 1:
            raise OneCatalogOnly(self.connection.conn_id, self.conn_type)
        self.sessions.check_client()

    @classmethod
    def end_sessions(cls, connection: Connection, job_id: str, attempts: Sequence[int]) -> None:
        """Return when the statements of attempts have ended.

        :raises IncompleteConnection, UnusableExtra: from the connection.
        :raises SparkUnavailable: the server does not answer, or a statement may still be running.
        """
        from airflow_snowpack.spark import end_attempts

        end_attempts(cls.server_of(connection), job_id, attempts, within=WAIT)

    @classmethod
    def server_of(cls, connection: Connection) -> ThriftServer:
        """Return the server of a connection.

        :raises IncompleteConnection: it has no host.
        :raises UnusableExtra: its extra ``auth_mechanism`` is none of :data:`MECHANISMS`.
        """
        from airflow_snowpack.spark import ThriftServer

        if not connection.host:
            raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the address of the HiveServer2 endpoint)")
        extra = connection.extra_dejson
        mechanism = MECHANISMS.get(str(extra.get("auth_mechanism") or "PLAIN").upper())
        if mechanism is None:
            raise UnusableExtra(connection.conn_id, "auth_mechanism", f"one of {', '.join(sorted(MECHANISMS))}")
        return ThriftServer(
            connection.conn_id,
            connection.host,
            connection.port or PORT,
            connection.login,
            connection.password,
            mechanism,
            str(extra.get("kerberos_service_name") or "hive"),
            bool(extra.get("use_ssl")),
        )
