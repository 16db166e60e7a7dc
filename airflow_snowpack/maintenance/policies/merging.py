"""Merge the values of a table, in rising precedence: Iceberg's table properties, the rules, and ``snowpack.*`` properties.

policy = merge(table, [wide, narrow], table_defaults(properties), {("snowpack.cadence", "1h")})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import action_class, parse_options, policy_readers, usable_actions
from airflow_snowpack.maintenance.policies.definitions import DEFAULT_CADENCE, Given
from airflow_snowpack.maintenance.policies.model import DEFAULT, ActionPolicy, TablePolicy, TableProblem, ValueOrigin
from airflow_snowpack.maintenance.policies.properties import FromProperties, read_properties
from airflow_snowpack.maintenance.table_defaults import OF_TABLE_ALONE, TableDefaults, fitting_options

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.policies.rule import Rule


def merge(table: TableName, rules: Iterable[Rule], defaults: TableDefaults, properties: Iterable[tuple[str, str]]) -> TablePolicy:
    """Return the policy of a table.

    :param rules: in rising precedence.
    :param properties: the properties that :func:`.is_relevant` selects.
    """
    below: dict[str, Given] = {}
    for rule in rules:
        below |= rule.values
    for path, (value, name) in defaults.values.items():
        if path not in below or below[path].value is None:  # a rule's null only removes what less specific rules set
            below[path] = Given(value, _origin(name), of_iceberg=True)
    return _Merge(below, read_properties(properties), defaults).policy(table)


@dataclass(slots=True)
class _Merge:
    """A merge of the values for one table.

    :param below: what rules and Iceberg's properties set, by dotted path.
    :param own: what ``snowpack.*`` properties set, without options that do not fit the rules.
    :param conflicts: options that cannot be combined.
    :param forbidden: by action that is otherwise enabled, why one of Iceberg's properties forbids it.
    :param unfit: the paths of values that do not fit those that override them.
    """

    below: dict[str, Given]
    own: FromProperties
    defaults: TableDefaults
    conflicts: list[TableProblem] = field(default_factory=list)
    forbidden: dict[str, str] = field(default_factory=dict)
    unfit: set[str] = field(default_factory=set)

    def policy(self, table: TableName) -> TablePolicy:
        actions = {action: self._action(action) for action in usable_actions()}
        values = self.below | self.own.values
        skip = self.own.skip or _skip(values)
        origins = {path: given.origin for path, given in values.items() if path not in self.unfit}
        origins |= {f"{action}.enabled": origin for action, origin in self.own.stopped.items()}
        origins |= {f"{action}.enabled": _origin(self.defaults.forbidden_by[action]) for action in self.forbidden}
        if skip is not None:
            origins["skip"] = skip.origin
        return TablePolicy(
            table,
            actions,
            None if skip is None else skip.value,
            **{path: values[path].value for path in ("frozen_until", "quiet", "max_rewrite_bytes", "owner") if path in values},
            origins=origins,
            problems=(*self.defaults.problems, *self.own.problems, *self.conflicts),
            forbidden=self.forbidden,
            ruled=frozenset(path for path, each in values.items() if not each.of_iceberg and each.value is not None),
            of_table=OF_TABLE_ALONE | {path: values[path].value for path in OF_TABLE_ALONE if path in values},
        )

    def _action(self, action: str) -> ActionPolicy:
        options = self._options(action)
        enabled = bool(self._value(f"{action}.enabled", options.enabled)) and action not in self.own.stopped
        if enabled and action in self.defaults.forbidden:
            enabled, self.forbidden[action] = False, self.defaults.forbidden[action]
        return ActionPolicy(
            action,
            enabled,
            options,
            self._value(f"{action}.cadence", DEFAULT_CADENCE),
            self._value(f"{action}.deadline", options.deadline),
            {name: self._value(f"{action}.thresholds.{name}", each.default) for name, each in options.thresholds.items()},
        )

    def _value(self, path: str, default: Any) -> Any:
        given = self.own.values.get(path) or self.below.get(path)
        return default if given is None else given.value

    def _options(self, action: str) -> ActionOptions:
        """Return the merged options. If they cannot be combined, record a conflict and return those of the rules.

        Then the action must not run, unless only properties are at fault and the action deletes nothing.
        """
        of_rules, of_table = _given_options(action, self.below), _given_options(action, self.own.values)
        defaults = self.defaults.options(action)
        try:
            options, unfit = fitting_options(action, {name: each.value for name, each in (of_rules | of_table).items()}, defaults)
        except InvalidOption as error:
            problem = str(error)
        else:
            if unfit:
                self.unfit |= {f"{action}.options.{name}" for name in unfit}
                self.conflicts.append(_unfit_problem(action, unfit, self.below))
            return options
        last = next(reversed((of_rules | of_table).values())).origin
        runs = bool(of_table) and not action_class(action).deletes_files
        try:
            options, _ = fitting_options(action, {name: given.value for name, given in of_rules.items()}, defaults)
        except InvalidOption:
            options, runs = parse_options(action, {}), False
        if runs:
            for path in [path for path in self.own.values if path.startswith(f"{action}.options.")]:
                del self.own.values[path]
        else:
            self.own.stopped.setdefault(action, last)
        instead = "The values below it hold." if runs else f"{action} is disabled until this is corrected."
        self.conflicts.append(TableProblem(str(last), "", f"{problem} This comes from {last}. {instead}"))
        return options


def _skip(values: Mapping[str, Given]) -> Given | None:
    if "skip" in values:
        skip = values["skip"]
        return Given(f"{skip.value} ({skip.origin})", skip.origin)
    enabled = values.get("enabled")
    if enabled is not None and not enabled.value:
        return Given(f"maintenance is disabled ({enabled.origin})", enabled.origin)
    return None


def _given_options(action: str, values: Mapping[str, Given]) -> dict[str, Given]:
    """Return the options that rules or ``snowpack.*`` properties set."""
    paths = {name: f"{action}.options.{name}" if name != "where" else f"{action}.where" for name in policy_readers(action)}
    return {name: values[path] for name, path in paths.items() if path in values and not values[path].of_iceberg}


def _unfit_problem(action: str, unfit: Sequence[str], values: Mapping[str, Given]) -> TableProblem:
    given = values[f"{action}.options.{unfit[0]}"]
    message = (
        f"The {given.origin} is left out: {unfit[0]} = {given.value} does not go together with the other options of {action} "
        "that rules or snowpack.* properties set. Correct one of them."
    )
    return TableProblem(str(given.origin).removeprefix("table property "), str(given.value), message)


def _origin(name: str) -> ValueOrigin:
    return ValueOrigin(f"table property {name}") if name else DEFAULT
