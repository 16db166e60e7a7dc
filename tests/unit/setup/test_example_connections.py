"""The connections and settings that ``docker-compose.yaml`` gives to Airflow are ones that the package can read."""

from __future__ import annotations

from pathlib import Path

import yaml

from airflow_snowpack.provider_info import CONFIG

ENVIRONMENT = yaml.safe_load((Path(__file__).parents[3] / "docker-compose.yaml").read_text())["x-airflow"]["environment"]


def test_every_snowpack_setting_of_the_compose_file_exists() -> None:
    prefix = "AIRFLOW__SNOWPACK__"
    given = {name.removeprefix(prefix).lower() for name in ENVIRONMENT if name.startswith(prefix)}
    assert given
    assert given <= set(CONFIG["snowpack"]["options"])


def test_the_catalog_connection_names_a_database_and_a_warehouse() -> None:
    from airflow.models.connection import Connection

    uri = ENVIRONMENT["AIRFLOW_CONN_LAKEHOUSE"].replace("${STORE_DB_PASSWORD}", "secret")
    connection = Connection(conn_id="lakehouse", uri=uri)
    assert (connection.conn_type, connection.host, connection.schema) == ("postgres", "store-db", "snowpack")
    assert connection.extra_dejson["warehouse"] == "file:///var/lib/snowpack/warehouse"
