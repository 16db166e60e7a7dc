"""Which predicates are refused at submit: those that Spark could not run, and none that it can."""

from __future__ import annotations

from pathlib import Path

import pytest
from conditions import ACCEPTED, REFUSED, SCHEMA
from hypothesis import given
from random_conditions import CONDITIONS, faulty_conditions

from airflow_snowpack.maintenance.condition import MOST_CHAINED, MOST_CONDITIONS, MOST_NESTED, check_condition
from airflow_snowpack.maintenance.condition_functions import ALLOWED, OF_ICEBERG
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition

DOCS = Path(__file__).parents[3] / "docs" / "actions.md"


@pytest.mark.parametrize("condition", ACCEPTED)
def test_what_spark_can_run_is_accepted(condition: str) -> None:
    check_condition(condition, SCHEMA, "lake")


@pytest.mark.parametrize(("condition", "problem"), REFUSED)
def test_what_spark_could_not_run_is_refused_with_the_reason(condition: str, problem: str) -> None:
    with pytest.raises(UnusableCondition, match=problem):
        check_condition(condition, SCHEMA, "lake")


@given(CONDITIONS)
def test_any_predicate_of_the_grammar_is_accepted(condition: str) -> None:
    check_condition(condition, SCHEMA, "lake")


@given(faulty_conditions())
def test_a_predicate_with_something_in_it_that_may_not_be_there_is_refused(condition: str) -> None:
    with pytest.raises(UnusableCondition):
        check_condition(condition, SCHEMA, "lake")


def test_the_documentation_lists_the_functions_and_the_bounds() -> None:
    _, _, text = DOCS.read_text().partition("## Predicates\n")
    section = text.partition("\n## ")[0]
    listed = {name for line in section.splitlines() if line.startswith("| ") for name in line.split("`")[1::2]}
    assert {name for name in listed if name.islower() and name.isidentifier()} == ALLOWED | OF_ICEBERG
    for bound in (MOST_NESTED, MOST_CHAINED, MOST_CONDITIONS):
        assert f" {bound:,} " in section
