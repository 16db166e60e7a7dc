"""Opens what the mounted app works with, from Airflow's connections and settings.

It runs when the first request needs it, and again for the next request when it failed: an API server that starts while the store
is down serves Airflow as ever, and our routes as soon as the store is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.services import Services
from airflow_snowpack.hooks.errors import ConnectionNotFound, IncompleteConnection, UnsuitableConnection
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.store import Patience

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def open_services() -> Services:
    """The store and the catalog that ``[snowpack]`` names.

    :raises SnowpackError: a setting or the store's connection cannot be used, or the store does not answer.
    """
    hook = SnowpackHook(patience=Patience())
    settings = hook.settings
    return Services(hook.jobs(), Inventory(hook.store(), settings.catalog_name, load_catalog), settings.action_order)


def load_catalog() -> Catalog:
    """The catalog, from its connection as it is now.

    :raises CatalogUnreachable: it does not answer, or its connection cannot be used: the tables that are known already remain
        known in both cases.
    """
    hook = IcebergCatalogHook()
    try:
        return hook.catalog
    except (ConnectionNotFound, UnsuitableConnection, IncompleteConnection) as problem:
        raise CatalogUnreachable(hook.settings.catalog_name, problem) from problem
