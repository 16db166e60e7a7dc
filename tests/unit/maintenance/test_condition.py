"""Which predicates are refused at submit: those that Spark could not run, and none that it can."""

from __future__ import annotations

import pytest
from conditions import ACCEPTED, REFUSED, SCHEMA

from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition


@pytest.mark.parametrize("condition", ACCEPTED)
def test_what_spark_can_run_is_accepted(condition: str) -> None:
    check_condition(condition, SCHEMA)


@pytest.mark.parametrize(("condition", "problem"), REFUSED)
def test_what_spark_could_not_run_is_refused_with_the_reason(condition: str, problem: str) -> None:
    with pytest.raises(UnusableCondition, match=problem):
        check_condition(condition, SCHEMA)
