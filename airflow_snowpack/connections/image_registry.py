"""The container image registry that an Airflow connection of the Docker provider's type ``docker`` describes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection

if TYPE_CHECKING:
    from airflow_snowpack.connections.connection import Connection
    from airflow_snowpack.runners.images.target import Registry

PURPOSE = "the registry of images"
CONNECTION_TYPES = ("docker",)


def image_registry(connection: Connection) -> Registry:
    """Return the registry of a connection: host (``http://…`` for no TLS), port, login, password, and the extra ``repository``.

    :raises UnsuitableConnection, IncompleteConnection: the connection is not valid.
    :raises InvalidImageTarget: the host or the repository is not valid.
    """
    from airflow_snowpack.runners.images.target import REPOSITORY, Registry

    if connection.conn_type not in CONNECTION_TYPES:
        raise UnsuitableConnection(connection.conn_id, PURPOSE, connection.conn_type, CONNECTION_TYPES)
    if not connection.host:
        raise IncompleteConnection(connection.conn_id, PURPOSE, "host (the registry's host name)")
    scheme, separator, rest = connection.host.partition("://")
    host = (rest if separator else connection.host).rstrip("/")
    return Registry(
        f"{host}:{connection.port}" if connection.port else host,
        str(connection.extra_dejson.get("repository") or REPOSITORY),
        connection.login or None,
        connection.password or None,
        is_plain_http=bool(separator) and scheme == "http",
    )
