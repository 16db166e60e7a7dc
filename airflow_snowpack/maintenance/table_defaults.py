"""Maintenance settings from Iceberg's table properties. They override the package's defaults, and everything else overrides them.

    >>> defaults = table_defaults({"history.expire.max-snapshot-age-ms": "3110400000"})
    >>> defaults.values["expire_snapshots.options.max_age"]
    (datetime.timedelta(days=36), 'history.expire.max-snapshot-age-ms')
    >>> table_defaults({"gc.enabled": "false"}).forbidden["remove_orphan_files"]
    "the table's property gc.enabled is false, so Iceberg deletes no files of it"

Iceberg reads some of these properties whatever a procedure's options are, and fails if they are invalid. Then the action is
forbidden, with the property as the reason, instead of failing each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from airflow_snowpack.humanize import join
from airflow_snowpack.iceberg import table_properties as iceberg
from airflow_snowpack.literal import VARIABLE
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import ActionOptions, option_names, parse_options
from airflow_snowpack.maintenance.policies.model import TableProblem

DATA, DELETES = Action.REWRITE_DATA_FILES.value, Action.REWRITE_POSITION_DELETE_FILES.value
MANIFESTS = Action.REWRITE_MANIFESTS.value
EXPIRY, ORPHANS = Action.EXPIRE_SNAPSHOTS.value, Action.REMOVE_ORPHAN_FILES.value
OF_TABLE_ALONE = {f"{MANIFESTS}.target_size_bytes": iceberg.DEFAULTS[iceberg.MANIFEST_TARGET], f"{EXPIRY}.max_ref_age": None}
"""Values that are no options, because Iceberg takes them from the table; with Iceberg's defaults. ``None``: forever."""


@dataclass(frozen=True, slots=True)
class TableProperty:
    """One of Iceberg's table properties.

    :param path: the policy value that it sets; empty if it sets none.
    :param convert: converts the property to that value.
    :param unusable: the actions that cannot run while its value is unusable.
    :param unreadable: the actions that cannot run while Java cannot parse it as a number, because each commit reads it.
    """

    path: str = ""
    convert: Callable[[Any], Any] = int
    unusable: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


PROPERTIES: Mapping[str, TableProperty] = {
    iceberg.MAX_SNAPSHOT_AGE: TableProperty(f"{EXPIRY}.options.max_age", iceberg.age_of, unusable=(EXPIRY,)),
    iceberg.MIN_SNAPSHOTS: TableProperty(f"{EXPIRY}.options.retain_last", unusable=(EXPIRY,)),
    iceberg.MAX_REF_AGE: TableProperty(f"{EXPIRY}.max_ref_age", iceberg.age_of, unusable=(EXPIRY,)),
    iceberg.FILE_TARGET: TableProperty(f"{DATA}.options.target_file_size_bytes", unreadable=(DATA,)),
    iceberg.DELETE_TARGET: TableProperty(f"{DELETES}.options.target_file_size_bytes", unreadable=(DELETES,)),
    iceberg.MANIFEST_TARGET: TableProperty(
        f"{MANIFESTS}.target_size_bytes", unusable=(MANIFESTS,), unreadable=(DATA, DELETES, MANIFESTS)
    ),
    iceberg.MERGED_FROM: TableProperty(unreadable=(DATA, DELETES)),
    iceberg.MANIFEST_MERGE: TableProperty(),
    iceberg.DELETE_GRANULARITY: TableProperty(unusable=(DELETES,)),
    iceberg.DISTRIBUTION_MODE: TableProperty(),
    iceberg.GC_ENABLED: TableProperty(unusable=(EXPIRY, ORPHANS)),
}
NAMES = frozenset((*PROPERTIES, iceberg.SORT_ORDER, iceberg.NESSIE))
OF_NESSIE = "the catalog is Nessie, whose other branches and tags may need the files; run its tool nessie-gc instead"
UNREAD = frozenset({"comment", "owner", iceberg.SORT_ORDER})
"""Properties that no writer of data files reads."""
LEFT_TO_TABLE = frozenset(
    {
        *(prop.path for prop in PROPERTIES.values() if ".options." in prop.path),
        *(f"{DATA}.options.{name}" for name in ("strategy", "min_file_size_bytes", "max_file_size_bytes")),
    }
)
"""The options that properties set; the sizes follow from the target. A planned job only has those that rules or ``snowpack.*``
properties set, so that the owner's changes since the plan count.
"""


@dataclass(frozen=True, slots=True)
class TableDefaults:
    """The settings from a table's properties.

    :param values: by policy path, the value and the name of the property that sets it; no name for a default that replaces an
        unusable value.
    :param forbidden: by action that cannot run, the reason as a part of a sentence.
    :param forbidden_by: by action that cannot run, the property.
    """

    values: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    problems: tuple[TableProblem, ...] = ()
    forbidden: Mapping[str, str] = field(default_factory=dict)
    forbidden_by: Mapping[str, str] = field(default_factory=dict)

    def options(self, action: str) -> dict[str, Any]:
        """Return the options of an action that properties set."""
        prefix = f"{action}.options."
        return {path.removeprefix(prefix): value for path, (value, _) in self.values.items() if path.startswith(prefix)}


def relevant(properties: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """Return the properties that have an effect, as a key."""
    kept = NAMES | {name for name, value in properties.items() if _has_variable(name, str(value))}
    return frozenset((name, str(properties[name])) for name in kept & properties.keys())


def _has_variable(name: str, value: str) -> bool:
    """Return whether Hadoop may replace ``${…}`` in a value with a variable of its process. Policies refuse these themselves."""
    return VARIABLE in value and name not in UNREAD and not name.startswith("snowpack.")


def table_defaults(properties: Mapping[str, str]) -> TableDefaults:
    """Return the settings from the properties of :func:`.owner_properties` or of the table's health; never raises."""
    return _defaults_of(relevant(properties))


@lru_cache(maxsize=10_000)
def _defaults_of(given: Collection[tuple[str, str]]) -> TableDefaults:
    properties = dict(given)
    values: dict[str, tuple[Any, str]] = {}
    problems: list[TableProblem] = []
    forbidden: dict[str, str] = {}
    by: dict[str, str] = {}
    for name, prop in PROPERTIES.items():
        if name not in properties:
            continue
        problem, stopped = iceberg.problem_of(properties, name), set[str]()
        if problem is not None:
            reason = f"the table property {name} = {properties[name][:80]!r} cannot be used: {problem}"
            stopped = {*prop.unusable, *(() if iceberg.is_number(properties[name], _most(name)) else prop.unreadable)}
            instead = f"{join(sorted(stopped))} cannot run until it is corrected." if stopped else "The value below it holds."
            problems.append(TableProblem(name, properties[name], f"{reason[0].upper()}{reason[1:]}. {instead}"))
            forbidden |= dict.fromkeys(stopped, reason)
            by |= dict.fromkeys(stopped, name)
        if prop.path and not stopped:
            # The default, too: without the option, Iceberg would take the unusable size.
            values[prop.path] = prop.convert(iceberg.value_of(properties, name)), name if problem is None else ""
    if iceberg.value_of(properties, iceberg.GC_ENABLED) == "false":
        reason = f"the table's property {iceberg.GC_ENABLED} is false, so Iceberg deletes no files of it"
        forbidden |= dict.fromkeys((EXPIRY, ORPHANS), reason)
        by |= dict.fromkeys((EXPIRY, ORPHANS), iceberg.GC_ENABLED)
    if properties.get(iceberg.NESSIE) == "true":
        forbidden |= dict.fromkeys((EXPIRY, ORPHANS), OF_NESSIE)
        by |= dict.fromkeys((EXPIRY, ORPHANS), iceberg.NESSIE)
    # Hadoop gets all properties when a data file is written, and an error would show the variable's value.
    for name in sorted(name for name, value in given if _has_variable(name, value))[:1]:
        reason = f"the table property {name} has {VARIABLE!r}, with which Hadoop names a variable of its process"
        forbidden |= dict.fromkeys((DATA, DELETES), reason)
        by |= dict.fromkeys((DATA, DELETES), name)
    is_range = iceberg.value_of(properties, iceberg.DISTRIBUTION_MODE) == "range"
    if is_range and properties.get(iceberg.SORT_ORDER):
        values[f"{DATA}.options.strategy"] = "sort", iceberg.DISTRIBUTION_MODE
    return TableDefaults(values, tuple(problems), forbidden, by)


def _most(name: str) -> int:
    return iceberg.INT if name == iceberg.MERGED_FROM else iceberg.LONG


def fitting_options(action: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> tuple[ActionOptions, list[str]]:
    """Return the given options completed by the table's defaults, and the names of the defaults that do not fit.

    :param given: what a request, or rules and ``snowpack.*`` properties, set; ``None`` means "not given".
    :raises UnknownAction, InvalidOption: what is given cannot be used, whatever the table sets.
    """
    above = {name: value for name, value in given.items() if value is not None}
    below = {name: value for name, value in defaults.items() if name not in above}
    try:
        return parse_options(action, {**below, **above}), []
    except InvalidOption:
        options, unfit = parse_options(action, above), list[str]()
    for name, value in below.items():
        try:
            options = parse_options(action, {name: value, **above})
            above[name] = value
        except InvalidOption:
            unfit.append(name)
    return options, unfit


def options_for(action: str, given: Mapping[str, Any], properties: Mapping[str, str], *, by_plan: bool = False) -> ActionOptions:
    """Return the options of a requested action, completed from the table's properties.

    :param by_plan: a plan made the request, and has already reported sizes of the table that do not fit.
    :raises UnknownAction, InvalidOption: the request cannot be used, or its sizes do not fit the table's target.
    """
    defaults = table_defaults(properties)
    options, unfit = fitting_options(action, given, defaults.options(action))
    if unfit and action == DATA and not by_plan:
        value, name = defaults.values[f"{action}.options.{unfit[0]}"]
        problem = (
            f"is {value} by the table property {name}, and the other options of the request do not fit to it. Set it as well"
        )
        raise InvalidOption(action, unfit[0], problem, option_names(action))
    return options


def forbidden_reason(options: ActionOptions, properties: Mapping[str, str]) -> str | None:
    """Return why properties forbid the action, as a part of a sentence; ``None`` if not, or if the removal will refuse it."""
    return None if getattr(options, "removal_id", None) else table_defaults(properties).forbidden.get(options.action)
