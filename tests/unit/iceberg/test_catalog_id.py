"""The identity of a catalog: one for all ways to write its address, another one for any other catalog, and never a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName


def rest(uri: str = "https://catalog.example/iceberg", name: str = "lake", **more: str) -> str:
    return CatalogConfig.rest(name, uri, **more).catalog_id  # type: ignore[arg-type]  # each option is text


def postgres(name: str = "lake", host: str = "db.example", database: str = "iceberg", **more: str) -> str:
    return CatalogConfig.postgres(name, host=host, database=database, warehouse="s3://w", **more).catalog_id  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        rest("https://catalog.example/iceberg/"),
        rest("HTTPS://Catalog.Example:443/iceberg"),
        rest("https://catalog.example./iceberg"),
        rest("https://catalog.example.:443//ice%62erg/."),
        rest("https://user:secret@catalog.example/iceberg"),
        rest(name="lakehouse"),
        rest(token="t"),
        rest(credential="id:secret"),
    ],
)
def test_a_rest_catalog_is_the_same_however_its_address_is_written_and_whoever_connects(other: str) -> None:
    assert other == rest()


@pytest.mark.parametrize("spelling", ["s3://lake", "s3://lake/", "s3a://lake", "S3N://lake//"])
@pytest.mark.parametrize("prefix", ["sales", "/sales/"])
def test_a_warehouse_and_a_prefix_are_the_same_however_they_are_written(spelling: str, prefix: str) -> None:
    properties = {"prefix": prefix}
    by_option = CatalogConfig.rest("lake", "https://catalog.example", warehouse=spelling, properties=properties).catalog_id
    by_property = CatalogConfig.rest(
        "lake", "https://catalog.example", properties=properties | {"warehouse": spelling}
    ).catalog_id

    wanted = CatalogConfig.rest("lake", "https://catalog.example", warehouse="s3://lake", properties={"prefix": "sales"})
    assert by_option == by_property == wanted.catalog_id


@pytest.mark.parametrize(
    "other",
    [
        rest("http://catalog.example/iceberg"),
        rest("https://catalog.example/iceberg?tenant=b"),
        rest(warehouse="s3://lake"),
        rest("https://catalog.example:8181/iceberg"),
        rest("https://catalog.example/Iceberg"),
        rest("https://catalog-b.example/iceberg"),
        rest(warehouse="sales"),
        CatalogConfig.rest("lake", "https://catalog.example/iceberg", properties={"prefix": "sales"}).catalog_id,
        CatalogConfig.rest("lake", "https://catalog.example/iceberg", properties={"uri": "https://b.example"}).catalog_id,
        postgres(),
    ],
)
def test_another_rest_address_or_warehouse_is_another_catalog(other: str) -> None:
    assert other != rest()


def test_a_sql_catalog_is_its_database_and_the_name_that_its_rows_carry() -> None:
    assert postgres(host="DB.example.", user="etl", password="secret") == postgres(port=5432)  # type: ignore[arg-type]
    assert len({postgres(), postgres(name="lakehouse"), postgres(database="b"), postgres(host="b"), postgres(port=5433)}) == 5  # type: ignore[arg-type]


def test_a_file_is_the_same_catalog_by_every_path_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    by_file, by_link, other = (
        CatalogConfig.sqlite("lake", tmp_path / folder / "catalog.db", warehouse="file:///w").catalog_id
        for folder in ("real", "link", "other")
    )

    assert by_file == by_link != other


def test_a_lock_is_found_by_the_identity_and_where_there_is_none_by_the_name() -> None:
    assert TableName("lake", "sales", "orders", rest()).lock_key == f"{rest()}:sales.orders"
    assert TableName("lake", "sales", "orders").lock_key == "lake.sales.orders"
