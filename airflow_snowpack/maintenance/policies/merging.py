"""Merge the values of a table, in rising precedence: Iceberg's table properties, the rules, and ``snowpack.*`` properties.

    merged = merge_rules([wide, narrow], table_defaults({}))              # for all tables with these rules and Iceberg properties
    fields = add_properties(merged, {("snowpack.cadence", "1h")}).fields  # of a TablePolicy, for tables with these properties

The properties of a table change few values, so the other actions are taken from the merged rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import join
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import action_class, parse_options, policy_readers, usable_actions
from airflow_snowpack.maintenance.policies.definitions import DEFAULT_CADENCE, Given
from airflow_snowpack.maintenance.policies.model import DEFAULT, ActionPolicy, TableProblem, ValueOrigin
from airflow_snowpack.maintenance.policies.properties import FromProperties, read_properties
from airflow_snowpack.maintenance.table_defaults import OF_TABLE_ALONE, TableDefaults, fitting_options

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.policies.rule import Rule
    from airflow_snowpack.maintenance.table_defaults import PropertyProblem


@dataclass(slots=True)
class Merged:
    """Merged values.

    :param values: by dotted path, what is set.
    :param stopped: by action that must not run, the rule or property that cannot be used.
    :param conflicts: by action, options of several rules that cannot be combined.
    :param defaults: the settings from Iceberg's properties of the table.
    :param forbidden: by action that is otherwise enabled, why one of these forbids it.
    :param unfit: by action, the paths of values that do not fit those that override them.
    :param problems: of table properties.
    :param skip: why the properties of the table skip it.
    """

    values: dict[str, Given]
    actions: dict[str, ActionPolicy] = field(default_factory=dict)
    stopped: dict[str, ValueOrigin] = field(default_factory=dict)
    conflicts: dict[str, TableProblem] = field(default_factory=dict)
    problems: Sequence[TableProblem] = ()
    skip: Given | None = None
    defaults: TableDefaults = field(default_factory=TableDefaults)
    forbidden: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, set[str]] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a ``TablePolicy``, except for the table."""
        skip = self.skip or _skip(self.values)
        unfit = set[str]().union(*self.unfit.values())
        origins = {path: given.origin for path, given in self.values.items() if path not in unfit}
        origins |= {f"{action}.enabled": origin for action, origin in self.stopped.items()}
        origins |= {f"{action}.enabled": _origin(self.defaults.forbidden_by[action]) for action in self.forbidden}
        if skip is not None:
            origins["skip"] = skip.origin
        return {
            "actions": self.actions,
            "skip": None if skip is None else skip.value,
            **{path: self.values[path].value for path in ("frozen_until", "quiet", "max_rewrite_bytes") if path in self.values},
            "origins": origins,
            "problems": (*map(_problem, self.defaults.problems), *self.problems, *self.conflicts.values()),
            "forbidden": self.forbidden,
            "ruled": frozenset(path for path, each in self.values.items() if not each.of_iceberg and each.value is not None),
            "of_table": OF_TABLE_ALONE | {path: self.values[path].value for path in OF_TABLE_ALONE if path in self.values},
        }


def merge_rules(rules: Iterable[Rule], defaults: TableDefaults) -> Merged:
    """Merge rules in rising precedence; all override the settings from Iceberg's properties."""
    of_iceberg = {path: Given(value, _origin(name), of_iceberg=True) for path, (value, name) in defaults.values.items()}
    values: dict[str, Given] = {}
    for rule in rules:
        values |= rule.values
    # A rule's null only removes what less specific rules set.
    values |= {path: given for path, given in of_iceberg.items() if path not in values or values[path].value is None}
    merged = Merged(values, defaults=defaults)
    for action in usable_actions():
        _add_action(merged, action, values, {})
    return merged


def add_properties(below: Merged, properties: Iterable[tuple[str, str]]) -> Merged:
    """Return the values, overridden by the properties of a table."""
    own: FromProperties = read_properties(properties)
    concerned = {path.partition(".")[0] for path in own.values} | own.stopped.keys()
    merged = replace(
        below,
        actions=dict(below.actions),
        stopped=dict(below.stopped),
        conflicts=dict(below.conflicts),
        problems=own.problems,
        skip=own.skip,
        forbidden=dict(below.forbidden),
        unfit=dict(below.unfit),
    )
    for action in concerned & below.actions.keys():
        for kept in (merged.stopped, merged.conflicts, merged.forbidden, merged.unfit):
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
    """Add the policy of an action; drop options of properties (``own``) that do not fit the rules."""

    def value(key: str, default: Any) -> Any:
        given = own.get(f"{action}.{key}") or below.get(f"{action}.{key}")
        return default if given is None else given.value

    options = _options(merged, action, below, own)
    enabled = bool(value("enabled", options.enabled)) and action not in merged.stopped
    if enabled and action in merged.defaults.forbidden:
        enabled, merged.forbidden[action] = False, merged.defaults.forbidden[action]
    merged.actions[action] = ActionPolicy(
        action,
        enabled,
        options,
        value("cadence", DEFAULT_CADENCE),
        value("deadline", options.deadline),
        {name: value(f"thresholds.{name}", each.default) for name, each in options.thresholds.items()},
    )


def _options(merged: Merged, action: str, below: Mapping[str, Given], own: dict[str, Given]) -> ActionOptions:
    """Return the merged options. If they cannot be combined, record a conflict and return those of the rules.

    Then the action must not run, unless only properties are at fault and the action deletes nothing.
    """
    of_rules, of_table = _given_options(action, below), _given_options(action, own)
    defaults = {name: each.value for name, each in (of_rules | of_table).items() if each.of_iceberg}
    of_rules = {name: each for name, each in of_rules.items() if not each.of_iceberg}
    try:
        options, unfit = fitting_options(action, {name: each.value for name, each in (of_rules | of_table).items()}, defaults)
    except InvalidOption as error:
        problem = str(error)
    else:
        if unfit:
            merged.unfit[action] = {f"{action}.options.{name}" for name in unfit}
            merged.conflicts[action] = _unfit_problem(action, unfit, below)
        return options
    last = next(reversed((of_rules | of_table).values())).origin
    runs = bool(of_table) and not action_class(action).deletes_files
    try:
        options, _ = fitting_options(action, {name: given.value for name, given in of_rules.items()}, defaults)
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
    paths = {name: f"{action}.options.{name}" if name != "where" else f"{action}.where" for name in policy_readers(action)}
    return {name: values[path] for name, path in paths.items() if path in values}


def _unfit_problem(action: str, unfit: Sequence[str], values: Mapping[str, Given]) -> TableProblem:
    given = values[f"{action}.options.{unfit[0]}"]
    message = (
        f"The {given.origin} is left out: {unfit[0]} = {given.value} does not go together with the other options of {action} "
        "that rules or snowpack.* properties set. Correct one of them."
    )
    return TableProblem(str(given.origin).removeprefix("table property "), str(given.value), message)


def _problem(problem: PropertyProblem) -> TableProblem:
    reason = problem.reason[0].upper() + problem.reason[1:]
    stopped = f"{join(problem.stopped)} cannot run until it is corrected." if problem.stopped else "The value below it holds."
    return TableProblem(problem.name, problem.value, f"{reason}. {stopped}")


def _origin(name: str) -> ValueOrigin:
    return ValueOrigin(f"table property {name}") if name else DEFAULT
