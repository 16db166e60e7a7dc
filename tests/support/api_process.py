"""The API in a process of its own: ``python api_process.py STORE_URL LAKE_FOLDER PORT [modules]``.

With ``modules`` it prints, once it serves, which modules of Airflow it has loaded.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path

TOKEN = "a-token-for-tests"


def build(store_url: str, lake: Path, timeout: timedelta = timedelta(seconds=5)):  # type: ignore[no-untyped-def]  # the type is FastAPI's, which loads only here
    """Build the app; tests that are not about outages give a request longer than a busy machine needs."""
    from airflow_snowpack.api import Services, TokenAuth, build_app
    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.installation import Installation
    from airflow_snowpack.inventory import Inventory
    from airflow_snowpack.maintenance import DEFAULT_ORDER
    from airflow_snowpack.store import Deadlines, open_store

    def open_services() -> Services:
        store = open_store(store_url, deadlines=Deadlines.within(timeout))
        inventory = Inventory(store, "lake", CatalogConfig.embedded(lake).load)
        return Services(Installation(store), inventory, DEFAULT_ORDER, timeout=timeout)

    return build_app(open_services, TokenAuth(TOKEN), timeout)


def tell_modules() -> None:
    print("airflow:", sorted(name for name in sys.modules if name.split(".")[0] == "airflow"), flush=True)


def main() -> None:
    from airflow_snowpack.api.app import serve

    store_url, lake, port, *more = sys.argv[1:]
    if more:
        threading.Timer(5.0, tell_modules).start()
    serve(build(store_url, Path(lake)), "127.0.0.1", int(port))


if __name__ == "__main__":
    main()
