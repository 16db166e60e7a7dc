"""Opens what the mounted app works with, from Airflow's connections and settings.

It runs when the API server starts, and again for the next request when it failed: an API server that starts while the store
is down serves Airflow as ever, and our routes as soon as the store is back.
"""

from __future__ import annotations

from datetime import timedelta

from airflow_snowpack.api.services import Services
from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.dag_states import DagStatesInTime
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog, read_catalog_id
from airflow_snowpack.hooks.presence import sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.settings import InvalidSetting, Settings
from airflow_snowpack.store import Patience
from airflow_snowpack.store.patience import REQUEST_TIMEOUT
from airflow_snowpack.store.signs_of_life import Role


def request_timeout() -> timedelta:
    """Return how long a request may take; the default where the setting cannot be used, which :func:`open_services` reports."""
    try:
        return Settings.load().request_timeout
    except InvalidSetting:
        return REQUEST_TIMEOUT


def open_services() -> Services:
    """The store and the catalog that ``[snowpack]`` names.

    :raises SnowpackError: a setting or the store's connection cannot be used, or the store does not answer.
    """
    settings = Settings.load()
    hook = SnowpackHook(patience=Patience.within(settings.request_timeout), ends_orphans=False)
    sign = sign_of_process(hook.store(), Role.API, IcebergCatalogHook(), period=settings.table_cache_refresh)
    inventory = Inventory(hook.store(), settings.catalog_name, reach_catalog, read_catalog_id)
    return Services(
        hook.jobs(),
        inventory,
        settings.action_order,
        settings.table_cache_refresh,
        BuildStorageHook().storage,
        sign=sign,
        dag_states=DagStatesInTime(),
        timeout=settings.request_timeout,
    )
