"""One rule: patterns of table names, and the values for the tables that they match."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_snowpack.maintenance.action import action_names, is_action
from airflow_snowpack.maintenance.errors import UnusableAction
from airflow_snowpack.maintenance.policies.definitions import (
    EACH_ACTION,
    TABLE_KEYS,
    Given,
    Key,
    Section,
    section_of,
    unknown,
)
from airflow_snowpack.maintenance.policies.errors import InvalidPolicies, PolicySource
from airflow_snowpack.maintenance.policies.model import ValueOrigin
from airflow_snowpack.maintenance.policies.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    from airflow_snowpack.daily_window import DailyWindow


class RuleValues(TypedDict, total=False):
    """The values that a rule may set; see :class:`Rule`."""

    enabled: bool
    skip: str
    frozen_until: datetime | str | None
    quiet: Sequence[DailyWindow | str] | DailyWindow | str
    max_rewrite_bytes: int | str
    owner: str
    cadence: timedelta | str | None
    deadline: timedelta | str | None
    actions: Mapping[str, Mapping[str, Any]]


MAINTAINED = ("enabled", "skip")
VALUES = TABLE_KEYS | EACH_ACTION
KEYS = ("tables", "exclude", *VALUES, "actions")


class Rule:
    """Values for the tables that a pattern matches; less specific rules set the others.

    ``None`` for ``frozen_until``, ``cadence`` or ``deadline`` removes what less specific rules set.

    :param tables: one pattern or several, such as ``analytics.*``; ``*`` matches within a level, ``**`` any number of levels.
    :param exclude: patterns of tables to which the rule does not apply.
    :param enabled: whether the tables are maintained; a table property or a more specific rule may override it.
    :param skip: why the tables are never maintained; nothing overrides it.
    :param frozen_until: no maintenance starts before this time (aware, or ISO 8601 with an offset).
    :param quiet: windows, or texts such as ``"08:00-20:00 Europe/Berlin"``, in which no maintenance starts.
    :param max_rewrite_bytes: the limit of one plan; a number of bytes, or text such as ``"10 GiB"``.
    :param owner: who receives the notifications about the tables.
    :param cadence: each action runs at most this often, such as ``"6h"``.
    :param deadline: each action runs at least this often while it has something to do.
    :param actions: by action, ``enabled``, ``cadence``, ``deadline``, ``where``, ``thresholds`` and ``options``; ``None`` for one
        of them removes what less specific rules set.
    :raises InvalidPolicies: a value cannot be used.
    """

    def __init__(
        self,
        tables: str | Sequence[str],
        *,
        exclude: str | Sequence[str] = (),
        **values: Unpack[RuleValues],
    ) -> None:
        caller = sys._getframe(1)
        source = PolicySource(Path(caller.f_code.co_filename).name, {(): caller.f_lineno})
        self._read({"tables": tables, "exclude": exclude, **values}, source)
        if source.faults:
            raise InvalidPolicies(source.faults)

    @classmethod
    def from_file(cls, written: object, source: PolicySource, *, only_tables: bool = False) -> Rule:
        """Read a rule from a file; it is usable if its source has no faults then. ``only_tables`` skips the values of actions."""
        rule = cls.__new__(cls)
        rule._read(written, source, only_tables=only_tables)
        return rule

    is_default = False
    """Whether it is the file's ``default``, which applies to every table."""

    @property
    def name(self) -> str:
        """The patterns as written."""
        return ", ".join(pattern.text for pattern in self.patterns)

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def _read(self, written: object, source: PolicySource, *, only_tables: bool = False) -> None:
        self.patterns: tuple[Pattern, ...] = ()
        self.exclude: tuple[Pattern, ...] = ()
        self.values: Mapping[str, Given] = {}
        self.file, self.line = source.file, source.line
        if not isinstance(written, Mapping):
            source.refuse(f"A rule must be a mapping with the key 'tables', not {written!r:.60}.")
            return
        self.patterns = _patterns(written.get("tables", ()), source.below("tables"))
        self.exclude = _patterns(written.get("exclude", ()), source.below("exclude"))
        if not written.get("tables"):
            source.refuse("A rule needs the key 'tables' with a pattern of table names such as 'analytics.*'.")
        reader = _Reader(f"rule {self.name!r}")
        for key, value in written.items():
            below = source.below(key)
            if key not in KEYS:
                below.refuse(unknown("The key", str(key), KEYS))
            elif only_tables and key not in MAINTAINED:
                continue
            elif key in VALUES:
                reader.read_value(key, VALUES[key], value, below)
            elif key == "actions":
                reader.read_actions(value, below)
        for key in (key for key in EACH_ACTION if key in reader.values):
            for_all = reader.values.pop(key)
            reader.values = {f"{action}.{key}": for_all for action in action_names()} | reader.values
        self.values = reader.values


class _Reader:
    """Reads the values of a rule by dotted path."""

    def __init__(self, origin: str) -> None:
        self.values: dict[str, Given] = {}
        self._origin = origin

    def read_actions(self, written: object, source: PolicySource) -> None:
        if not isinstance(written, Mapping):
            source.refuse(f"'actions' must be a mapping of names of actions, not {written!r:.60}.")
            return
        for name, values in written.items():
            action, below = str(name), source.below(name)
            if not is_action(action):
                below.refuse(unknown("The action", action, action_names()))
                continue
            try:
                section = section_of(action)
            except UnusableAction as error:
                below.refuse(str(error))
                continue
            self._read_section(action, section, values, below)

    def _read_section(self, path: str, section: Section, written: object, source: PolicySource) -> None:
        if not isinstance(written, Mapping):
            hint = "" if "." in path else "; to run it, write 'enabled: true'"
            source.refuse(f"{path!r} must be a mapping, not {written!r:.60}{hint}.")
            return
        action, _, part = path.partition(".")
        for name, value in written.items():
            key, below = section.keys.get(name), source.below(name)
            if isinstance(key, Section):
                self._read_section(f"{path}.{name}", key, value, below)
            elif key is not None:
                self.read_value(f"{path}.{name}", key, value, below)
            elif name == "where" and part == "options":
                below.refuse("'where' is not an option; write it beside 'options'.")
            elif name == "where" and not part:
                below.refuse(f"{action} takes no 'where'.")
            else:
                below.refuse(unknown(f"The {part.removesuffix('s') or 'key'} of {action}", str(name), section.keys))

    def read_value(self, path: str, key: Key, value: object, source: PolicySource) -> None:
        if value is None and not key.nullable:
            source.refuse(f"{path!r} must have a value, not null.")
            return
        try:
            read = None if value is None else key.read(value)
        except ValueError as error:
            source.refuse(f"{path!r} {error}.")
            return
        # Keep options as written: the action parses them together with those of other rules.
        kept = value if ".options." in path else read
        self.values[path] = Given(kept, ValueOrigin(self._origin, source.file, source.line))


def _patterns(written: Any, source: PolicySource) -> tuple[Pattern, ...]:
    patterns = []
    for number, text in enumerate(written if isinstance(written, list | tuple) else [written]):
        try:
            patterns.append(Pattern.parse(text))
        except ValueError as error:
            source.below(number).refuse(f"{source.part[-1]!r} {error}.")
    return tuple(patterns)
