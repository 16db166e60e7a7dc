"""Our API alone, on a store that is there, with a catalog that nothing asks for.

python -m benchmarks.contenders.our_api POSTGRES_URL PORT
"""

import sys
import tempfile
from pathlib import Path

from airflow_snowpack.api import Services, TokenAuth, build_app
from airflow_snowpack.api.app import serve
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.installation import Installation
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.maintenance import DEFAULT_ORDER
from airflow_snowpack.store import Deadlines, open_store

TOKEN = "a-token-for-the-benchmark"


def main(url: str, port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = CatalogConfig.embedded(Path(folder))

        def open_services() -> Services:
            store = open_store(url, deadlines=Deadlines())
            return Services(Installation(store), Inventory(store, "lake", lake.load), DEFAULT_ORDER)

        serve(build_app(open_services, TokenAuth(TOKEN)), "127.0.0.1", port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
