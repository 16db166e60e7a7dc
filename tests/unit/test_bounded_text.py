"""YAML of users is bounded before it is read: its bytes, its values with what aliases refer to, and how deep they are nested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, strategies as st

from airflow_snowpack import bounded_text
from airflow_snowpack.bounded_text import MAX_BYTES, MAX_DEPTH, YamlTooLarge, check_yaml
from airflow_snowpack.maintenance.policies.reading import read_rules
from airflow_snowpack.scheduling import InvalidSchedule, parse_schedules

if TYPE_CHECKING:
    from collections.abc import Callable


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
    (found,) = read_rules(text, "policies.yaml")[1]
    assert found.where == f"policies.yaml:{line}"
    assert bound in found.message
    with pytest.raises(InvalidSchedule, match=rf"line {line} cannot be read: .*{bound}"):
        parse_schedules(text, "schedules.yaml")


def test_anchors_aliases_and_merge_keys_share_values_as_before() -> None:
    text = "default: &all {cadence: 12h}\nrules:\n- {<<: *all, tables: a.*}\n- {<<: *all, tables: b.*}\n"
    rules, faults = read_rules(text, "policies.yaml")
    assert (len(rules), faults) == (3, [])


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
