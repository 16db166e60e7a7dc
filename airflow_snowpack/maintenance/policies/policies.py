"""The rules of an installation, merged for one table at a time.

Each value is decided separately, in rising precedence: the table's Iceberg properties, rules by specificity, and its
``snowpack.*`` properties. Of equally specific rules, the later one in the file wins. Only ``skip`` applies wherever it is set.

The invariant: tables with the same rules and properties share merged values, so a fleet needs one merge per combination, not per
table.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.policies.errors import InvalidPolicies, PoliciesNotFound, fault
from airflow_snowpack.maintenance.policies.merging import merge
from airflow_snowpack.maintenance.policies.properties import is_relevant
from airflow_snowpack.maintenance.table_defaults import relevant, table_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.policies.model import TablePolicy
    from airflow_snowpack.maintenance.policies.rule import Rule

    _Properties = frozenset[tuple[str, str]]
    _Entry = tuple[Callable[[str], object], tuple[int, int, int], int]

DEFAULT_NAME, PYTHON_NAME = "policies.yaml", "policies"
LEAST_SPECIFIC = (-1, 0, 0)
REMEMBERED = 10_000
"""How many merged combinations of rules and properties are cached."""


class Policies:
    """Rules in the order of their file; of equally specific rules, the later one wins.

    :param rules: the default of the installation is a rule with the pattern ``**``.
    """

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._by_database: dict[str | None, list[_Entry]] = defaultdict(list)
        for number, rule in enumerate(self.rules):
            for pattern in rule.patterns:
                self._by_database[pattern.database].append((pattern.matches, pattern.specificity, number))
        self._merged: dict[tuple[tuple[int, ...], _Properties, _Properties], TablePolicy] = {}

    @classmethod
    def load(cls, path: Path | str, *, only_tables: bool = False) -> Policies:
        """Read ``policies.yaml``, or the object ``policies`` of a Python file.

        :param only_tables: for DAG files, which Airflow parses often: read from a YAML file only which tables are maintained,
            without action values, whose modules take longer to load than the file.
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
        return cls(read_rules(text, path.name, only_tables=only_tables))

    def of(self, table: TableName, properties: Mapping[str, str]) -> TablePolicy:
        """Merge rules and properties for a table. Never raises: unusable properties become ``problems``.

        :param properties: as :func:`.owner_properties` or the table's health has them; only those about maintenance count.
        """
        rules = self.matching(table)
        own = frozenset((name, text) for name, text in properties.items() if is_relevant(name))
        key = rules, relevant(properties), own
        if key not in self._merged:
            if len(self._merged) >= REMEMBERED:
                self._merged.clear()
            self._merged[key] = merge(table, [self.rules[number] for number in rules], table_defaults(properties), own)
        return replace(self._merged[key], table=table)

    def excludes(self, table: TableName) -> bool:
        """Return whether the rules exclude the table from maintenance, whatever its properties are."""
        return any("skip" in self.rules[number].values for number in self.matching(table))

    def maintains(self, table: TableName) -> bool:
        """Return whether the rules alone have the table maintained; its properties may override them."""
        enabled = True
        for number in self.matching(table):
            values = self.rules[number].values
            if "skip" in values:
                return False
            enabled = values["enabled"].value if "enabled" in values else enabled
        return enabled

    def names(self, table: TableName) -> bool:
        """Return whether a rule other than the file's default applies to the table."""
        return any(not self.rules[number].is_default for number in self.matching(table))

    def matching(self, table: TableName) -> tuple[int, ...]:
        """Return the positions of the rules that apply to a table, most specific last."""
        dotted, best = table.dotted, dict[int, tuple[int, int, int]]()
        for matches, specificity, number in self.candidates(table):
            if matches(dotted) and specificity > best.get(number, LEAST_SPECIFIC):
                best[number] = specificity
        applying = (number for number in best if not any(each.matches(dotted) for each in self.rules[number].exclude))
        return tuple(sorted(applying, key=lambda number: (best[number], number)))

    def candidates(self, table: TableName) -> Sequence[_Entry]:
        """Return the patterns to compare a table's name with, each with its specificity and its rule's position."""
        database = table.database.partition(".")[0]
        return [*self._by_database.get(database, ()), *self._by_database.get(None, ())]


class PoliciesFile:
    """A file with :class:`Policies`, which a long-running process keeps and reloads after each change.

    :param path: a YAML or Python file.
    :param required: whether a missing file is an error; otherwise the defaults apply.
    """

    def __init__(self, path: Path, *, required: bool = True) -> None:
        self.path = path
        self._required = required
        self._read: tuple[tuple[int, int, int], Policies] | None = None

    @classmethod
    def of_setting(cls, text: str, root: Path) -> PoliciesFile:
        """Return the file that ``[snowpack] policies`` names, relative to ``root``; only the default file may be missing."""
        return cls(root / Path(text).expanduser(), required=text != DEFAULT_NAME)

    def policies(self) -> Policies:
        """Return the current policies of the file.

        :raises PoliciesNotFound: the file is required, and cannot be read.
        :raises InvalidPolicies: the file has problems.
        """
        version = self._version()
        if version is None:
            return Policies()
        if self._read is None or self._read[0] != version:
            self._read = version, Policies.load(self.path)
        return self._read[1]

    def _version(self) -> tuple[int, int, int] | None:
        """Return a version that changes with the content; ``None`` for an optional file that is missing."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0) if self._required else None
        except OSError:
            return 0, 0, 0  # the read reports the error
        return found.st_mtime_ns, found.st_size, found.st_ino


def _load_python(path: Path) -> Policies:
    from runpy import run_path

    try:
        found = run_path(str(path)).get(PYTHON_NAME)
    except InvalidPolicies:
        raise
    except OSError as error:
        raise PoliciesNotFound(str(path), error.strerror or str(error)) from error
    except Exception as error:
        raise InvalidPolicies([fault(path.name, 0, f"The file cannot be run: {type(error).__name__}: {error}")]) from error
    if not isinstance(found, Policies):
        message = f"The file must name its policies {PYTHON_NAME!r}: {PYTHON_NAME} = Policies([Rule(…), …])."
        raise InvalidPolicies([fault(path.name, 0, message)])
    return found
