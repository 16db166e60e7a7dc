"""What a table's properties set: the published names, and ``snowpack.`` with the dotted path of any value.

    snowpack.max_snapshot_age_days = 30
    snowpack.rewrite_data_files.deadline = 2d
    compaction_skip = true

An unusable property never fails a fleet, and it fails safe: one that can exclude the table from maintenance excludes it; one that
limits an action, or sets an option of an action that deletes files, disables that action; any other is ignored. A misspelled name
counts as the nearest known name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.table_properties import INTERIM, STORE, TIME_ZONES
from airflow_snowpack.maintenance.action import Action, action_names
from airflow_snowpack.maintenance.options import action_class, policy_readers, usable_actions
from airflow_snowpack.maintenance.policies.definitions import (
    EACH_ACTION,
    STOPS_MAINTENANCE,
    TABLE_KEYS,
    Given,
    nearest,
    section_of,
    threshold,
)
from airflow_snowpack.maintenance.policies.model import TableProblem, ValueOrigin
from airflow_snowpack.maintenance.readers import flag, whole_number

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.readers import Reader

PREFIX = "snowpack."
HARD_SKIP = "compaction_skip"
SKIPS = {HARD_SKIP: f"table property {HARD_SKIP} is true", INTERIM: "it is an interim table, which the collector drops"}
"""The properties that exclude the table from maintenance when they are true, and why."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property.

    :param paths: the values that it sets.
    :param read: converts its text to the value.
    """

    paths: tuple[str, ...]
    read: Reader

    @property
    def stops_maintenance(self) -> bool:
        """Whether it can exclude the table from maintenance."""
        return self.paths[0] in STOPS_MAINTENANCE

    def stopped_actions(self) -> set[str]:
        """Return the actions that must not run while it cannot be used."""
        stopped = set()
        for path in self.paths:
            action, _, key = path.partition(".")
            if key in ("enabled", "where") or (key.startswith("options.") and action_class(action).deletes_files):
                stopped.add(action)
        return stopped


@dataclass(slots=True)
class FromProperties:
    """What the properties of a table set.

    :param skip: why they skip the table; ``None`` if they do not.
    :param stopped: by action, the property that cannot be used.
    """

    values: dict[str, Given] = field(default_factory=dict)
    problems: list[TableProblem] = field(default_factory=list)
    skip: Given | None = None
    stopped: dict[str, ValueOrigin] = field(default_factory=dict)


def is_relevant(name: str) -> bool:
    """Return whether a table property is about maintenance."""
    return (name.startswith(PREFIX) and name not in (STORE, TIME_ZONES)) or name == HARD_SKIP


def _times(unit: timedelta, at_most: int) -> Reader:
    read = whole_number(at_least=1, at_most=at_most)

    def period(value: object) -> timedelta:
        return int(read(value)) * unit

    return period


@cache
def known_properties() -> Mapping[str, Property]:
    """Return all properties by their full name."""
    rewrites = (Action.REWRITE_DATA_FILES, Action.REWRITE_POSITION_DELETE_FILES)
    data = policy_readers(Action.REWRITE_DATA_FILES)

    def of_data(option: str) -> Property:
        return Property((f"{Action.REWRITE_DATA_FILES}.options.{option}",), data[option])

    published = {
        "maintenance_enabled": Property(("enabled",), flag),
        "maintenance_cadence_hours": Property(
            tuple(f"{action}.cadence" for action in action_names()), _times(timedelta(hours=1), 24 * 3650)
        ),
        "target_file_size_bytes": of_data("target_file_size_bytes"),
        "max_snapshot_age_days": Property((f"{Action.EXPIRE_SNAPSHOTS}.options.max_age",), _times(timedelta(days=1), 36_500)),
        "min_input_files": of_data("min_input_files"),
        "delete_file_threshold": Property((f"{Action.REWRITE_POSITION_DELETE_FILES}.thresholds.delete_files",), threshold),
        "partial_progress_max_commits": Property(
            tuple(f"{action}.options.partial_progress_max_commits" for action in rewrites), data["partial_progress_max_commits"]
        ),
        "rewrite_data_delete_file_threshold": of_data("delete_file_threshold"),
        "rewrite_data_delete_ratio_threshold": of_data("delete_ratio_threshold"),
        "rewrite_data_rewrite_all": of_data("rewrite_all"),
    }
    keys = [*TABLE_KEYS.items(), *(leaf for action in usable_actions() for leaf in section_of(action).leaves(action))]
    paths = {path: Property((path,), key.read) for path, key in keys}
    for name, of_each in EACH_ACTION.items():
        paths[name] = Property(tuple(f"{action}.{name}" for action in action_names()), of_each.read)
    named = {f"{PREFIX}{name}": found for name, found in (paths | published).items()}
    return named | {name: Property(("skip",), flag) for name in SKIPS}


def read_properties(properties: Iterable[tuple[str, str]]) -> FromProperties:
    """Read the properties that :func:`is_relevant` selects, the general ones first."""
    found, known = FromProperties(), known_properties()

    def precedence(each: tuple[str, str]) -> tuple[int, int]:
        """Return the sort key: properties of one action after those of all, dotted paths after published names of a value."""
        return (-len(known[each[0]].paths) if each[0] in known else 0, each[0].count("."))

    for name, text in sorted(sorted(properties), key=precedence):
        _read_one(found, known, name, text)
    return found


def _read_one(found: FromProperties, known: Mapping[str, Property], name: str, text: str) -> None:
    origin = ValueOrigin(f"table property {name}")
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "airflow snowpack policies schema lists what can be set."
        _fail(found, known[near] if near else None, origin, name, text, f"it is not known; {hint}")
        return
    prop = known[name]
    try:
        value = prop.read(text)
    except ValueError as error:
        _fail(found, prop, origin, name, text, f"it {error}.")
        return
    if name in SKIPS:
        if value:
            found.skip = Given(SKIPS[name], origin)
    elif prop.paths == ("skip",):
        found.skip = found.skip or Given(f"{value} ({origin})", origin)
    else:
        found.values |= dict.fromkeys(prop.paths, Given(value, origin))


def _fail(found: FromProperties, prop: Property | None, origin: ValueOrigin, name: str, text: str, problem: str) -> None:
    stopped = set() if prop is None else prop.stopped_actions()
    if prop is not None and prop.stops_maintenance:
        instead = "The table is skipped until it is corrected."
        found.skip = found.skip or Given(f"{origin} cannot be used: {problem.removesuffix('.')}", origin)
    elif stopped:
        instead = f"{' and '.join(sorted(stopped))} is disabled until it is corrected."
        found.stopped |= dict.fromkeys(stopped, origin)
    else:
        instead = "The value below it holds."
    found.problems.append(
        TableProblem(name, text, f"The table property {name} = {text[:80]!r} cannot be used: {problem} {instead}")
    )
