"""The hook of the Iceberg catalog: tables and their metadata, read with PyIceberg.

    hook = IcebergCatalogHook()
    table = hook.load_table(hook.table_name("demo.flights"))

Without a connection the catalog is embedded: a SQLite file and a warehouse folder under AIRFLOW_HOME, which Spark shares. The
connection type ``snowpack_catalog`` has the whole address in one field, whose scheme gives the kind of the catalog. Airflow's own
types keep their fields: ``iceberg`` and ``http`` are REST catalogs, ``postgres`` and ``sqlite`` SQL catalogs. The extras may have
``warehouse``, ``token``, ``properties`` (for both engines) and ``spark_properties``.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.connection_test import call_with_timeout, public_message
from airflow_snowpack.hooks.connections import read_connection, read_connection_in_trigger, refuse_on_remote_executor
from airflow_snowpack.hooks.errors import (
    ConnectionNotFound,
    EmbeddedNotShared,
    IncompleteConnection,
    UnsuitableConnection,
    UnusableAddress,
    UnusableExtra,
)
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Connection
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import CatalogConfig, TableName

UNUSABLE = (ConnectionNotFound, EmbeddedNotShared, UnsuitableConnection, IncompleteConnection, UnusableAddress, UnusableExtra)
SECRET_KEYS = ("credential", "key", "password", "secret", "token")
PURPOSE = "the Iceberg catalog"
CONNECTION_TYPES = ("snowpack_catalog", "iceberg", "http", "postgres", "sqlite")


class IcebergCatalogHook(BaseHook):
    """Connects to the catalog.

    :param catalog_conn_id: a connection of the type ``snowpack_catalog``, ``iceberg`` or ``http`` (REST), ``postgres`` or
        ``sqlite`` (SQL); ``None`` for ``[snowpack] catalog_conn_id``.
    """

    conn_name_attr = "catalog_conn_id"
    default_conn_name = "snowpack_catalog"
    conn_type = "snowpack_catalog"
    hook_name = "Iceberg catalog (Snowpack)"

    def __init__(self, catalog_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = catalog_conn_id

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    @cached_property
    def config(self) -> CatalogConfig:
        """The catalog's configuration, for PyIceberg and for Spark.

        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        :raises EmbeddedNotShared: there is no connection, and tasks may run on other hosts.
        """
        from airflow_snowpack.iceberg import CatalogConfig

        conn_id = self._given_conn_id or self.settings.catalog_conn_id
        name = self.settings.catalog_name
        if conn_id is None:
            refuse_on_remote_executor("catalog_conn_id", "a catalog", self.settings.home)
            return CatalogConfig.embedded(self.settings.home, name)
        return catalog_config(read_connection(conn_id, PURPOSE), name)

    async def config_in_trigger(self) -> CatalogConfig:
        """Return :attr:`config`, in a trigger's event loop."""
        conn_id = self._given_conn_id or self.settings.catalog_conn_id
        if conn_id is None:
            return self.config
        return catalog_config(await read_connection_in_trigger(conn_id, PURPOSE), self.settings.catalog_name)

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog.

        :raises CatalogUnreachable: it does not answer.
        """
        return self.config.load()

    def get_conn(self) -> Catalog:
        """Return :attr:`catalog`, under Airflow's usual name."""
        return self.catalog

    def table_name(self, text: str) -> TableName:
        """Parse ``database.table``.

        :raises InvalidTableName: it is not a valid name.
        """
        from airflow_snowpack.iceberg import TableName

        return TableName.parse(text, catalog=self.settings.catalog_name)

    def identified(self, text: str) -> TableName:
        """Parse ``database.table`` and add the catalog's identity, for jobs and locks. Reads the connection without connecting.

        :raises InvalidTableName: it is not a valid name.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        """
        from airflow_snowpack.iceberg import TableName

        return TableName.parse(text, catalog=self.settings.catalog_name, catalog_id=self.config.catalog_id)

    def load_table(self, name: TableName) -> Table:
        """Open a table.

        :raises TableNotFound, CatalogUnreachable: from the catalog.
        """
        from airflow_snowpack.iceberg import load_table

        return load_table(self.catalog, name)

    def test_connection(self) -> tuple[bool, str]:
        """Check that the catalog answers; return the result and a message without secrets."""
        try:
            config = self.config
        except SnowpackError as problem:
            return False, public_message(problem)
        try:
            databases = call_with_timeout(lambda: count_databases(config), f"The catalog at {config.where}")
        except Exception as problem:  # noqa: BLE001 - any problem is shown to the user
            return False, public_message(problem, _secrets(config))
        return True, f"The {config.kind} catalog at {config.where} answers; databases: {databases}."


def reach_catalog(catalog_conn_id: str | None = None) -> Catalog:
    """Read the connection and connect to the catalog: for a process that continues without a catalog and retries later.

    :raises CatalogUnreachable: it does not answer, or its connection is missing or invalid.
    """
    from airflow_snowpack.iceberg.errors import CatalogUnreachable
    from airflow_snowpack.inventory import ANSWER_WITHIN

    hook = IcebergCatalogHook(catalog_conn_id)
    try:
        return hook.config.load(limit=ANSWER_WITHIN)
    except UNUSABLE as problem:
        raise CatalogUnreachable(hook.settings.catalog_name, problem) from problem


def read_catalog_id(catalog_conn_id: str | None = None) -> str:
    """Read the catalog's identity from its connection; empty if that is missing or invalid."""
    try:
        return IcebergCatalogHook(catalog_conn_id).config.catalog_id
    except UNUSABLE:
        return ""


def _secrets(config: CatalogConfig) -> list[str | None]:
    """Return what a message must not contain; of a credential also its second half."""
    known = [value for key, value in config.properties.items() if any(word in key for word in SECRET_KEYS)]
    return [config.password, *known, *(value.partition(":")[2] for value in known)]


def count_databases(config: CatalogConfig) -> int:
    """Count the databases.

    :raises CatalogUnreachable: the catalog does not answer.
    """
    from airflow_snowpack.iceberg.catalog import connection_errors
    from airflow_snowpack.iceberg.errors import CatalogUnreachable

    try:
        return len(config.load().list_namespaces())
    except connection_errors() as error:
        raise CatalogUnreachable(config.name, error) from error


def catalog_config(connection: Connection, name: str) -> CatalogConfig:
    """Return the catalog that a connection describes.

    :param name: the catalog's name in this installation.
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
        properties=_map(connection, "properties"),
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
        properties=_map(connection, "properties"),
        spark_properties=_map(connection, "spark_properties"),
    )


def _sqlite(connection: Connection, name: str, path: str | None) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    return CatalogConfig.sqlite(
        name,
        Path(_needed(connection, path, "host (the path of the SQLite file)")),
        warehouse=_warehouse(connection),
        properties=_map(connection, "properties"),
    )


def _warehouse(connection: Connection) -> str:
    return _needed(connection, connection.extra_dejson.get("warehouse"), "extra 'warehouse' (where new tables go)")


def _map(connection: Connection, extra: str) -> Mapping[str, str]:
    """Return properties from an object or from its text, which forms and URIs give."""
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
