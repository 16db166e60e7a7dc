"""The hook of the Iceberg catalog: tables and their metadata, read with PyIceberg.

    hook = IcebergCatalogHook()
    table = hook.load_table(hook.table_name("demo.flights"))

Without a connection the catalog is embedded: a SQLite file and a warehouse folder under AIRFLOW_HOME, which Spark shares.
:mod:`airflow_snowpack.connections.catalog` has the connection types.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_snowpack.connections.catalog import PURPOSE, catalog_config
from airflow_snowpack.connections.errors import (
    ConnectionNotFound,
    ConnectionUnreadable,
    EmbeddedNotShared,
    IncompleteConnection,
    UnsuitableConnection,
    UnusableAddress,
    UnusableExtra,
)
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.connections import (
    TEST_TIMEOUT,
    public_message,
    read_connection,
    refuse_on_remote_executor,
)
from airflow_snowpack.iceberg import CatalogConfig, TableName, load_table
from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, WarehouseUnusable
from airflow_snowpack.iceberg.trial_file import trial_file, warehouse_of
from airflow_snowpack.inventory import ANSWER_WITHIN
from airflow_snowpack.redaction import public_address
from airflow_snowpack.settings import Settings
from airflow_snowpack.timed_calls import call_with_timeout

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

UNUSABLE = (
    *(ConnectionNotFound, ConnectionUnreadable, EmbeddedNotShared, UnsuitableConnection, IncompleteConnection),
    *(UnusableAddress, UnusableExtra),
)


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
        :raises ConnectionUnreadable: Airflow does not answer.
        :raises EmbeddedNotShared: there is no connection, and tasks may run on other hosts.
        """
        conn_id = self._given_conn_id or self.settings.catalog_conn_id
        name = self.settings.catalog_name
        if conn_id is None:
            refuse_on_remote_executor("catalog_conn_id", "a catalog", self.settings.home)
            return CatalogConfig.embedded(self.settings.home, name)
        return catalog_config(read_connection(conn_id, PURPOSE), name)

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog; raises :class:`CatalogUnreachable` if it does not answer."""
        return self.config.load()

    def get_conn(self) -> Catalog:
        """Return :attr:`catalog`; Airflow's name for it."""
        return self.catalog

    def table_name(self, text: str) -> TableName:
        """Parse ``database.table``; raise :class:`InvalidTableName` if the name is not valid."""
        return TableName.parse(text, catalog=self.settings.catalog_name)

    def identified(self, text: str) -> TableName:
        """Parse ``database.table`` and add the catalog's identity, for jobs and locks. Reads the connection without connecting.

        :raises InvalidTableName: the name is not valid.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
        """
        return TableName.parse(text, catalog=self.settings.catalog_name, catalog_id=self.config.catalog_id)

    def load_table(self, name: TableName) -> Table:
        """Open a table; raise :class:`TableNotFound` or :class:`CatalogUnreachable`."""
        return load_table(self.catalog, name)

    def test_connection(self) -> tuple[bool, str]:
        """Check that the catalog answers, and that its warehouse can be written and read, if the connection names it.

        :returns: the result, and a message without secrets.
        """
        try:
            config = self.config
        except SnowpackError as problem:
            return False, public_message(problem)
        try:
            found = call_with_timeout(lambda: try_catalog(config), f"The catalog at {config.where}", TEST_TIMEOUT)
        except Exception as problem:  # noqa: BLE001 - any problem is shown to the user
            return False, public_message(problem)
        return True, f"The {config.kind} catalog at {config.where} answers; {found}."


def reach_catalog(catalog_conn_id: str | None = None) -> Catalog:
    """Connect to the catalog, for a process that continues without a catalog and retries later.

    :raises CatalogUnreachable: it does not answer, or its connection is missing or invalid.
    """
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


def try_catalog(config: CatalogConfig) -> str:
    """List the databases, and write, read and delete a file in the warehouse; return what was found.

    :raises CatalogUnreachable, CatalogLibraryMissing: from the catalog.
    :raises WarehouseUnusable: the storage refuses the file.
    """
    databases, catalog = count_databases(config), config.load()
    warehouse = warehouse_of(config, catalog)
    if warehouse is None:
        return f"databases: {databases}"
    try:
        with trial_file(catalog, warehouse):
            return f"databases: {databases}; its warehouse can be written and read"
    except Exception as error:  # PyIceberg's libraries for storages have errors of their own
        raise WarehouseUnusable(public_address(warehouse), error) from error


def count_databases(config: CatalogConfig) -> int:
    """Count the databases; raise :class:`CatalogUnreachable` if the catalog does not answer."""
    try:
        return len(config.load().list_namespaces())
    except connection_errors() as error:
        raise CatalogUnreachable(config.name, error) from error
