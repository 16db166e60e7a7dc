"""YAML of users is bounded before it is read: its bytes, its values with what aliases refer to, and how deep they are nested."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from airflow_snowpack import bounded_text
from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.api.parameters import read_moment
from airflow_snowpack.bounded_text import MAX_BYTES, MAX_DEPTH, YamlTooLarge, check_yaml, is_too_deep
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.condition_values import problem_of
from airflow_snowpack.maintenance.policies import InvalidPolicies
from airflow_snowpack.maintenance.policies.definitions import moment, windows
from airflow_snowpack.maintenance.policies.patterns import Pattern
from airflow_snowpack.maintenance.policies.reading import read_rules
from airflow_snowpack.maintenance.readers import columns, sort_order
from airflow_snowpack.operators.arguments import UnreadableArgument, read_object
from airflow_snowpack.redaction import redacted
from airflow_snowpack.scheduling import InvalidSchedule, parse_schedules
from airflow_snowpack.scheduling.constraints.capacity_constraints import parse_probe
from airflow_snowpack.scheduling.cron import parse_cron, parse_zone
from airflow_snowpack.sizes import parse_bytes


def laughing(first: str, again: Callable[[str], str], levels: int) -> str:
    """Lines of which each repeats the one before it."""
    lines = [f"a0: &a0 {first}", *(f"a{level}: &a{level} {again(f'*a{level - 1}')}" for level in range(1, levels))]
    return "\n".join(lines)


HOSTILE = {
    "370 bytes of aliases": (laughing("[x, x, x, x, x, x, x]", lambda alias: f"[{','.join([alias] * 7)}]", 10), 6, "values"),
    "merge keys": (laughing("{k: v}", lambda alias: f"{{<<: [{','.join([alias] * 9)}]}}", 9), 6, "values"),
    "a chain of aliases": (laughing("[x]", lambda alias: "[" * 20 + alias + "]" * 20, 90), 4, "levels deep"),
    "lists in lists": ("default: {}\nrules: " + "[" * 100_000, 2, "levels deep"),
    "lists in lists by indentation": ("- " * 100_000, 1, "levels deep"),
    "an alias of what contains it": ("default: &a\n  x: [*a]", 2, "refers to a value that contains it"),
    "a merge of what contains it": ("default: &a\n  <<: *a", 2, "refers to a value that contains it"),
    "a number to the base of 60": ("rules: " + ":".join(["1"] * 100_000), 1, "quotes"),
    "a tagged number": ('rules: !!int "' + ":".join(["1"] * 100_000) + '"', 1, "quotes"),
    "a number that cannot be shown": ("rules: 0x" + "f" * 9_000, 1, "quotes"),
    "many values": ("rules: [" + "1," * 150_000 + "]", 1, "values"),
    "many bytes": ("#" * (MAX_BYTES + 1), 1, "bytes"),
}


@pytest.mark.parametrize(("text", "line", "bound"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_exceeds_a_bound_is_refused_with_the_bound_and_its_line(text: str, line: int, bound: str) -> None:
    with pytest.raises(InvalidPolicies) as refused:
        read_rules(text, "policies.yaml")
    (found,) = refused.value.faults
    assert found.where == f"policies.yaml:{line}"
    assert bound in found.message
    with pytest.raises(InvalidSchedule, match=rf"line {line} cannot be read: .*{bound}"):
        parse_schedules(text, "schedules.yaml")


def test_anchors_aliases_and_merge_keys_share_values_as_before() -> None:
    text = "default: &all {cadence: 12h}\nrules:\n- {<<: *all, tables: a.*}\n- {<<: *all, tables: b.*}\n"
    assert len(read_rules(text, "policies.yaml")) == 3


shared = st.recursive(
    st.integers(0, 9) | st.text("ab", max_size=3),
    lambda inner: inner.flatmap(lambda one: st.sampled_from([[one, one], {"x": one, "y": [one]}, [[one]], {"z": one}])),
    max_leaves=12,
)


def size(value: Any) -> tuple[int, int]:
    """How many values there are, keys included, and how deep they are nested."""
    if not isinstance(value, list | dict):
        return 1, 0
    inner = [size(each) for each in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    return 1 + keys + sum(values for values, _ in inner), 1 + max((depth for _, depth in inner), default=0)


@given(shared)
def test_an_alias_counts_as_much_as_what_it_stands_for(value: Any) -> None:
    counter = bounded_text._Counter()
    for event in yaml.parse(yaml.safe_dump(value)):  # which writes what is there twice as an alias
        counter.add(event)
    assert (counter._values, counter._deepest[0]) == size(value)


def test_the_deepest_text_that_is_allowed_is_read() -> None:
    check_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(YamlTooLarge):
        check_yaml("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


LONG = 256 * 1024
UNITS = ("9", " ", "a", ".", "-", ":", "*a", "a.", "**.", "1:", "/", "(", "'", "?", "a=")
READERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "a size": ("1", parse_bytes),
    "a duration": ("P1", parse_duration),
    "a cron expression": ("0 0 ", parse_cron),
    "a time zone": ("Europe/", parse_zone),
    "a load probe": ("a", parse_probe),
    "a daily window": ("08:00", windows),
    "a moment": ("2026-01-01", moment),
    "a moment in a request": ("2026-01-01", partial(read_moment, "at")),
    "a table": ("a.", partial(TableName.parse, catalog="lake")),
    "a task": ("a/b/c", TaskRef.parse),
    "a sort order": ("a ", sort_order),
    "names of columns": ("a", columns),
    "a number in a predicate": ("1", partial(problem_of, kind="number")),
    "a date in a predicate": ("2026-01-01", partial(problem_of, kind="date")),
    "a moment in a predicate": ("2026-01-01", partial(problem_of, kind="timestamp")),
    "an error with an address": ("s3://", redacted),
    "an error with a question mark": ("? ", redacted),
    "a body": ('{"', lambda text: is_too_deep(text.encode())),
    "a pattern of tables": ("a.", lambda text: Pattern.parse(f"{text[:90]}b").matches("a." + "a" * 250)),
    "a pattern of levels": ("a.", lambda text: Pattern.parse(f"{text[:90]}b").matches("a." * 120 + "a")),
}


@pytest.mark.parametrize(("start", "read"), READERS.values(), ids=READERS.keys())
def test_the_time_to_read_a_text_grows_with_its_length_alone(start: str, read: Callable[[str], object]) -> None:
    """With the square of the length, one of these texts takes minutes, as several did."""
    for unit in UNITS:
        for end in ("", "!"):
            with suppress(ValueError, SnowpackError):
                read(start + unit * (LONG // len(unit)) + end)


@given(
    st.lists(st.sampled_from(["**", "a", "*", "a*", "*b", "a*b", "*a*", "a*b*a"]), min_size=2, max_size=5),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=2, max_size=6),
)
def test_a_pattern_matches_what_its_stars_stand_for(levels: list[str], name: list[str]) -> None:
    def expression(level: str) -> str:
        return r"[^.]+(\.[^.]+)*" if level == "**" else level.replace("*", "[^.]*")

    expected = re.fullmatch(r"\.".join(map(expression, levels)), ".".join(name)) is not None
    assert bool(Pattern.parse(".".join(levels)).matches(".".join(name))) == expected


@pytest.mark.parametrize("text", ["[" * 10_000, "-" * 200_000 + "1", '{"a":' * 10_000])
def test_a_rendered_argument_that_is_nested_too_deeply_is_refused_as_unreadable(text: str) -> None:
    with pytest.raises(UnreadableArgument):
        read_object("options", text)
