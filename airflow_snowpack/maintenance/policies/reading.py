"""Read the rules of ``policies.yaml``, with the line of each part for origins and messages.

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
from airflow_snowpack.maintenance.policies.errors import InvalidPolicies, PolicySource, fault
from airflow_snowpack.maintenance.policies.patterns import EVERYTHING
from airflow_snowpack.maintenance.policies.rule import Rule

if TYPE_CHECKING:
    from yaml import Node

    from airflow_snowpack.maintenance.policies.errors import Place

TOP_LEVEL = ("default", "rules")


def read_rules(text: str, file: str, *, only_tables: bool = False) -> list[Rule]:
    """Read the rules of a YAML text, in order.

    :param file: the name of the file, without folders.
    :param only_tables: read only which tables are maintained.
    :raises InvalidPolicies: a part of it cannot be used.
    """
    lines: dict[Place, int] = {(): 1}
    source = PolicySource(file, lines)
    written = _load(text, source, lines)
    rules = []
    if written is not None and not isinstance(written, dict):
        source.refuse(f"The file must be a mapping with {' and '.join(map(repr, TOP_LEVEL))}, not a list or a text.")
    elif written and not source.faults:
        rules = _read(written, source, only_tables)
    if source.faults:
        raise InvalidPolicies(source.faults)
    return rules


def _read(written: dict[str, Any], source: PolicySource, only_tables: bool) -> list[Rule]:
    rules = []
    for key in (key for key in written if key not in TOP_LEVEL):
        source.below(key).refuse(unknown("The key", key, TOP_LEVEL))
    if "default" in written:
        rules.append(_read_default(written["default"], source.below("default"), only_tables))
    listed, part = [] if written.get("rules") is None else written["rules"], source.below("rules")
    if not isinstance(listed, list):
        part.refuse(f"'rules' must be a list, not {listed!r:.60}.")
        listed = []
    return [*rules, *(Rule.from_file(rule, part.below(n), only_tables=only_tables) for n, rule in enumerate(listed))]


def _read_default(written: object, source: PolicySource, only_tables: bool) -> Rule:
    if isinstance(written, dict):
        for key in (key for key in written if key in ("tables", "exclude")):
            source.below(key).refuse(f"'default' is for every table; move {key!r} to a rule.")
        written = {**written, "tables": EVERYTHING}
    rule = Rule.from_file(written, source, only_tables=only_tables)
    rule.is_default = True
    return rule


def _load(text: str, source: PolicySource, lines: dict[Place, int]) -> Any:
    """Return the values of the text, and add the line of each by place."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        check_yaml(text)
        node = loader.get_single_node()
        return None if node is None else _value(loader, node, source, lines)
    except YamlTooLarge as error:
        found = fault(source.file, error.line, f"This file cannot be read: {error}.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"This is not valid YAML: {error.problem or error.context}."
        found = fault(source.file, mark.line + 1 if mark else 0, message)
    except yaml.YAMLError as error:
        found = fault(source.file, 0, f"This is not valid YAML: {' '.join(str(error).split())}.")
    finally:
        loader.dispose()
    source.faults.append(found)
    return None


def _value(loader: Any, node: Node, source: PolicySource, lines: dict[Place, int]) -> Any:
    import yaml

    lines.setdefault(source.part, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, each, source.below(number), lines) for number, each in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return _scalar(loader, node)
    _refuse_repeated_keys(node, source)
    loader.flatten_mapping(node)
    mapping = {}
    for key_node, value_node in node.value:
        key = str(_scalar(loader, key_node))
        below = source.below(key)
        lines[below.part] = key_node.start_mark.line + 1
        mapping[key] = _value(loader, value_node, below, lines)
    return mapping


def _scalar(loader: Any, node: Node) -> Any:
    import yaml

    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, OverflowError, AttributeError) as error:  # invalid times and numbers
        message = f"{str(node.value)[:60]!r} cannot be read: {error}; put it in quotes, or correct it"
        raise yaml.MarkedYAMLError(problem=message, problem_mark=node.start_mark) from error


def _refuse_repeated_keys(node: Any, source: PolicySource) -> None:
    first: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if isinstance(key.value, str) and first.setdefault(key.value, line) != line:
            message = f"The key {key.value!r} is there twice, first in line {first[key.value]}."
            source.faults.append(fault(source.file, line, message))
