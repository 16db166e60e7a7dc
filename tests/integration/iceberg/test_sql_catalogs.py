"""SQL catalogs, in a file and in a real Postgres."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy.engine import make_url

from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, TableName, load_table, location_conflicts

AT_ONCE = 8


def in_postgres(url_of_database: str, warehouse: Path) -> CatalogConfig:
    url = make_url(url_of_database)
    assert url.host
    return CatalogConfig.postgres(
        "lake",
        host=url.host,
        port=url.port or 5432,
        database=url.database or "",
        user=url.username,
        password=url.password,
        warehouse=f"file://{warehouse}",
    )


def test_tables_of_a_postgres_catalog_are_found_again_and_compared(empty_postgres_database: str, tmp_path: Path) -> None:
    config = in_postgres(empty_postgres_database, tmp_path / "warehouse")
    config.load().create_namespace("flights")
    config.load().create_table("flights.departures", Schema(NestedField(1, "id", LongType(), required=False)))

    table = load_table(config.load(), TableName.parse("flights.departures", catalog="lake"))

    assert table.metadata.location == f"file://{tmp_path}/warehouse/flights/departures"

    config.load().create_table("flights.guest", table.schema(), location=f"{table.location()}/guest")

    (conflict,) = location_conflicts(config.load(), TableName.parse("flights.departures", catalog="lake"))
    assert conflict.table == "flights.guest"


def test_a_postgres_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    config = CatalogConfig.postgres(
        "lake", host="127.0.0.1", port=9, database="iceberg", user="ice", password="s3cret", warehouse=f"file://{tmp_path}"
    )

    with pytest.raises(CatalogUnreachable, match="The Iceberg catalog 'lake' cannot be reached") as caught:
        config.load()
    assert "s3cret" not in str(caught.value)


@pytest.fixture(params=["sqlite", "postgres"])
def new_catalog(request: pytest.FixtureRequest, tmp_path: Path) -> CatalogConfig:
    """A catalog whose tables nobody has made yet."""
    if request.param == "postgres":
        return in_postgres(request.getfixturevalue("empty_postgres_database"), tmp_path / "warehouse")
    return CatalogConfig.sqlite("lake", tmp_path / "catalog.db", warehouse=f"file://{tmp_path}/warehouse")


def test_of_many_that_meet_a_new_catalog_at_once_none_fails(new_catalog: CatalogConfig) -> None:
    ready = Barrier(AT_ONCE)

    def meet(_: int) -> list[tuple[str, ...]]:
        ready.wait()
        return list(new_catalog.load().list_namespaces())

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert list(threads.map(meet, range(AT_ONCE))) == [[]] * AT_ONCE
