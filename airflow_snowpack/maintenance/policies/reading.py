"""Reads the rules of ``policies.yaml``, and keeps the line of each part for origins and messages.

    default:
      cadence: 12h
    rules:
      - tables: analytics.*
        exclude: analytics.tmp_*
        quiet: 08:00-20:00 Europe/Berlin
        actions:
          expire_snapshots:
            deadline: 7d
            options: {max_age: 10d}

``default`` is a rule for every table. A Python file names its :class:`Policies` ``policies``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.bounded_text import YamlTooLarge, check_yaml
from airflow_snowpack.maintenance.policies.definitions import unknown
from airflow_snowpack.maintenance.policies.errors import PolicyFinding, fault
from airflow_snowpack.maintenance.policies.patterns import EVERYTHING
from airflow_snowpack.maintenance.policies.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from yaml import Node

    from airflow_snowpack.maintenance.policies.rule import Place

TOP_LEVEL = ("default", "rules")
DEEPEST = 12
"""How deep the mappings and lists of a file may be nested."""


def read_rules(text: str, file: str, *, only_tables: bool = False) -> tuple[list[Rule], list[PolicyFinding]]:
    """Read a YAML text.

    :param file: the name of the file, without folders.
    :param only_tables: read only which tables are maintained.
    :returns: the rules that can be used in their order, and what cannot be used.
    """
    faults: list[PolicyFinding] = []
    written, lines = _load(text, file, faults)
    rules: list[Rule | None] = []
    if faults or written is None:
        return [], faults
    if not isinstance(written, dict):
        return [], [
            fault(file, 1, f"The file must be a mapping with {' and '.join(map(repr, TOP_LEVEL))}, not a list or a text.")
        ]
    for key in written:
        if key not in TOP_LEVEL:
            faults.append(fault(file, lines[(key,)], unknown("The key", str(key), TOP_LEVEL)))
    if "default" in written:
        rules.append(_read_default(written["default"], file, _lines_below(lines, ("default",)), faults, only_tables))
    listed = [] if written.get("rules") is None else written["rules"]
    if not isinstance(listed, list):
        faults.append(fault(file, lines[("rules",)], f"'rules' must be a list, not {listed!r:.60}."))
        listed = []
    for number, rule in enumerate(listed):
        line_of = _lines_below(lines, ("rules", number))
        rules.append(Rule.from_file(rule, file, line_of, faults, only_tables=only_tables))
    return [rule for rule in rules if rule is not None], faults


def _read_default(
    written: object, file: str, line_of: Callable[[Place], int], faults: list[PolicyFinding], only_tables: bool
) -> Rule | None:
    if isinstance(written, dict):
        for key in ("tables", "exclude"):
            if key in written:
                faults.append(fault(file, line_of((key,)), f"'default' is for every table; move {key!r} to a rule."))
                return None
        written = {"tables": EVERYTHING, **written}
    rule = Rule.from_file(written, file, line_of, faults, only_tables=only_tables)
    if rule is not None:
        rule.is_default = True
    return rule


def _lines_below(lines: dict[Place, int], top: Place) -> Callable[[Place], int]:
    def line_of(place: Place) -> int:
        whole = (*top, *place)
        while whole not in lines:
            whole = whole[:-1]
        return lines[whole]

    return line_of


def _load(text: str, file: str, faults: list[PolicyFinding]) -> tuple[Any, dict[Place, int]]:
    """Return the values of the text, and the line of each by its place."""
    import yaml

    lines: dict[Place, int] = {(): 1}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        check_yaml(text)
        node = loader.get_single_node()
        return (None if node is None else _value(loader, node, (), lines, file, faults)), lines
    except YamlTooLarge as error:
        faults.append(fault(file, error.line, f"This file cannot be read: {error}."))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        faults.append(fault(file, mark.line + 1 if mark else 0, f"This is not valid YAML: {error.problem or error.context}."))
    except yaml.YAMLError as error:
        faults.append(fault(file, 0, f"This is not valid YAML: {' '.join(str(error).split())}."))
    finally:
        loader.dispose()
    return None, lines


def _value(loader: Any, node: Node, place: Place, lines: dict[Place, int], file: str, faults: list[PolicyFinding]) -> Any:
    import yaml

    lines.setdefault(place, node.start_mark.line + 1)
    if len(place) > DEEPEST:
        raise yaml.MarkedYAMLError(problem="it is nested too deep", problem_mark=node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, each, (*place, number), lines, file, faults) for number, each in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    _refuse_repeated_keys(node, file, faults)
    loader.flatten_mapping(node)
    mapping = {}
    for key_node, value_node in node.value:
        key = _scalar(loader, key_node)
        key = key if isinstance(key, str) else str(key)
        lines[(*place, key)] = key_node.start_mark.line + 1
        mapping[key] = _value(loader, value_node, (*place, key), lines, file, faults)
    return mapping


def _scalar(loader: Any, node: Node) -> Any:
    import yaml

    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, OverflowError, AttributeError) as error:  # of what looks like a moment or a number, and is none
        message = f"{str(node.value)[:60]!r} cannot be read: {error}; put it in quotes, or correct it"
        raise yaml.MarkedYAMLError(problem=message, problem_mark=node.start_mark) from error


def _refuse_repeated_keys(node: Any, file: str, faults: list[PolicyFinding]) -> None:
    first: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key.value, str) and first.setdefault(key.value, line) != line:
            faults.append(fault(file, line, f"The key {key.value!r} is there twice, first in line {first[key.value]}."))
