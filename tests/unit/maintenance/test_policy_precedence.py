"""Policies against the definition of their precedence, written down again in the plainest way, on random rules and tables."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from hypothesis import given, strategies as st

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.policies import Policies, Rule

LEVELS = ["a", "b", "ab", "abc", "b-c"]
PARTS = [*LEVELS, "*", "a*", "*b", "a*c", "**"]
names = st.lists(st.sampled_from(LEVELS), min_size=2, max_size=4).map(".".join)
patterns = st.one_of(st.just("**"), st.lists(st.sampled_from(PARTS), min_size=2, max_size=4).map(".".join))
rules = st.builds(
    lambda tables, exclude, cadence, deadline: {"tables": tables, "exclude": exclude, "cadence": cadence, "deadline": deadline},
    st.lists(patterns, min_size=1, max_size=2),
    st.lists(patterns, max_size=1),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(10, 19)),
)


def matches(pattern: str, name: str) -> bool:
    levels = [r"[^.]+(?:\.[^.]+)*" if level == "**" else level.replace("*", "[^.]*") for level in pattern.split(".")]
    return re.fullmatch(r"\.".join(levels), name) is not None


def specificity(pattern: str) -> tuple[int, int, int]:
    levels = pattern.split(".")
    literal = sum("*" not in level for level in levels)
    return literal, len(pattern.replace("*", "").replace(".", "")), -levels.count("**")


def expected(written: list[dict[str, object]], name: str, key: str) -> timedelta | None:
    best, value = None, {"cadence": timedelta(hours=6), "deadline": None}[key]
    for number, rule in enumerate(written):
        tables, exclude = rule["tables"], rule["exclude"]
        assert isinstance(tables, list)
        assert isinstance(exclude, list)
        applying = [specificity(pattern) for pattern in tables if matches(pattern, name)]
        if not applying or any(matches(pattern, name) for pattern in exclude) or rule[key] is None:
            continue
        rank = (max(applying), number)
        if best is None or rank > best:
            best, value = rank, timedelta(hours=int(str(rule[key])))
    return value


def in_python(rule: dict[str, object]) -> dict[str, Any]:
    return rule | {key: f"{rule[key]}h" for key in ("cadence", "deadline") if rule[key] is not None}


@given(st.lists(rules, max_size=6), st.lists(names, min_size=1, max_size=4))
def test_the_most_specific_rule_that_sets_a_value_holds_for_each_table(
    written: list[dict[str, object]], tables: list[str]
) -> None:
    policies = Policies([Rule(**{key: value for key, value in in_python(rule).items() if value is not None}) for rule in written])
    for name in tables:
        action = policies.of(TableName.parse(name, catalog="lake"), {}).actions["rewrite_manifests"]
        assert action.cadence == expected(written, name, "cadence")
        assert action.deadline == expected(written, name, "deadline")
