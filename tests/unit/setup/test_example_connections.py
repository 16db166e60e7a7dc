"""The package can read the connections and settings that ``docker-compose.yaml`` gives to Airflow and the worker."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from airflow_snowpack.connections.catalog import catalog_config
from airflow_snowpack.connections.spark import spark_of
from airflow_snowpack.provider_info import CONFIG
from airflow_snowpack.settings import Settings
from airflow_snowpack.worker.environment import Environment

COMPOSE = yaml.safe_load((Path(__file__).parents[3] / "docker-compose.yaml").read_text())
GIVEN = {name: re.sub(r"\$\{(\w+)[^}]*\}", r"\1", value) for name, value in COMPOSE["x-snowpack"].items()}


def test_every_snowpack_setting_of_the_compose_file_exists() -> None:
    prefix = "AIRFLOW__SNOWPACK__"
    options = {name.removeprefix(prefix).lower() for name in GIVEN if name.startswith(prefix)}
    assert options
    assert options <= set(CONFIG["snowpack"]["options"])


def test_the_connections_name_the_services_of_the_compose_file() -> None:
    environment = Environment(GIVEN)
    settings = Settings.load(environment)
    assert settings.store_conn_id is not None
    assert settings.catalog_conn_id is not None
    assert settings.spark_conn_id is not None
    assert settings.builds_conn_id is not None
    store, builds = (environment.connection(each, "a test") for each in (settings.store_conn_id, settings.builds_conn_id))
    catalog = catalog_config(environment.connection(settings.catalog_conn_id, "a test"), settings.catalog_name)
    spark = spark_of(settings, catalog, environment.connection(settings.spark_conn_id, "a test"))

    assert (store.conn_type, store.host, store.password) == ("postgres", "store-db", "STORE_DB_PASSWORD")
    assert (catalog.address, catalog.warehouse) == ("http://s3:8181", "s3://lake")
    assert catalog.spark_conf()["spark.sql.catalog.lake.s3.secret-access-key"] == "S3_SECRET_KEY"
    assert spark.sessions.url == "sc://spark-connect:15002/"
    assert spark.sessions.catalogs == catalog.spark_conf()
    assert builds.extra_dejson["endpoint_url"] == "http://s3:8333"
    assert COMPOSE["services"].keys() >= {"store-db", "s3", "spark-connect"}
