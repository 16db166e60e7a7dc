"""What a long-lived process notes of itself in the store, so that `airflow snowpack doctor` can compare processes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.redaction import public_address

if TYPE_CHECKING:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.store import Store


def note_presence(store: Store, role: str, catalog: IcebergCatalogHook) -> None:
    """Note which catalog and warehouse this process reaches; a catalog that cannot be described is noted as such."""
    from airflow_snowpack.store.sightings import note_process

    note_process(store, role, socket.gethostname(), catalog_facts(catalog))


def catalog_facts(catalog: IcebergCatalogHook) -> dict[str, str]:
    """Return the identity and the warehouse of the catalog, without secrets."""
    try:
        config = catalog.config
    except SnowpackError:
        return {"catalog_id": "", "warehouse": ""}
    return {"catalog_id": config.catalog_id, "warehouse": public_address(config.warehouse or "")}
