"""All tables of a catalog, of any depth, or an error: never a part of them as if it were all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from rest_catalog import FakeRestCatalog, rest_catalog

from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, TableName, TableNotFound, TableUnreadable, load_table
from airflow_snowpack.iceberg.listing import NAMES, LeftOut, list_tables

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
NESTED = ["lake.db.orders", "lake.db.eu.visits", "lake.db.eu.berlin.trips", "lake.other.clicks"]


@pytest.fixture
def rest() -> Iterator[FakeRestCatalog]:
    with rest_catalog() as catalog:
        yield catalog


def connect(rest: FakeRestCatalog) -> Catalog:
    return CatalogConfig.rest("lake", rest.url).load(limit=timedelta(milliseconds=300))


def names(catalog: Catalog) -> list[str]:
    return sorted(str(name) for name in list_tables(catalog, "lake", []))


def test_a_sql_catalog_lists_the_tables_of_namespaces_of_any_depth(tmp_path: Path) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    for namespace in ("db", "db.eu", "db.eu.berlin", "other", "empty", "empty.below"):
        catalog.create_namespace(namespace)
    for table in NESTED:
        catalog.create_table(table.removeprefix("lake."), SCHEMA)

    assert names(catalog) == sorted(NESTED)


def test_a_rest_catalog_lists_the_tables_of_namespaces_of_any_depth(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders"], ("db", "eu"): ["visits"], ("db", "eu", "berlin"): ["trips"], ("other",): ["clicks"]}
    rest.tables[("empty",)] = []

    assert names(connect(rest)) == sorted(NESTED)


def test_an_empty_catalog_is_an_empty_list(rest: FakeRestCatalog, tmp_path: Path) -> None:
    assert names(CatalogConfig.embedded(tmp_path).load()) == []
    assert names(connect(rest)) == []


def test_names_that_are_not_names_here_are_left_out_with_the_reason(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders", "my table", "a;b", "größe"], ("my db",): ["clicks"], ("1st",): ["x"]}

    assert names(connect(rest)) == ["lake.db.orders"]
    left_out: list[LeftOut] = []
    list(list_tables(connect(rest), "lake", left_out))
    assert sorted(each.name for each in left_out) == ["1st.*", "db.a;b", "db.größe", "db.my table", "my db.*"]
    assert {each.reason for each in left_out} == {NAMES}


@pytest.mark.parametrize("answered", range(1, 6))
def test_an_outage_in_the_middle_is_an_error_and_no_shorter_list(rest: FakeRestCatalog, answered: int) -> None:
    rest.tables = {("db",): ["orders"], ("db", "eu"): ["visits"], ("other",): ["clicks"]}
    catalog = connect(rest)
    rest.fail_after = answered + len(rest.requests)

    with pytest.raises(CatalogUnreachable):
        names(catalog)


def test_a_namespace_that_is_dropped_while_it_is_listed_is_an_error_and_no_shorter_list(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders"], ("other",): ["clicks"]}
    listing = list_tables(connect(rest), "lake", [])
    next(listing)
    rest.tables.clear()

    with pytest.raises(CatalogUnreachable):
        list(listing)


def test_a_namespace_that_is_refused_is_left_out_with_the_reason(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders"], ("secret",): ["salaries"]}
    rest.forbidden = {("secret",)}

    left_out: list[LeftOut] = []
    assert [str(each) for each in list_tables(connect(rest), "lake", left_out)] == ["lake.db.orders"]
    assert left_out == [LeftOut("secret.*", "The catalog refuses to list this namespace")]


def test_a_catalog_that_refuses_every_namespace_is_no_empty_catalog(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders"]}
    rest.forbidden = {("db",)}

    with pytest.raises(CatalogUnreachable):
        names(connect(rest))


@pytest.mark.parametrize("answer", ["silence", "outage", "strange"])
def test_a_catalog_that_says_nothing_useful_is_unreachable_and_nobody_waits_for_it_for_ever(
    rest: FakeRestCatalog, answer: str
) -> None:
    rest.tables = {("db",): ["orders"]}
    catalog = connect(rest)
    rest.answer = answer

    with pytest.raises(CatalogUnreachable):
        names(catalog)
    with pytest.raises((CatalogUnreachable, TableUnreadable)):
        load_table(catalog, TableName("lake", "db", "orders"))
    with pytest.raises(CatalogUnreachable):
        connect(rest)


def test_a_table_that_is_not_there_is_not_found_although_its_neighbours_cannot_be_asked_for(rest: FakeRestCatalog) -> None:
    rest.tables = {("db",): ["orders"]}
    catalog = connect(rest)
    rest.fail_after = len(rest.requests) + 1

    with pytest.raises(TableNotFound):
        load_table(catalog, TableName("lake", "db", "clicks"))
