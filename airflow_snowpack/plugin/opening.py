"""Opens what the mounted app works with, from Airflow's connections and settings.

It runs when the first request needs it, and again for the next request when it failed: an API server that starts while the store
is down serves Airflow as ever, and our routes as soon as the store is back.
"""

from __future__ import annotations

from airflow_snowpack.api.services import Services
from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.dag_states import dag_states
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog, read_catalog_id
from airflow_snowpack.hooks.presence import sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.store import Patience
from airflow_snowpack.store.signs_of_life import Role


def open_services() -> Services:
    """The store and the catalog that ``[snowpack]`` names.

    :raises SnowpackError: a setting or the store's connection cannot be used, or the store does not answer.
    """
    hook = SnowpackHook(patience=Patience(), ends_orphans=False)
    settings = hook.settings
    sign = sign_of_process(hook.store(), Role.API, IcebergCatalogHook(), period=settings.table_cache_refresh)
    inventory = Inventory(hook.store(), settings.catalog_name, reach_catalog, read_catalog_id)
    return Services(
        hook.jobs(),
        inventory,
        settings.action_order,
        settings.table_cache_refresh,
        BuildStorageHook().storage,
        sign=sign,
        dag_states=dag_states,
    )
