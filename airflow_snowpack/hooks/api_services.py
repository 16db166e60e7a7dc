"""Opens what the API works with, from Airflow's connections and settings.

It runs when the server starts, and again for the next request when it failed: a server that starts while the store is down
recovers without a restart.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog, read_catalog_id
from airflow_snowpack.hooks.presence import sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.settings import InvalidSetting, Settings

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_snowpack.api.roles import DagStates
    from airflow_snowpack.api.services import Services


def request_timeout() -> timedelta:
    """Return how long a request may take; the default if the setting is invalid, which :func:`open_services` reports."""
    from airflow_snowpack.store.patience import REQUEST_TIMEOUT

    try:
        return Settings.load().request_timeout
    except InvalidSetting:
        return REQUEST_TIMEOUT


def open_services(
    store_conn_id: str | None = None, catalog_conn_id: str | None = None, *, dag_states: DagStates | None = None
) -> Services:
    """Open the store, and describe the catalog, whose connection is read again each time that it is reached.

    :param store_conn_id: ``None`` for the installation's, and likewise ``catalog_conn_id``.
    :param dag_states: returns the states of Airflow's DAGs; ``None`` where they are unknown.
    :raises SnowpackError: a setting or the store's connection cannot be used, or the store does not answer.
    """
    from airflow_snowpack.api.roles import no_dag_states
    from airflow_snowpack.api.services import LOCK_WAIT, Services
    from airflow_snowpack.inventory import Inventory
    from airflow_snowpack.store import Patience
    from airflow_snowpack.store.signs_of_life import Role

    settings = Settings.load()
    patience = Patience.within(settings.request_timeout)
    installation = SnowpackHook(store_conn_id, patience=patience, lock_wait=LOCK_WAIT, ends_orphans=False).installation
    sign = sign_of_process(installation.store, Role.API, IcebergCatalogHook(catalog_conn_id), period=settings.table_cache_refresh)
    return Services(
        installation,
        Inventory(
            installation.store,
            settings.catalog_name,
            partial(reach_catalog, catalog_conn_id),
            partial(read_catalog_id, catalog_conn_id),
        ),
        settings.action_order,
        settings.table_cache_refresh,
        BuildStorageHook().storage,
        sign=sign,
        dag_states=dag_states or no_dag_states,
        timeout=settings.request_timeout,
    )
