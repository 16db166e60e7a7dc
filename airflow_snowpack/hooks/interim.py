"""The collector and the sweeper of interim tables, as this installation wants them.

collector = open_collector(hook, TaskRunStates(), IcebergCatalogHook(), holder="collect")
collector.run(dry_run=True)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.hooks.errors import OtherCatalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.interim.collection.collector import Collector
    from airflow_snowpack.interim.collection.model import RunStates
    from airflow_snowpack.store.signs_of_life import SignOfLife


def open_collector(
    hook: SnowpackHook,
    run_states: RunStates,
    catalog_hook: IcebergCatalogHook,
    *,
    holder: str | None = None,
    sign: SignOfLife | None = None,
) -> Collector:
    """The collector, on the hook's store.

    :param holder: who collects, for people who look; ``None`` for this process.
    :param sign: its sign of life.
    """
    from airflow_snowpack.interim.collection.collector import Collector

    return Collector(hook.interim(), run_states, catalog_opener(catalog_hook), holder=holder, sign=sign)


def catalog_opener(catalog_hook: IcebergCatalogHook) -> Callable[[str], Catalog]:
    """Opens the installation's catalog, when it is asked for by its name."""

    def open_catalog(name: str) -> Catalog:
        known = catalog_hook.settings.catalog_name
        if name != known:
            raise OtherCatalog(name, known)
        return catalog_hook.config.load()

    return open_catalog
