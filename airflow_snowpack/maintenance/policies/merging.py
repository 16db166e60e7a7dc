"""Merges the rules of a table, and then its properties, into the values that hold.

    merged = merge_rules([wide, narrow])                                  # for all tables with these rules
    fields = add_properties(merged, {("snowpack.cadence", "1h")}).fields  # of a TablePolicy, for tables with these properties

The properties of a table change few values, so an action that they do not concern is taken from the merged rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import option_readers, parse_options, usable_actions
from airflow_snowpack.maintenance.policies.definitions import DEFAULT_CADENCE, DELETES_FILES, ORPHANS_DEADLINE, THRESHOLDS, Given
from airflow_snowpack.maintenance.policies.model import ActionPolicy, Origin, TableProblem
from airflow_snowpack.maintenance.policies.properties import FromProperties, read_properties

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.policies.rule import Rule


@dataclass(slots=True)
class Merged:
    """Merged values.

    :param values: by dotted path, what is set.
    :param stopped: by action that must not run, the rule or property that cannot be used.
    :param conflicts: by action, options of several rules that do not go together.
    :param problems: of table properties.
    :param skip: why the properties of the table skip it.
    """

    values: dict[str, Given]
    actions: dict[str, ActionPolicy] = field(default_factory=dict)
    stopped: dict[str, Origin] = field(default_factory=dict)
    conflicts: dict[str, TableProblem] = field(default_factory=dict)
    problems: Sequence[TableProblem] = ()
    skip: Given | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a ``TablePolicy``, except for the table."""
        skip = self.skip or _skip(self.values)
        origins = {path: given.origin for path, given in self.values.items()}
        origins |= {f"{action}.enabled": origin for action, origin in self.stopped.items()}
        if skip is not None:
            origins["skip"] = skip.origin
        return {
            "actions": self.actions,
            "skip": None if skip is None else skip.value,
            **{path: self.values[path].value for path in ("frozen_until", "quiet", "max_rewrite_bytes") if path in self.values},
            "origins": origins,
            "problems": (*self.problems, *self.conflicts.values()),
        }


def merge_rules(rules: Iterable[Rule]) -> Merged:
    """Merge rules, of which each is above those before it."""
    values: dict[str, Given] = {}
    for rule in rules:
        values |= rule.values
    merged = Merged(values)
    for action in usable_actions():
        _add_action(merged, action, values, {})
    return merged


def add_properties(below: Merged, properties: Iterable[tuple[str, str]]) -> Merged:
    """Return the values with the properties of a table above those of its rules."""
    own: FromProperties = read_properties(properties)
    concerned = {path.partition(".")[0] for path in own.values} | own.stopped.keys()
    merged = Merged({}, dict(below.actions), dict(below.stopped), dict(below.conflicts), own.problems, own.skip)
    for action in concerned & below.actions.keys():
        for kept in (merged.stopped, merged.conflicts):
            kept.pop(action, None)
        if action in own.stopped:
            merged.stopped[action] = own.stopped[action]
        _add_action(merged, action, below.values, own.values)
    merged.values = below.values | own.values
    return merged


def _skip(values: Mapping[str, Given]) -> Given | None:
    if "skip" in values:
        skip = values["skip"]
        return Given(f"{skip.value} ({skip.origin})", skip.origin)
    enabled = values.get("enabled")
    if enabled is not None and not enabled.value:
        return Given(f"maintenance is disabled ({enabled.origin})", enabled.origin)
    return None


def _add_action(merged: Merged, action: str, below: Mapping[str, Given], own: dict[str, Given]) -> None:
    """Add the policy of an action.

    :param own: what properties set; those whose options do not fit the rules are removed.
    """

    def value(key: str, default: Any) -> Any:
        given = own.get(f"{action}.{key}") or below.get(f"{action}.{key}")
        return default if given is None else given.value

    options, of_orphans = _options(merged, action, below, own), action == Action.REMOVE_ORPHAN_FILES
    # Metadata does not show orphan files, nor what an action of another package is for.
    enabled = value("enabled", action in THRESHOLDS and not of_orphans)
    merged.actions[action] = ActionPolicy(
        action,
        bool(enabled) and action not in merged.stopped,
        options,
        value("cadence", DEFAULT_CADENCE),
        value("deadline", ORPHANS_DEADLINE if of_orphans else None),
        {name: value(f"thresholds.{name}", each.default) for name, each in THRESHOLDS.get(action, {}).items()},
    )


def _options(merged: Merged, action: str, below: Mapping[str, Given], own: dict[str, Given]) -> ActionOptions:
    """Return the merged options. Options that do not go together are a conflict, and the options of the rules hold.

    Then the action must not run, unless only properties are at fault and the action deletes nothing.
    """
    of_rules, of_table = _given_options(action, below), _given_options(action, own)
    try:
        return parse_options(action, {name: given.value for name, given in (of_rules | of_table).items()})
    except InvalidOption as error:
        problem = str(error)
    last = next(reversed((of_rules | of_table).values())).origin
    runs = bool(of_table) and action in THRESHOLDS and action not in DELETES_FILES
    try:
        options = parse_options(action, {name: given.value for name, given in of_rules.items()})
    except InvalidOption:
        options, runs = parse_options(action, {}), False
    if runs:
        for path in [path for path in own if path.startswith(f"{action}.options.")]:
            del own[path]
    else:
        merged.stopped.setdefault(action, last)
    instead = "The values below it hold." if runs else f"{action} is disabled until this is corrected."
    merged.conflicts[action] = TableProblem(str(last), "", f"{problem} This comes from {last}. {instead}")
    return options


def _given_options(action: str, values: Mapping[str, Given]) -> dict[str, Given]:
    paths = {name: f"{action}.options.{name}" if name != "where" else f"{action}.where" for name in option_readers(action)}
    return {name: values[path] for name, path in paths.items() if path in values}
