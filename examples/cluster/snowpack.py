"""The store's database, and the settings by which any process uses the cluster: Airflow, a worker, a terminal.

    installation = SnowpackInstallation(home, postgres, s3, connect)
    installation.start()
    installation.environment["AIRFLOW__SNOWPACK__STORE_CONN_ID"]

``source …/environment.sh`` gives them to a terminal, for ``airflow snowpack tables list``.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from examples.cluster.part import Part
from examples.cluster.postgres import Postgres
from examples.cluster.process import LOCALHOST
from examples.cluster.seaweedfs import SeaweedFS
from examples.cluster.spark_connect import SparkConnectServer

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_snowpack.iceberg import CatalogConfig

CATALOG = "lake"


class SnowpackInstallation(Part):
    """The store in Postgres, the OAuth2 REST catalog on S3, and Spark Connect.

    :param home: the folder of the file with the settings.
    """

    name: ClassVar[str] = "snowpack"
    needs: ClassVar[tuple[type[Part], ...]] = (Postgres, SeaweedFS, SparkConnectServer)

    def __init__(self, home: Path, postgres: Postgres, s3: SeaweedFS, connect: SparkConnectServer) -> None:
        super().__init__()
        self._home, self._postgres, self._s3, self._connect = home, postgres, s3, connect
        self._file = home / "environment.sh"
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        """Create the store, and write the settings to a file."""
        url = self._postgres.new_database("snowpack")
        store = Store(open_engine(url))
        upgrade_schema(store)
        store.close()
        connect = {"conn_type": "spark_connect", "host": LOCALHOST, "port": self._connect.port, "extra": {"send_catalog": True}}
        database = {"conn_type": "postgres", "host": url.host, "port": url.port, "login": url.username, "schema": url.database}
        self.environment = {
            "AIRFLOW__SNOWPACK__STORE_CONN_ID": "snowpack_store",
            "AIRFLOW__SNOWPACK__CATALOG_CONN_ID": "lakehouse",
            "AIRFLOW__SNOWPACK__CATALOG_NAME": CATALOG,
            "AIRFLOW__SNOWPACK__SPARK_CONN_ID": "spark",
            "AIRFLOW__SNOWPACK__EXECUTION": "queued",
            "AIRFLOW_CONN_SNOWPACK_STORE": json.dumps(database),
            "AIRFLOW_CONN_LAKEHOUSE": json.dumps(catalog_connection(self._s3.catalog(CATALOG))),
            "AIRFLOW_CONN_SPARK": json.dumps(connect),
        }
        write_environment(self._file, self.environment)

    @property
    def addresses(self) -> dict[str, str]:
        return {"settings": str(self._file)}


def catalog_connection(config: CatalogConfig) -> dict[str, Any]:
    """Return the Airflow connection of a REST catalog, with its secrets."""
    extra = {
        "warehouse": config.warehouse,
        "properties": dict(config.properties),
        "spark_properties": dict(config.spark_properties),
    }
    return {"conn_type": "snowpack_catalog", "host": config.address, "extra": extra}


def write_environment(file: Path, environment: dict[str, str]) -> None:
    """Write variables, among them secrets, as a file for ``source`` that only its owner reads."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()))
