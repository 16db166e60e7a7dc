"""AWS Glue as a catalog that opens all files with its own properties, and whose requests end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from pyiceberg.catalog.glue import GlueCatalog  # noqa: TID253 - imported only by the function that connects
from pyiceberg.exceptions import NoSuchTableError  # noqa: TID253 - imported only by the function that connects

from airflow_snowpack.iceberg.guarded_catalogs import OwnFileAccess
from airflow_snowpack.iceberg.listings import Listed, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.typedef import Identifier

SESSION, TRIES, FEW_TRIES = "botocore_session", "glue.max-retries", 3
SHORT = timedelta(minutes=1)


class GuardedGlueCatalog(OwnFileAccess, GlueCatalog):
    """AWS Glue.

    :param limit: how long the connection and each answer may take; with a short one there are few tries.
    """

    def __init__(self, name: str, limit: timedelta, **properties: str) -> None:
        super().__init__(name, **{**_limited(limit), **properties})

    def entries(self) -> Iterator[tuple[Identifier, Listed]]:
        """Yield all tables with their locations, see :class:`.ListsEverything`."""
        glue: Any = self.glue
        for page in glue.get_paginator("get_databases").paginate():
            for database in page["DatabaseList"]:
                for tables in glue.get_paginator("get_tables").paginate(DatabaseName=database["Name"]):
                    for table in tables["TableList"]:
                        found = _listed(table)
                        if found is not None:
                            yield (database["Name"], table["Name"]), found

    def metadata_location_of(self, identifier: Identifier) -> str | None:
        """Return where the metadata of a table is, see :class:`.ListsEverything`."""
        database, name = self.identifier_to_database_and_table(identifier, NoSuchTableError)
        found = _listed(dict(self._get_glue_table(database, name)))
        return None if found is None else found.metadata_location


def _limited(limit: timedelta) -> dict[str, Any]:
    session = botocore.session.get_session()
    seconds = limit.total_seconds()
    session.set_default_client_config(Config(connect_timeout=seconds, read_timeout=seconds))
    return {SESSION: session} | ({TRIES: FEW_TRIES} if limit <= SHORT else {})


def _listed(table: Mapping[str, Any]) -> Listed | None:
    stored = table.get("StorageDescriptor") or {}
    return listed(table.get("Parameters"), stored.get("Location"), (stored.get("SerdeInfo") or {}).get("Parameters"))
