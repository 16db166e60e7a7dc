"""Spark gives the same verdict on predicates as the check at submit, so that nothing that it runs is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from conditions import ACCEPTED, REFUSED, SCHEMA
from effort import rounds
from hypothesis import given, settings, strategies as st
from random_conditions import CONDITIONS, VALUES, mutated_conditions

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.condition_functions import ALLOWED, OF_ICEBERG
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition
from airflow_snowpack.maintenance.condition_values import Kind, problem_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

DECIDED_BY_US = ("subquery", "not allowed", "RLIKE", "REGEXP", "a pattern", "a comment", "a cast", "more than", "Spark names")
"""Spark runs some of these in a query: where Iceberg cannot choose files by them, or until they are too large."""
CALL = "UnresolvedFunction"


@pytest.fixture(scope="module")
def flights(spark: SparkSession, catalog: Catalog) -> str:
    """A table of one row, under the names that the predicates use."""
    name = TableName("lake", f"demo_{uuid4().hex[:8]}", "flights")
    catalog.create_namespace(name.database)
    catalog.create_table(name.identifier, schema=SCHEMA)
    spark.sql(f"INSERT INTO {name.quoted} (p, ratio) VALUES (1, 0.5)")
    return name.quoted


def test_spark_runs_what_the_check_accepts(spark: SparkSession, flights: str) -> None:
    conditions = [condition for condition in ACCEPTED if "demo.flights" not in condition]  # another database

    spark.table(flights).selectExpr(*(f"({condition}) IS NULL" for condition in conditions)).collect()


def test_spark_refuses_what_the_check_refuses(spark: SparkSession, flights: str) -> None:
    ran = []
    for condition, problem in REFUSED:
        if any(reason in problem for reason in DECIDED_BY_US) or condition.endswith((" AND", " DAYS DAYS")):
            continue  # Spark takes the last word for an alias
        try:
            spark.table(flights).filter(condition).collect()
        except Exception:  # noqa: BLE001 - each kind of refusal counts
            continue
        ran.append(condition)
    assert ran == []


@settings(max_examples=rounds(4, soak=300))
@given(st.lists(CONDITIONS, min_size=40, max_size=40))
def test_spark_runs_random_predicates_that_the_check_accepts(spark: SparkSession, flights: str, conditions: list[str]) -> None:
    for condition in conditions:
        check_condition(condition, SCHEMA, "lake")

    spark.table(flights).selectExpr(*(f"({condition}) IS NULL" for condition in conditions)).collect()


@settings(max_examples=rounds(8, soak=500))
@given(st.lists(VALUES, min_size=80, max_size=80))
def test_no_text_is_refused_that_spark_casts_to_the_type_of_the_column(spark: SparkSession, texts: list[str]) -> None:
    casts = ", ".join(f"try_cast(text AS {type_}) IS NOT NULL" for type_ in KINDS)
    rows = spark.sql(f"SELECT text, {casts} FROM (SELECT explode(:texts) AS text)", args={"texts": texts}).collect()
    for text, *can_be in rows:
        cast = [kind for kind, can in zip(KINDS.values(), can_be, strict=True) if can]
        assert [kind for kind in cast if problem_of(text, kind)] == [], text


KINDS: dict[str, Kind] = {
    "boolean": "truth",
    "bigint": "integer",
    "double": "number",
    "decimal(38, 10)": "number",
    "date": "date",
    "timestamp": "timestamp",
}


@settings(max_examples=rounds(100, soak=5_000))
@given(mutated_conditions())
def test_spark_finds_no_other_calls_in_a_predicate_that_the_check_accepts(spark: SparkSession, condition: str) -> None:
    from pyspark.errors import ParseException

    try:
        check_condition(condition, SCHEMA, "lake")
    except UnusableCondition:
        return
    session: Any = spark
    with suppress(ParseException):
        parsed = session._jsparkSession.sessionState().sqlParser().parseExpression(condition)
        assert parsed.getClass().getSimpleName() != "Alias", condition
        assert calls_in(parsed) <= ALLOWED | OF_ICEBERG | OF_SYNTAX, condition


OF_SYNTAX = {*"%-+*/&|^~!=", "not", "div", "in", "between", "when", "concat", "like", "ilike"}
"""Operators that Spark parses as calls."""


def calls_in(expression: Any) -> set[str]:
    """Return the last parts of the names of all functions that an expression calls, as Spark has parsed it."""
    own = {expression.nameParts().last().lower()} if expression.getClass().getSimpleName() == CALL else set()
    children = expression.children()
    return own.union(*(calls_in(children.apply(place)) for place in range(children.size())))
