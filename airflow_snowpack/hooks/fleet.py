"""Opens the fleet of an installation: its catalog, its policies and its store.

with SnowpackHook() as hook, open_fleet(hook, IcebergCatalogHook()) as fleet:
    planned = fleet.start(owner, budget, workers=4, holder=worker)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg.broker import shared_broker
from airflow_snowpack.maintenance.fleet.fleet import Fleet
from airflow_snowpack.maintenance.fleet.listing import list_catalog, list_names
from airflow_snowpack.maintenance.fleet.planner import FleetPlanner
from airflow_snowpack.maintenance.fleet.progress import PassWork
from airflow_snowpack.maintenance.writers import DagsOfTables


@contextmanager
def open_fleet(
    hook: SnowpackHook,
    catalog_hook: IcebergCatalogHook,
    *,
    root: Path | None = None,
    dags_of_tables: Callable[[], DagsOfTables] | None = None,
) -> Iterator[Fleet]:
    """Open the fleet of the catalog. Nothing is connected before it is needed.

    :param root: the folder that a relative ``[snowpack] policies`` starts from; ``None`` for the DAGs folder.
    :param dags_of_tables: returns the DAGs that write to and read tables; ``None`` ignores them.
    :raises PoliciesNotFound, InvalidPolicies: the policies cannot be used.
    """
    config, installation = catalog_hook.config, hook.installation
    catalog, catalog_id = hook.settings.catalog_name, config.catalog_id
    passes = installation.fleet_passes
    with shared_broker(config) as broker:
        planner = FleetPlanner(
            passes,
            broker,
            installation.health_records,
            hook.policies(root),
            list_tables=partial(list_catalog, broker, catalog, catalog_id, partial(list_names, config, catalog, catalog_id)),
            histories=installation.jobs.action_histories,
            dags_of_tables=dags_of_tables,
            order=hook.settings.action_order,
        )
        work = PassWork(passes, installation.jobs)
        yield Fleet(catalog, catalog_id, passes, installation.jobs, work, planner, config.load, dags_of_tables)
