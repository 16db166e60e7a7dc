"""One rule: patterns of table names, and the values that hold for the tables that they match."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.maintenance.action import action_names, is_action
from airflow_snowpack.maintenance.options import action_class, policy_readers
from airflow_snowpack.maintenance.policies.definitions import (
    ACTION_KEYS,
    EACH_ACTION,
    TABLE_KEYS,
    Given,
    Key,
    threshold,
    unknown,
)
from airflow_snowpack.maintenance.policies.errors import InvalidPolicies, PolicyFinding, fault
from airflow_snowpack.maintenance.policies.model import Origin
from airflow_snowpack.maintenance.policies.patterns import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    from airflow_snowpack.daily_window import DailyWindow

    Place = tuple[str | int, ...]


class RuleValues(TypedDict, total=False):
    """The values that a rule may set; :class:`Rule` describes them."""

    enabled: bool
    skip: str
    frozen_until: datetime | str | None
    quiet: Sequence[DailyWindow | str] | DailyWindow | str
    max_rewrite_bytes: int | str
    cadence: timedelta | str | None
    deadline: timedelta | str | None
    actions: Mapping[str, Mapping[str, Any]]


NAMES = ("tables", "exclude")
MAINTAINED = ("enabled", "skip")
KEYS = (*NAMES, *TABLE_KEYS, *EACH_ACTION, "actions")
OF_ACTION = (*ACTION_KEYS, "thresholds", "options")


class Rule:
    """Values for the tables that a pattern matches. What it does not set is left to less specific rules.

    ``None`` for ``frozen_until``, ``cadence`` or ``deadline`` removes what less specific rules set.

    :param tables: one pattern or several, such as ``analytics.*``; ``*`` matches within a level, ``**`` any number of levels.
    :param exclude: patterns of tables that the rule leaves alone.
    :param enabled: whether the tables are maintained; a table property or a more specific rule can change it.
    :param skip: why the tables are never maintained; no other rule and no property can change it.
    :param frozen_until: no maintenance starts before this moment (aware, or ISO 8601 with an offset).
    :param quiet: windows, or texts such as ``"08:00-20:00 Europe/Berlin"``, in which no maintenance starts.
    :param max_rewrite_bytes: one plan rewrites at most so much; a number of bytes, or text such as ``"10 GiB"``.
    :param cadence: each action runs at most this often, such as ``"6h"``.
    :param deadline: each action runs at least this often while it has something to do.
    :param actions: by name of the action: ``enabled``, ``cadence``, ``deadline``, ``where``, ``thresholds`` and ``options``;
        ``None`` for one of them removes what less specific rules set.
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
        line = caller.f_lineno
        written = {"tables": tables, "exclude": exclude, **values}
        faults = self._read(written, Path(caller.f_code.co_filename).name, lambda _: line)
        if faults:
            raise InvalidPolicies(faults)

    @classmethod
    def from_file(
        cls,
        written: object,
        file: str,
        line_of: Callable[[Place], int],
        faults: list[PolicyFinding],
        *,
        only_tables: bool = False,
    ) -> Rule | None:
        """Read a rule as a file has it.

        :param file: its name, without folders.
        :param line_of: returns the line of a part of the rule.
        :param faults: receives what cannot be used.
        :param only_tables: read only which tables are maintained.
        :returns: ``None`` when something cannot be used.
        """
        rule = cls.__new__(cls)
        found = rule._read(written, file, line_of, only_tables=only_tables)
        faults += found
        return None if found else rule

    is_default = False
    """Whether it is the ``default`` of a file, which is for every table."""

    @property
    def name(self) -> str:
        """The patterns, as they are written."""
        return ", ".join(pattern.text for pattern in self.patterns)

    @property
    def line(self) -> int:
        """The line at which the rule begins."""
        return self._origin.line

    @property
    def file(self) -> str:
        """The name of the file with the rule."""
        return self._origin.file

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def _read(
        self, written: object, file: str, line_of: Callable[[Place], int], *, only_tables: bool = False
    ) -> list[PolicyFinding]:
        self._line_of, self._faults, self._flat = line_of, list[PolicyFinding](), dict[str, Given]()
        self._origin = Origin("rule", file, line_of(()))
        self.patterns: tuple[Pattern, ...] = ()
        self.exclude: tuple[Pattern, ...] = ()
        if not isinstance(written, Mapping):
            self._fault((), f"A rule must be a mapping with the key 'tables', not {written!r:.60}.")
        else:
            self._read_tables(written)
            if not only_tables:
                self._read_values(written)
        self.values: Mapping[str, Given] = self._flat
        faults = self._faults
        del self._line_of, self._faults, self._flat
        return faults

    def _read_tables(self, written: Mapping[str, Any]) -> None:
        self.patterns = self._patterns(written, "tables")
        self.exclude = self._patterns(written, "exclude")
        self._origin = Origin(f"rule {self.name!r}", self._origin.file, self._origin.line)
        for key in written:
            if key not in KEYS:
                self._fault((key,), unknown("The key", str(key), KEYS))
        for key in MAINTAINED:
            self._set(key, TABLE_KEYS[key], written, (key,))

    def _read_values(self, written: Mapping[str, Any]) -> None:
        for key, of_table in TABLE_KEYS.items():
            if key not in MAINTAINED:
                self._set(key, of_table, written, (key,))
        actions = written.get("actions", {})
        if not isinstance(actions, Mapping):
            self._fault(("actions",), f"'actions' must be a mapping of names of actions, not {actions!r:.60}.")
            return
        for key, of_each in EACH_ACTION.items():
            self._set(key, of_each, written, (key,))
            if (for_all := self._flat.pop(key, None)) is not None:
                self._flat |= {f"{action}.{key}": for_all for action in action_names()}
        for action, values in actions.items():
            self._read_action(str(action), values)

    def _read_action(self, action: str, written: object) -> None:
        place: Place = ("actions", action)
        if not is_action(action):
            self._fault(place, unknown("The action", action, action_names()))
            return
        if not isinstance(written, Mapping):
            self._fault(place, f"{action!r} must be a mapping, not {written!r:.60}; to run it, write 'enabled: true'.")
            return
        for key in written:
            if key not in OF_ACTION:
                self._fault((*place, key), unknown(f"The key of {action}", str(key), OF_ACTION))
        for key, of_action in ACTION_KEYS.items():
            self._set(f"{action}.{key}", of_action, written, (*place, key))
        try:
            numbers = {name: Key(threshold, "") for name in action_class(action).thresholds}
            options = {name: Key(read, "", nullable=True) for name, read in policy_readers(action).items()}
        except SnowpackError as error:
            self._fault(place, str(error))
            return
        self._read_section(action, "thresholds", numbers, written)
        if options.pop("where", None) is None and f"{action}.where" in self._flat:
            self._fault((*place, "where"), f"{action} takes no 'where'.")
        self._read_section(action, "options", options, written)

    def _read_section(self, action: str, section: str, keys: Mapping[str, Key], written: Mapping[str, Any]) -> None:
        place: Place = ("actions", action, section)
        values = written.get(section, {})
        if not isinstance(values, Mapping):
            self._fault(place, f"{section!r} of {action} must be a mapping, not {values!r:.60}.")
            return
        for name in values:
            if name not in keys:
                hint = "; write it beside 'options'" if name == "where" and section == "options" else ""
                what = f"The {section.removesuffix('s')} of {action}"
                self._fault((*place, name), f"'where' is not an option{hint}." if hint else unknown(what, str(name), keys))
            else:
                self._set(f"{action}.{section}.{name}", keys[name], values, (*place, name))

    def _set(self, path: str, key: Key, written: Mapping[str, Any], place: Place) -> None:
        name = str(place[-1])
        if name not in written:
            return
        value = written[name]
        if value is None and not key.nullable:
            self._fault(place, f"{path!r} must have a value, not null.")
            return
        try:
            read = None if value is None else key.read(value)
        except ValueError as error:
            self._fault(place, f"{path!r} {error}.")
            return
        # Options stay as they are written: the action reads them again, together with those of other rules.
        kept = value if ".options." in path else read
        self._flat[path] = Given(kept, Origin(self._origin.source, self._origin.file, self._line_of(place)))

    def _patterns(self, written: Mapping[str, Any], key: str) -> tuple[Pattern, ...]:
        given = written.get(key, ())
        texts: Iterable[object] = given if isinstance(given, list | tuple) else [given]
        patterns = []
        for number, text in enumerate(texts):
            try:
                patterns.append(Pattern.parse(text))
            except ValueError as error:
                self._fault((key, number), f"{key!r} {error}.")
        if key == "tables" and not given:
            self._fault((), "A rule needs the key 'tables' with a pattern of table names such as 'analytics.*'.")
        return tuple(patterns)

    def _fault(self, place: Place, message: str) -> None:
        self._faults.append(fault(self._origin.file, self._line_of(place), message))
