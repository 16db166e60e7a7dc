"""The Iceberg catalog that an Airflow connection describes.

The connection type ``snowpack_catalog`` has the whole address in one field, whose scheme selects the kind of catalog. Airflow's
own types keep their fields: ``iceberg`` and ``http`` are REST catalogs, ``postgres`` and ``sqlite`` SQL catalogs, and
``hive_metastore`` is the Hive Metastore. The extras may contain ``warehouse``, ``token``, the storage's fields of the form,
``properties`` (for PyIceberg and Spark) and ``spark_properties``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection, UnusableAddress, UnusableExtra

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.connections.connection import Connection
    from airflow_snowpack.iceberg import CatalogConfig

PURPOSE = "the Iceberg catalog"
STORAGE_FIELDS = {
    "s3_region": "s3.region",
    "s3_endpoint": "s3.endpoint",
    "s3_access_key_id": "s3.access-key-id",
    "s3_secret_access_key": "s3.secret-access-key",
    "s3_role_arn": "s3.role-arn",
    "gcs_project_id": "gcs.project-id",
    "adls_account_name": "adls.account-name",
    "adls_account_key": "adls.account-key",
}
"""The properties that have a field of their own in the form, by its name."""
CONNECTION_TYPES = ("snowpack_catalog", "iceberg", "http", "postgres", "sqlite", "hive_metastore")
HIVE_PORT = 9083


def catalog_config(connection: Connection, name: str) -> CatalogConfig:
    """Return the catalog that a connection describes, under this installation's ``name`` for it.

    :raises UnsuitableConnection, IncompleteConnection, UnusableAddress, UnusableExtra: the connection is not valid.
    """
    match connection.conn_type:
        case "snowpack_catalog":
            return _by_address(connection, name)
        case "iceberg" | "http":
            return _rest(connection, name, _web_address(connection))
        case "postgres":
            return _postgres(connection, name, connection.host, connection.port, connection.schema)
        case "sqlite":
            return _sqlite(connection, name, connection.host)
        case "hive_metastore":
            hosts = _needed(connection, connection.host, "host").split(",")
            port = connection.port or HIVE_PORT
            return _hive(connection, name, ",".join(f"thrift://{host.strip()}:{port}" for host in hosts))
        case other:
            raise UnsuitableConnection(connection.conn_id, PURPOSE, other, CONNECTION_TYPES)


def _by_address(connection: Connection, name: str) -> CatalogConfig:
    address = _needed(connection, connection.host, "address")
    parts = urlsplit(address)
    if parts.username or parts.password:
        raise UnusableAddress(connection.conn_id, "it contains a user or a password, which have their own fields")
    match parts.scheme:
        case "http" | "https":
            return _rest(connection, name, address)
        case "postgresql" | "postgres":
            return _postgres(connection, name, parts.hostname, _port(connection, parts), parts.path.strip("/"))
        case "sqlite":
            return _sqlite(connection, name, "/" + parts.path.lstrip("/"))
        case "thrift":
            return _hive(connection, name, address)
        case "glue":
            return _glue(connection, name, parts.hostname)
        case _:
            raise UnusableAddress(connection.conn_id, "its scheme is not one of those of a catalog")


def _port(connection: Connection, parts: Any) -> int | None:
    try:
        port: int | None = parts.port
    except ValueError:
        raise UnusableAddress(connection.conn_id, "its port is not a number from 0 to 65535") from None
    return port


def _web_address(connection: Connection) -> str:
    host = _needed(connection, connection.host, "host (the catalog's address)")
    if "://" in host:
        return host
    return f"{connection.schema or 'http'}://{host}" + (f":{connection.port}" if connection.port else "")


def _rest(connection: Connection, name: str, address: str) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    extra = connection.extra_dejson
    credential = f"{connection.login}:{connection.password}" if connection.login and connection.password else None
    return CatalogConfig.rest(
        name,
        address,
        warehouse=extra.get("warehouse") or None,
        token=extra.get("token"),
        credential=credential,
        properties=_properties(connection),
        spark_properties=_map(connection, "spark_properties"),
    )


def _postgres(connection: Connection, name: str, host: str | None, port: int | None, database: str | None) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    return CatalogConfig.postgres(
        name,
        host=_needed(connection, host, "host"),
        database=_needed(connection, database, "schema (the name of the database)"),
        warehouse=_warehouse(connection),
        port=port or 5432,
        user=connection.login,
        password=connection.password,
        properties=_properties(connection),
        spark_properties=_map(connection, "spark_properties"),
    )


def _sqlite(connection: Connection, name: str, path: str | None) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    return CatalogConfig.sqlite(
        name,
        Path(_needed(connection, path, "host (the path of the SQLite file)")),
        warehouse=_warehouse(connection),
        properties=_properties(connection),
    )


def _hive(connection: Connection, name: str, address: str) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    return CatalogConfig.hive(name, address, **_options(connection))


def _glue(connection: Connection, name: str, region: str | None) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    options, pair = _options(connection), {"access-key-id": connection.login, "secret-access-key": connection.password}
    keys = {f"{client}.{name}": value for client in ("glue", "s3") for name, value in pair.items() if value}
    options["properties"] = {**keys, **options["properties"]}
    return CatalogConfig.glue(name, _needed(connection, region, "region, as in glue://eu-central-1"), **options)


def _options(connection: Connection) -> dict[str, Any]:
    return {
        "warehouse": connection.extra_dejson.get("warehouse") or None,
        "properties": _properties(connection),
        "spark_properties": _map(connection, "spark_properties"),
    }


def _properties(connection: Connection) -> dict[str, str]:
    """Return the properties of the form's fields for the storage, and of the extra ``properties``, which override them."""
    extra = connection.extra_dejson
    fields = {name: str(extra[field]) for field, name in STORAGE_FIELDS.items() if extra.get(field)}
    return {**fields, **_map(connection, "properties")}


def _warehouse(connection: Connection) -> str:
    return _needed(connection, connection.extra_dejson.get("warehouse"), "extra 'warehouse' (where new tables go)")


def _map(connection: Connection, extra: str) -> Mapping[str, str]:
    """Return properties from an object, or from its JSON text as forms and URIs contain it."""
    value = connection.extra_dejson.get(extra) or {}
    try:
        given = json.loads(value) if isinstance(value, str) else value
        return {str(key): str(item) for key, item in given.items()}
    except (ValueError, AttributeError):
        raise UnusableExtra(
            connection.conn_id, extra, 'a JSON object such as {"s3.endpoint": "https://s3.example.com"}'
        ) from None


def _needed(connection: Connection, value: str | None, what: str) -> str:
    if not value:
        raise IncompleteConnection(connection.conn_id, PURPOSE, what)
    return value
