"""The rules of an installation, merged for one table at a time.

Each value is decided on its own: a table property is above all rules, a more specific rule above a less specific one, and of two
rules that are equally specific for the table, the later one in the file is above the earlier one. Only ``skip`` holds wherever it
is set.

The invariant: tables with the same rules and properties share their merged values, so that a fleet costs one merge for each
combination, not for each table.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import option_readers, parse_options, usable_actions
from airflow_snowpack.maintenance.policies.definitions import DELETES_FILES, TABLE_DEFAULTS, THRESHOLDS, Given, default_value
from airflow_snowpack.maintenance.policies.errors import Fault, InvalidPolicies, PoliciesNotFound
from airflow_snowpack.maintenance.policies.model import ActionPolicy, Origin, TablePolicy, TableProblem
from airflow_snowpack.maintenance.policies.properties import FromProperties, is_relevant, read_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.policies.rule import Rule

PYTHON_NAME = "policies"
REMEMBERED = 10_000
"""Combinations of rules and properties whose merged values are kept."""


class Policies:
    """Rules in the order of their file; of two rules that are equally specific, the later one wins.

    :param rules: the default of the installation is a rule with the pattern ``**``.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._by_database: dict[str | None, list[int]] = defaultdict(list)
        for number, rule in enumerate(self.rules):
            for database in {pattern.database for pattern in rule.patterns}:
                self._by_database[database].append(number)
        self._merged: dict[tuple[tuple[int, ...], frozenset[tuple[str, str]]], dict[str, Any]] = {}

    @classmethod
    def load(cls, path: Path | str, *, only_tables: bool = False) -> Policies:
        """Read ``policies.yaml``, or the object ``policies`` of a Python file.

        :param only_tables: for DAG files, which Airflow parses again and again: read of a YAML file only which tables are
            maintained, without the values of actions, whose modules take longer to load than the file to read.
        :raises PoliciesNotFound: the file cannot be read.
        :raises InvalidPolicies: the file has problems; the message names the line of each.
        """
        path = Path(path)
        if path.suffix == ".py":
            return _load_python(path)
        from airflow_snowpack.maintenance.policies.reading import read_rules

        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PoliciesNotFound(str(path), getattr(error, "strerror", None) or str(error)) from error
        rules, faults = read_rules(text, path.name, only_tables=only_tables)
        if faults:
            raise InvalidPolicies(faults)
        return cls(rules)

    @classmethod
    def default(cls) -> Policies:
        """Return the policies of an installation without a file."""
        return cls()

    def of(self, table: TableName, properties: Mapping[str, str]) -> TablePolicy:
        """Merge rules and properties for a table; never raises: a property that cannot be used is one of its ``problems``.

        :param properties: the table's, of which ``snowpack.*`` and ``compaction_skip`` count.
        """
        rules = self.matching(table)
        own = frozenset((name, text) for name, text in properties.items() if is_relevant(name))
        key = (rules, own)
        if key not in self._merged:
            if len(self._merged) >= REMEMBERED:
                self._merged.clear()
            self._merged[key] = _merge([self.rules[number] for number in rules], own)
        return TablePolicy(table=table, **self._merged[key])

    def excludes(self, table: TableName) -> bool:
        """Whether the rules exclude the table from maintenance whatever its properties are."""
        return any("skip" in self.rules[number].values for number in self.matching(table))

    def maintains(self, table: TableName) -> bool:
        """Whether the rules alone let the table be maintained; its properties may change that in both directions."""
        enabled = True
        for number in self.matching(table):
            values = self.rules[number].values
            if "skip" in values:
                return False
            enabled = values["enabled"].value if "enabled" in values else enabled
        return enabled

    def names(self, table: TableName) -> bool:
        """Whether a rule other than the default of the file applies to the table."""
        return any(not self.rules[number].is_default for number in self.matching(table))

    def matching(self, table: TableName) -> tuple[int, ...]:
        """Return the positions of the rules that apply to a table, the most specific one last."""
        dotted = table.dotted
        found = [(self.rules[number].specificity_for(dotted), number) for number in self.candidates(table)]
        return tuple(number for specificity, number in sorted(each for each in found if each[0] is not None))

    def candidates(self, table: TableName) -> Iterable[int]:
        """Return the positions of the rules whose patterns are compared with a table's name."""
        database = table.database.partition(".")[0]
        return {*self._by_database.get(database, ()), *self._by_database.get(None, ())}


def _load_python(path: Path) -> Policies:
    from runpy import run_path

    try:
        found = run_path(str(path)).get(PYTHON_NAME)
    except InvalidPolicies:
        raise
    except OSError as error:
        raise PoliciesNotFound(str(path), error.strerror or str(error)) from error
    except Exception as error:
        raise InvalidPolicies([Fault(path.name, 0, f"The file cannot be run: {type(error).__name__}: {error}")]) from error
    if not isinstance(found, Policies):
        message = f"The file must name its policies {PYTHON_NAME!r}: {PYTHON_NAME} = Policies([Rule(…), …])."
        raise InvalidPolicies([Fault(path.name, 0, message)])
    return found


def _merge(rules: Sequence[Rule], properties: frozenset[tuple[str, str]]) -> dict[str, Any]:
    """Return the fields of a :class:`TablePolicy`, except for the table."""
    values: dict[str, Given] = {}
    for rule in rules:
        values |= rule.values
    own = read_properties(properties)
    problems = [*own.problems]
    actions, origins = {}, dict[str, Origin]()
    for action in usable_actions():
        actions[action] = _action(action, values, own, origins, problems)
    values |= own.values
    skip = own.skip or _skip(values)
    origins |= {path: given.origin for path, given in values.items()}
    if skip is not None:
        origins["skip"] = skip.origin
    table = {path: values[path].value if path in values else default for path, default in TABLE_DEFAULTS.items()}
    return {
        "actions": actions,
        "skip": None if skip is None else skip.value,
        "frozen_until": table["frozen_until"],
        "quiet": table["quiet"],
        "max_rewrite_bytes": table["max_rewrite_bytes"],
        "origins": origins | {f"{action}.enabled": origin for action, origin in own.stopped.items()},
        "problems": tuple(problems),
    }


def _skip(values: Mapping[str, Given]) -> Given | None:
    if "skip" in values:
        skip = values["skip"]
        return Given(f"{skip.value} ({skip.origin})", skip.origin)
    enabled = values.get("enabled")
    if enabled is not None and not enabled.value:
        return Given(f"maintenance is disabled ({enabled.origin})", enabled.origin)
    return None


def _action(
    action: str,
    values: Mapping[str, Given],
    own: FromProperties,
    origins: dict[str, Origin],
    problems: list[TableProblem],
) -> ActionPolicy:
    def value(path: str) -> Any:
        given = own.values.get(path) or values.get(path)
        return default_value(path) if given is None else given.value

    options, stopped_by = _options(action, values, own, problems)
    if stopped_by is not None:
        own.stopped.setdefault(action, stopped_by)
    return ActionPolicy(
        action,
        bool(value(f"{action}.enabled")) and action not in own.stopped,
        options,
        value(f"{action}.cadence"),
        value(f"{action}.deadline"),
        {name: value(f"{action}.thresholds.{name}") for name in THRESHOLDS.get(action, {})},
    )


def _options(
    action: str, values: Mapping[str, Given], own: FromProperties, problems: list[TableProblem]
) -> tuple[ActionOptions, Origin | None]:
    """Return the merged options, and why the action must not run with them: where an option that does not fit came from."""
    of_rules, of_table = _given_options(action, values), _given_options(action, own.values)
    try:
        return parse_options(action, {name: given.value for name, given in (of_rules | of_table).items()}), None
    except InvalidOption as error:
        problem = str(error)
    last = next(reversed((of_rules | of_table).values())).origin
    safe = of_table and action in THRESHOLDS and action not in DELETES_FILES
    instead = f"{action} is disabled until this is corrected."
    try:
        below = parse_options(action, {name: given.value for name, given in of_rules.items()})
        instead = "The values below it hold." if safe else instead
    except InvalidOption:
        below, safe = parse_options(action, {}), False
    problems.append(TableProblem(str(last), "", f"{problem} This comes from {last}. {instead}"))
    if safe:
        for path in [path for path in own.values if path.startswith(f"{action}.options.")]:
            del own.values[path]
    return below, None if safe else last


def _given_options(action: str, values: Mapping[str, Given]) -> dict[str, Given]:
    paths = {name: f"{action}.options.{name}" if name != "where" else f"{action}.where" for name in option_readers(action)}
    return {name: values[path] for name, path in paths.items() if path in values}
