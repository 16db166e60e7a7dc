"""Spark gives the same verdict on predicates as the check at submit, so that nothing that it runs is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from conditions import ACCEPTED, REFUSED, SCHEMA

from airflow_snowpack.iceberg import TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

DEEP = 1000


@pytest.fixture(scope="module")
def flights(spark: SparkSession, catalog: Catalog) -> str:
    """A table of one row, under the names that the predicates use."""
    name = TableName("lake", f"demo_{uuid4().hex[:8]}", "flights")
    catalog.create_namespace(name.database)
    catalog.create_table(name.identifier, schema=SCHEMA)
    spark.sql(f"INSERT INTO {name.quoted} (p, ratio) VALUES (1, 0.5)")
    return name.quoted


def test_spark_runs_what_the_check_accepts(spark: SparkSession, flights: str) -> None:
    refused = {}
    for condition in ACCEPTED:
        if len(condition) > DEEP or "demo.flights" in condition or "${" in condition:
            continue  # deeper than our check follows, another database, a setting that this session does not have
        try:
            spark.table(flights).filter(condition).collect()
        except Exception as error:  # noqa: BLE001 - each kind of refusal counts
            refused[condition] = str(error).splitlines()[0]
    assert refused == {}


def test_spark_refuses_what_the_check_refuses(spark: SparkSession, flights: str) -> None:
    ran = []
    for condition, problem in REFUSED:
        if problem == "subquery" or condition == "p = 0 AND":
            continue  # Spark runs the one in a query, where Iceberg cannot choose files by it, and takes AND for an alias
        try:
            spark.table(flights).filter(condition).collect()
        except Exception:  # noqa: BLE001 - each kind of refusal counts
            continue
        ran.append(condition)
    assert ran == []
