"""A Hive Metastore that opens all files with its own properties, whose calls end, and that several threads may use at once.

PyIceberg's client is one connection, without a time limit, to the first of several addresses.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient  # noqa: TID253 - imported only by the function that connects
from pyiceberg.exceptions import NoSuchTableError  # noqa: TID253 - imported only by the function that connects
from thrift.transport.TTransport import TTransportException

from airflow_snowpack.iceberg.guarded_catalogs import OwnFileAccess
from airflow_snowpack.iceberg.listings import Listed, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from pyiceberg.typedef import Identifier

BATCH_SIZE = 500
"""How many tables are listed per request."""
UGI, KERBEROS, SERVICE = "ugi", "hive.kerberos-authentication", "hive.kerberos-service-name"
LIMIT = "snowpack.limit-seconds"


class Connections:
    """Opens a connection for each ``with`` block, to the first address that answers."""

    def __init__(self, properties: dict[str, str]) -> None:
        self._uris = properties["uri"].split(",")
        self._properties = properties
        self._open = threading.local()

    def __enter__(self) -> Any:
        problem: TTransportException | None = None
        for uri in self._uris:
            client = self._client_of(uri.strip())
            try:
                opened = client.__enter__()
            except TTransportException as error:
                problem = error
            else:
                self._open.clients = (*getattr(self._open, "clients", ()), client)
                return opened
        raise problem or TTransportException(message="the catalog has no address")

    def __exit__(self, *raised: Any) -> None:
        *others, client = self._open.clients
        self._open.clients = tuple(others)
        client.__exit__(*raised)

    def _client_of(self, uri: str) -> _HiveClient:
        given = self._properties
        client = _HiveClient(uri, given.get(UGI), given.get(KERBEROS, "").lower() == "true", given.get(SERVICE, "hive"))
        transport: Any = client._transport  # buffered without Kerberos
        socket = getattr(transport, "_TBufferedTransport__trans", None) or transport.transport
        socket.setTimeout(float(given[LIMIT]) * 1000)
        return client


class GuardedHiveCatalog(OwnFileAccess, HiveCatalog):
    """A Hive Metastore.

    :param limit: how long the connection and each answer may take.
    """

    def __init__(self, name: str, limit: timedelta, **properties: str) -> None:
        super().__init__(name, **properties, **{LIMIT: str(limit.total_seconds())})

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> Any:
        return Connections(properties)

    def entries(self) -> Iterator[tuple[Identifier, Listed]]:
        """Yield all tables with their locations, see :class:`.ListsEverything`."""
        with self._client as client:
            for database in client.get_all_databases():
                names = client.get_all_tables(database)
                for start in range(0, len(names), BATCH_SIZE):
                    batch = names[start : start + BATCH_SIZE]
                    tables = {table.tableName: table for table in client.get_table_objects_by_name(database, batch)}
                    for name in batch:  # of a table that was dropped since, or is withheld, nothing is known
                        found = _listed(tables[name]) if name in tables else Listed()
                        if found is not None:
                            yield (database, name), found

    def metadata_location_of(self, identifier: Identifier) -> str | None:
        """Return where the metadata of a table is, see :class:`.ListsEverything`."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        with self._client as client:
            found = self._get_hive_table(client, database_name=database, table_name=name)
        of = _listed(found)
        return None if of is None else of.metadata_location


def _listed(table: Any) -> Listed | None:
    stored = table.sd
    serde = stored.serdeInfo.parameters if stored and stored.serdeInfo else None
    return listed(table.parameters, stored.location if stored else None, serde)
