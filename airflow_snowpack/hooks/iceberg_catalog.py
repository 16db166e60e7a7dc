"""The hook of the Iceberg catalog: tables and their metadata, read with PyIceberg.

    hook = IcebergCatalogHook()
    table = hook.load_table(hook.table_name("demo.flights"))

Without a connection the catalog is embedded: a SQLite file and a warehouse folder under AIRFLOW_HOME, which Spark shares. A
connection gives the address; its extras may have ``warehouse``, ``properties`` (for both engines) and ``spark_properties``.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_snowpack.hooks.connections import read_connection
from airflow_snowpack.hooks.errors import IncompleteConnection, UnsuitableConnection
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import CatalogConfig, TableName

PURPOSE = "the Iceberg catalog"
CONNECTION_TYPES = ("iceberg", "http", "postgres", "sqlite")


class IcebergCatalogHook(BaseHook):
    """Reaches the catalog.

    :param catalog_conn_id: a connection of the type ``iceberg`` or ``http`` (REST), ``postgres`` or ``sqlite`` (SQL); ``None``
        for what ``[snowpack] catalog_conn_id`` says.
    """

    conn_name_attr = "catalog_conn_id"
    hook_name = "Iceberg catalog"

    def __init__(self, catalog_conn_id: str | None = None) -> None:
        super().__init__()
        self._given_conn_id = catalog_conn_id

    @cached_property
    def settings(self) -> Settings:
        """:raises InvalidSetting: as :meth:`Settings.load`."""
        return Settings.load()

    @cached_property
    def config(self) -> CatalogConfig:
        """The catalog's description, for PyIceberg and for Spark.

        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        """
        from airflow_snowpack.iceberg import CatalogConfig

        conn_id = self._given_conn_id or self.settings.catalog_conn_id
        name = self.settings.catalog_name
        if conn_id is None:
            return CatalogConfig.embedded(self.settings.home, name)
        return catalog_config(read_connection(conn_id, PURPOSE), name)

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog.

        :raises CatalogUnreachable: it does not answer.
        """
        return self.config.load()

    def get_conn(self) -> Catalog:
        """As :attr:`catalog`: the name that Airflow's tools look for."""
        return self.catalog

    def table_name(self, text: str) -> TableName:
        """``database.table`` of this catalog.

        :raises InvalidTableName: it is not a name.
        """
        from airflow_snowpack.iceberg import TableName

        return TableName.parse(text, catalog=self.settings.catalog_name)

    def load_table(self, name: TableName) -> Table:
        """Open a table.

        :raises TableNotFound, CatalogUnreachable: from the catalog.
        """
        from airflow_snowpack.iceberg import load_table

        return load_table(self.catalog, name)


def catalog_config(connection: Connection, name: str) -> CatalogConfig:
    """The catalog that a connection describes.

    :raises UnsuitableConnection, IncompleteConnection: it cannot be one.
    """
    match connection.conn_type:
        case "iceberg" | "http":
            return _rest(connection, name)
        case "postgres":
            return _postgres(connection, name)
        case "sqlite":
            return _sqlite(connection, name)
        case other:
            raise UnsuitableConnection(connection.conn_id, PURPOSE, other, CONNECTION_TYPES)


def _rest(connection: Connection, name: str) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    extra = connection.extra_dejson
    host = _needed(connection, connection.host, "host (the catalog's address)")
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}" + (f":{connection.port}" if connection.port else "")
    credential = f"{connection.login}:{connection.password}" if connection.login and connection.password else None
    return CatalogConfig.rest(
        name,
        host,
        warehouse=extra.get("warehouse"),
        token=extra.get("token"),
        credential=credential,
        properties=extra.get("properties"),
        spark_properties=extra.get("spark_properties"),
    )


def _postgres(connection: Connection, name: str) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    extra = connection.extra_dejson
    return CatalogConfig.postgres(
        name,
        host=_needed(connection, connection.host, "host"),
        database=_needed(connection, connection.schema, "schema (the name of the database)"),
        warehouse=_needed(connection, extra.get("warehouse"), "extra 'warehouse' (where new tables go)"),
        port=connection.port or 5432,
        user=connection.login,
        password=connection.password,
        properties=extra.get("properties"),
        spark_properties=extra.get("spark_properties"),
    )


def _sqlite(connection: Connection, name: str) -> CatalogConfig:
    from airflow_snowpack.iceberg import CatalogConfig

    extra = connection.extra_dejson
    return CatalogConfig.sqlite(
        name,
        Path(_needed(connection, connection.host, "host (the path of the SQLite file)")),
        warehouse=_needed(connection, extra.get("warehouse"), "extra 'warehouse' (where new tables go)"),
        properties=extra.get("properties"),
    )


def _needed(connection: Connection, value: str | None, what: str) -> str:
    if not value:
        raise IncompleteConnection(connection.conn_id, PURPOSE, what)
    return value
