"""One description of a catalog, for both engines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_snowpack.iceberg import (
    CatalogConfig,
    CatalogUnreachable,
    InvalidCatalogName,
    TableName,
    TableNotFound,
    TableUnreadable,
    load_table,
)

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.fixture
def config(tmp_path: Path) -> CatalogConfig:
    return CatalogConfig.embedded(tmp_path / "iceberg home")


def test_the_embedded_catalog_makes_its_folders_and_keeps_tables_between_loads(config: CatalogConfig) -> None:
    config.load().create_namespace("flights")
    config.load().create_table("flights.departures", SCHEMA)

    table = load_table(config.load(), TableName.parse("flights.departures", catalog="lake"))

    assert table.metadata.location.endswith("/iceberg home/warehouse/flights/departures")


def test_spark_gets_the_same_name_file_and_warehouse_without_its_cache(tmp_path: Path) -> None:
    conf = CatalogConfig.embedded(tmp_path, name="house").spark_conf()

    assert conf == {
        "spark.sql.catalog.house": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.house.type": "jdbc",
        "spark.sql.catalog.house.uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "spark.sql.catalog.house.warehouse": f"file://{tmp_path}/warehouse",
        "spark.sql.catalog.house.jdbc.schema-version": "V1",
        "spark.sql.catalog.house.cache-enabled": "false",
    }


def test_each_kind_names_the_driver_that_spark_lacks(config: CatalogConfig) -> None:
    postgres = CatalogConfig.postgres("lake", host="db", database="iceberg", warehouse="file:///lake/")

    assert config.spark_packages() == ("org.xerial:sqlite-jdbc:3.54.1.0",)
    assert postgres.spark_packages() == ("org.postgresql:postgresql:42.7.14",)
    assert CatalogConfig.rest("lake", "http://catalog:8181").spark_packages() == ()


def test_postgres_credentials_reach_spark_and_stay_out_of_the_representation() -> None:
    config = CatalogConfig.postgres(
        "lake",
        host="db",
        database="iceberg",
        warehouse="s3://lake/",
        user="ice",
        password="p@ss/word",
        properties={"s3.secret-access-key": "k3y"},
    )

    conf = config.spark_conf()

    assert conf["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://db:5432/iceberg"
    assert conf["spark.sql.catalog.lake.jdbc.user"] == "ice"
    assert conf["spark.sql.catalog.lake.jdbc.password"] == "p@ss/word"
    assert conf["spark.sql.catalog.lake.s3.secret-access-key"] == "k3y"
    assert "p@ss" not in repr(config)
    assert "k3y" not in repr(config)


def test_a_rest_catalog_hands_its_token_to_both_engines_and_not_to_the_log() -> None:
    config = CatalogConfig.rest("lake", "http://catalog:8181", token="t0ken", spark_properties={"io-impl": "S3FileIO"})

    conf = config.spark_conf()

    assert conf["spark.sql.catalog.lake.type"] == "rest"
    assert conf["spark.sql.catalog.lake.token"] == "t0ken"
    assert conf["spark.sql.catalog.lake.io-impl"] == "S3FileIO"
    assert "t0ken" not in repr(config)


@pytest.mark.parametrize("name", ["", "my lake", "lake.db", "`lake`", "1lake"])
def test_a_catalog_name_that_could_break_out_of_a_setting_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalogName, match="is not a catalog name"):
        CatalogConfig.embedded(tmp_path, name=name)


def test_a_missing_table_is_answered_with_the_tables_that_are_there(config: CatalogConfig) -> None:
    catalog = config.load()
    catalog.create_namespace("flights")
    catalog.create_table("flights.departures", SCHEMA)

    with pytest.raises(TableNotFound, match=r"no table 'flights\.departure'.*flights\.departures"):
        load_table(catalog, TableName.parse("flights.departure", catalog="lake"))


def test_a_missing_database_is_a_missing_table(config: CatalogConfig) -> None:
    with pytest.raises(TableNotFound, match=r"no table 'nowhere\.departures'"):
        load_table(config.load(), TableName.parse("nowhere.departures", catalog="lake"))


def test_a_table_whose_metadata_file_is_gone_says_so(config: CatalogConfig) -> None:
    catalog = config.load()
    catalog.create_namespace("flights")
    table = catalog.create_table("flights.departures", SCHEMA)
    os.remove(table.metadata_location.removeprefix("file://"))

    with pytest.raises(TableUnreadable, match=r"metadata of table 'flights\.departures' cannot be read"):
        load_table(catalog, TableName.parse("flights.departures", catalog="lake"))


def test_a_catalog_that_does_not_answer_is_named() -> None:
    config = CatalogConfig.rest("lake", "http://127.0.0.1:9")

    with pytest.raises(CatalogUnreachable, match="The Iceberg catalog 'lake' cannot be reached"):
        config.load()


def test_a_catalog_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    config = CatalogConfig.sqlite("lake", tmp_path / "missing" / "catalog.db", warehouse=f"file://{tmp_path}")

    with pytest.raises(CatalogUnreachable, match="The Iceberg catalog 'lake' cannot be reached"):
        config.load()


def test_a_table_whose_metadata_file_is_damaged_says_so(config: CatalogConfig) -> None:
    catalog = config.load()
    catalog.create_namespace("flights")
    table = catalog.create_table("flights.departures", SCHEMA)
    with open(table.metadata_location.removeprefix("file://"), "w") as file:
        file.write("{}")

    with pytest.raises(TableUnreadable, match="cannot be read"):
        load_table(catalog, TableName.parse("flights.departures", catalog="lake"))
