"""The tables of the stored inventory for DAG files, which Airflow parses every half minute.

A file in ``[snowpack] home`` caches the names for ``[snowpack] table_cache_refresh``, so a parse usually reads no database. The
invariant: if the store does not answer, the last names remain: an outage must not remove the DAGs of all tables.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.setting import AirflowOptions, catalog_name, home_folder, read_setting

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

STORE_TIMEOUT = timedelta(seconds=5)
"""Well below Airflow's time-out for parsing a DAG file."""
ALL = 1_000_000


def stored_table_names(
    store_conn_id: str | None = None, catalog_conn_id: str | None = None, *, clock: Callable[[], float] = time.time
) -> list[str]:
    """Return ``database.table`` of each table as the catalog was last listed; this does not connect to the catalog.

    :param clock: returns seconds, as the times of files.
    :raises SnowpackError: the store cannot be read, and the names were never read before.
    """
    key = [store_conn_id or read_setting("store_conn_id", str), catalog_conn_id or read_setting("catalog_conn_id", str)]
    digest = hashlib.sha256(json.dumps([*key, catalog_name()]).encode()).hexdigest()[:12]
    file = home_folder(AirflowOptions()) / "table_names" / f"{digest}.json"
    kept = _kept(file)
    if kept is not None and clock() - kept[0] < read_setting("table_cache_refresh", _seconds):
        return kept[1]
    try:
        names = _read(store_conn_id, catalog_conn_id)
    except SnowpackError as problem:
        if kept is None:
            raise
        log.warning("table_names_not_read: the names of %s are used, because %s", time.ctime(kept[0]), problem)
        return kept[1]
    _keep(file, names)
    return names


def _kept(file: Path) -> tuple[float, list[str]] | None:
    try:
        names: list[str] = json.loads(file.read_bytes())
        return file.stat().st_mtime, names
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        log.warning("table_names_unreadable: %s: %s", file, problem)
        return None


def _keep(file: Path, names: list[str]) -> None:
    written = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps(names))
        written.replace(file)
    except OSError as problem:  # the next parse reads the store again
        log.warning("table_names_not_kept: %s: %s", file, problem)


def _read(store_conn_id: str | None, catalog_conn_id: str | None) -> list[str]:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.inventory import Inventory
    from airflow_snowpack.store import Deadlines

    catalog = IcebergCatalogHook(catalog_conn_id)
    with SnowpackHook(store_conn_id, deadlines=Deadlines.within(STORE_TIMEOUT)) as hook:
        inventory = Inventory(hook.store(), catalog_name(), lambda: catalog.catalog, lambda: catalog.config.catalog_id)
        if inventory.state().refreshed_at is None:
            log.warning("table_names_missing: run `airflow snowpack tables refresh` to list the catalog")
        return [table.dotted for table in inventory.tables(limit=ALL)]


def _seconds(text: str) -> float:
    from airflow_snowpack.durations import parse_duration

    return parse_duration(text).total_seconds()
