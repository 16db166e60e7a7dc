"""The store that an Airflow connection describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableExtra

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from airflow_snowpack.connections.connection import Connection

PURPOSE = "the Snowpack store"
NOT_FOR_THE_DRIVER = frozenset(
    {"aws_conn_id", "azure_conn_id", "cluster-identifier", "cursor", "iam", "redshift", "redshift-serverless", "sqlalchemy_query",
     "sqlalchemy_scheme", "workgroup-name"}
)  # fmt: skip
"""Extras for Airflow's Postgres provider; all others (sslmode, application_name, …) are arguments of the driver."""


def store_url(connection: Connection) -> URL:
    """Return the SQLAlchemy URL of a connection.

    :raises UnsuitableConnection, IncompleteConnection, UnusableExtra: it cannot be the store.
    """
    from sqlalchemy.engine import URL

    match connection.conn_type:
        case "postgres" | "snowpack_store":
            return _postgres_url(connection)
        case "sqlite":
            if not connection.host:
                raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the path of the SQLite file)")
            return URL.create("sqlite", database=connection.host)
        case other:
            raise UnsuitableConnection(connection.conn_id, PURPOSE, other, ("snowpack_store", "postgres", "sqlite"))


def _postgres_url(connection: Connection) -> URL:
    from sqlalchemy.engine import URL

    extra = connection.extra_dejson
    options = {name: str(value) for name, value in extra.items() if name not in NOT_FOR_THE_DRIVER}
    return URL.create(
        "postgresql+psycopg",
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema,
        query={**_query(connection), **options},
    )


def _query(connection: Connection) -> dict[str, str | tuple[str, ...]]:
    """Return the query of the URL, whose values are strings, or lists of strings: several hosts, for example."""
    given = connection.extra_dejson.get("sqlalchemy_query") or {}
    if not isinstance(given, dict) or any(value is None or isinstance(value, dict) for value in given.values()):
        expected = 'a JSON object of texts, such as {"application_name": "snowpack"}'
        raise UnusableExtra(connection.conn_id, "sqlalchemy_query", expected)
    return {name: tuple(map(str, value)) if isinstance(value, list) else str(value) for name, value in given.items()}
