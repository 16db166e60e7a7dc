"""``airflow snowpack api``: the REST API and its pages alone, for whoever has the token.

The token never stands on the command line, which every user of the machine can see. Without one nothing is served.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.cli.errors import NoToken, WeakToken
from airflow_snowpack.cli.outcome import ends_cleanly
from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog, read_catalog_id
from airflow_snowpack.hooks.presence import sign_of_process
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow_snowpack.api import Services
    from airflow_snowpack.cli.exit_code import ExitCode

TOKEN_VARIABLE = "SNOWPACK_API_TOKEN"
LEAST_LENGTH = 16


@ends_cleanly
def serve(args: Namespace) -> ExitCode | None:
    """``api``"""
    token = read_token(args.token_file)
    settings = Settings.load()
    host, port = args.host or settings.api_host, args.port or settings.api_port
    # Airflow gave this logger a handler of its own, which uvicorn takes away, and kept it from the one that uvicorn brings.
    logging.getLogger("uvicorn.error").propagate = True
    from airflow_snowpack.api import TokenAuth, build_app
    from airflow_snowpack.api.serve import serve as serve_app

    serve_app(build_app(services_of(args), TokenAuth(token), settings.request_timeout), host, port)
    return None


def read_token(file: str | None) -> str:
    """The token: from the file, the environment, or Airflow's configuration, whichever comes first.

    :raises NoToken: nobody gave one.
    :raises WeakToken: it is too short to keep anybody out.
    """
    if file is not None:
        token = _read_file(file)
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip() or (Settings.load().api_token or "")
    if not token:
        raise NoToken(TOKEN_VARIABLE)
    if len(token) < LEAST_LENGTH:
        raise WeakToken(len(token), LEAST_LENGTH)
    return token


def services_of(args: Namespace) -> Callable[[], Services]:
    """Opens the store and the catalog; called when they are first needed, and again when that failed."""

    def open_services() -> Services:
        from airflow_snowpack.api import Services
        from airflow_snowpack.inventory import Inventory
        from airflow_snowpack.store import Patience
        from airflow_snowpack.store.signs_of_life import Role

        settings = Settings.load()
        patience = Patience.within(settings.request_timeout)
        hook = SnowpackHook(args.store_conn_id, patience=patience, ends_orphans=False)
        # The connection is read anew with each try, so that a corrected one is found without a restart.
        catalog_hook = IcebergCatalogHook(args.catalog_conn_id)
        sign = sign_of_process(hook.store(), Role.API, catalog_hook, period=settings.table_cache_refresh)
        reach, read_id = partial(reach_catalog, args.catalog_conn_id), partial(read_catalog_id, args.catalog_conn_id)
        inventory = Inventory(hook.store(), settings.catalog_name, reach, read_id)
        storage = BuildStorageHook().storage
        return Services(
            hook.jobs(),
            inventory,
            settings.action_order,
            settings.table_cache_refresh,
            storage,
            sign=sign,
            timeout=settings.request_timeout,
        )

    return open_services


def _read_file(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise NoToken(TOKEN_VARIABLE, f"The token file {file} cannot be read: {problem}.") from problem
