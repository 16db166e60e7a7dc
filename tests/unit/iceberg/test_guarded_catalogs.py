"""The properties of a table decide neither which code opens its files nor where the catalog's credentials are sent.

And a file is opened by every character of its path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from rest_catalog import rest_catalog

from airflow_snowpack.iceberg import CatalogConfig, MetadataReader, TableName, list_storage, load_table, stat_files
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.iceberg.guarded_catalogs import LiteralFileIO

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
NAME = TableName("lake", "db", "t")
HOSTILE = {
    "py-io-impl": "snowpack_evil.Files",
    "s3.endpoint": "http://elsewhere",
    "gcs.service.host": "http://elsewhere",
    "uri": "http://elsewhere",
    "token": "stolen",
}


@pytest.fixture(autouse=True)
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "snowpack_evil.py").write_text("from pyiceberg.io.pyarrow import PyArrowFileIO as Files\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "snowpack_evil" not in sys.modules, "a table property has named code, and it was imported"


def opened_with(table: Table) -> dict[str, str]:
    return {name: value for name, value in table.io.properties.items() if HOSTILE.get(name) == value}


def test_a_table_of_a_sql_catalog_is_opened_with_the_catalogs_properties_alone(tmp_path: Path) -> None:
    config = CatalogConfig.embedded(tmp_path / "home")
    catalog = config.load()
    catalog.create_namespace("db")
    created = catalog.create_table("db.t", SCHEMA)
    with created.transaction() as change:
        change.set_properties(HOSTILE)
    seen: list[Table] = []
    list(Broker(config.load).read({NAME: None}, lambda _, table: seen.append(table)))
    assert len(seen) == 1
    for table in (created, load_table(config.load(), NAME), *seen):
        assert table.properties.items() >= HOSTILE.items()
        assert opened_with(table) == {}


def test_a_table_of_a_rest_catalog_is_opened_with_what_the_server_returns_beside_it() -> None:
    with rest_catalog() as server:
        server.tables[("db",)] = ["t"]
        server.properties, server.config = HOSTILE, {"s3.access-key-id": "vended"}
        table = load_table(CatalogConfig.rest("lake", server.url).load(), NAME)
    assert table.properties == HOSTILE
    assert opened_with(table) == {}
    assert table.io.properties["s3.access-key-id"] == "vended"
    assert table.config == server.config


@pytest.mark.parametrize("folder", ["t#1", "t?a=b", "t;1", "t%20x", "t\nx", "t é"])
def test_a_table_is_read_in_a_folder_that_is_no_path_of_a_url(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    catalog.create_namespace("db")
    rows = pa.table({"id": [1, 2]})
    with monkeypatch.context() as patch:  # PyIceberg would write it elsewhere; Iceberg's Java library does not
        patch.setattr("pyiceberg.catalog.sql.load_file_io", lambda properties, location: LiteralFileIO(properties))
        catalog.create_table("db.t", rows.schema, location=f"file://{tmp_path}/{folder}").append(rows)

    table = load_table(catalog, NAME)

    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert (tmp_path / folder / "data").is_dir()
    assert [file for file in stat_files(table, [table.metadata_location]) if file] != []
    assert list_storage(MetadataReader(table), older_than=datetime.now(UTC) + timedelta(days=1)).files == 5
