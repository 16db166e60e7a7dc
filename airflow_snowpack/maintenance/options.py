"""The options of each action, with the specification's defaults.

    >>> options = parse_options(Action.REWRITE_DATA_FILES, {"min_input_files": 2, "where": "month = 3"})
    >>> options.min_input_files, options.target_file_size_bytes
    (2, 536870912)
    >>> parse_options(Action.REWRITE_DATA_FILES, options.to_json()) == options
    True

The invariant: options returned by :func:`parse_options` can be run. Numbers are in Iceberg's range, and columns are plain names.
Only ``where`` and ``location`` are free text, which the code that builds SQL escapes. Options survive JSON, because the store
keeps them with the job. Ages are durations, which become times when the action runs.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.durations import format_duration
from airflow_snowpack.entry_points import entry_points, load_class
from airflow_snowpack.humanize import timestamp
from airflow_snowpack.maintenance.action import GROUP, OWN, action_names
from airflow_snowpack.maintenance.errors import InvalidOption, UnknownAction, UnusableAction
from airflow_snowpack.maintenance.planning.finding import Estimate, Rate
from airflow_snowpack.maintenance.readers import flag, literal, spark_conf

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
    from airflow_snowpack.maintenance.planning.finding import Facts, Finding, Threshold
    from airflow_snowpack.maintenance.readers import Reader
    from airflow_snowpack.maintenance.removals.of_job import JobRemovals
    from airflow_snowpack.maintenance.replay.state import SimulatedTable
    from airflow_snowpack.maintenance.writers import TableWriters

log = logging.getLogger(__name__)


class JobOrder(StrEnum):
    """Which file groups a rewrite works on first."""

    BYTES_ASC = "bytes-asc"
    BYTES_DESC = "bytes-desc"
    FILES_ASC = "files-asc"
    FILES_DESC = "files-desc"
    NONE = "none"


def option(
    default: Any,
    read: Reader,
    procedure_option: str | None = None,
    *,
    of_request: bool = False,
    of_table: bool = False,
    since: str | None = None,
) -> Any:
    """Declare an option of an action.

    :param read: converts the caller's value. Text with a variable for Spark to substitute is refused before.
    :param procedure_option: the key in the procedure's ``options`` map, if the option goes there.
    :param of_request: it belongs to one request, such as a list to delete, so policies and table properties cannot set it.
    :param of_table: it names something of the table, which :meth:`ActionOptions.check_table` looks up before a job is submitted.
    :param since: the first version of Iceberg whose procedure has it; ``None``: every supported one has.
    """
    flags = {"of_request": of_request, "of_table": of_table, "since": since}
    return field(default=default, metadata={"read": literal(read), "procedure_option": procedure_option, **flags})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions:
    """The base class of every action, with its options.

    A subclass is a frozen dataclass named after the action. Its fields are the options, each declared with :func:`option`. Its
    methods find whether a table needs the action, plan it and run it.

    :cvar thresholds: by name, the numbers at which the action is needed; policies may change them.
    :cvar rate: a first estimate of how long the action takes.
    :cvar enabled: whether plans may run it by default; policies may change it.
    :cvar deadline: the default for the longest time between runs; ``None``: it runs only when needed. Policies may change it.
    :cvar deletes_files: whether it deletes files for good, so that invalid options must stop it.
    :cvar rewrites_files: whether it replaces data or delete files. Then its commits may lose to those of writers, and metadata
        shows exactly which files it takes.
    :param only_if_needed: skip the action, without Spark, when the table's metadata shows that it has nothing to do; for orphan
        files, a listing of a small table's storage.
    :param spark_conf: settings of Spark SQL while the action runs; the session has its own again afterwards.
    """

    action: ClassVar[str]
    thresholds: ClassVar[Mapping[str, Threshold]] = {}
    rate: ClassVar[Rate] = Rate(5.0, per_gib=60.0)
    enabled: ClassVar[bool] = False
    deadline: ClassVar[timedelta | None] = None
    deletes_files: ClassVar[bool] = True
    rewrites_files: ClassVar[bool] = False

    only_if_needed: bool = option(True, flag)
    spark_conf: tuple[tuple[str, str], ...] = option((), spark_conf)

    def to_json(self) -> dict[str, Any]:
        """Return the options that are set as plain values, which :func:`parse_options` reads back."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in values.items() if value is not None and value != ()}

    def procedure_options(self) -> dict[str, str]:
        """Return the entries of the procedure's ``options`` map."""
        keyed = ((each.metadata["procedure_option"], getattr(self, each.name)) for each in fields(self))
        return {key: str(_plain(value)).lower() for key, value in keyed if key and value is not None}

    def check(self) -> None:
        """Check rules between options.

        :raises InvalidOption: two options cannot be combined.
        """

    def check_table(self, table: Table, name: str) -> None:
        """Check the options that name something of the table; ``name`` is ``database.table``, for the message.

        :raises InvalidOption: the table does not have it.
        """

    def find(self, facts: Facts) -> Finding:
        """Return what the action would do by the table's stored health, without I/O. Plans choose by it.

        By default, the action runs by the policy's deadline, because no metadata shows whether it is needed.
        """
        last = facts.record.last_run_at
        return facts.found_by_time("never run" if last is None else f"last run at {timestamp(last)}")

    def protected(
        self,
        finding: Finding,
        facts: Facts,
        writers: Callable[[], TableWriters] | None,
        first_removal: Callable[[], bool] | None,
    ) -> Finding:
        """Add options that protect files to a plan's finding; :func:`~.planning.table_plan.plan_table` has the parameters."""
        return finding

    def simulate(self, state: SimulatedTable, now: datetime, partitions: Collection[PartitionKey] | None) -> Estimate:
        """Run the action on the partitions that the plan selects, ``None`` for all, of a simulated table; return what it did."""
        return Estimate()

    def plan(self, planning: PlanningContext) -> ActionEffect:
        """Return what the action would do, from metadata alone: it writes nothing and opens no data file.

        :raises OSError: a file that the metadata names cannot be read.
        """
        raise NotImplementedError

    def without_spark(
        self, removals: JobRemovals | None, catalog: Callable[[], Catalog], stopped: Callable[[], bool]
    ) -> ActionEffect | None:
        """Do the work that needs neither Spark nor the table's metadata. An effect ends the action.

        :param removals: the removal lists of the job's table; ``None``: the engine has no store for them.
        :param catalog: connects to the catalog.
        :param stopped: whether to end early.
        """
        return None

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        """Return the evidence that the action has nothing to do, to save starting Spark; ``None`` if it may have work.

        The check must be conservative: an effect means that the action would find nothing, whatever a ``where`` selects.

        :raises OSError: a file that the metadata names cannot be read.
        """
        return None

    def run(self, run: ActionRun) -> ActionEffect:
        """Run the action on Spark.

        :raises SparkInterrupted, SparkFailed: from Spark.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        raise NotImplementedError


def action_class(name: str) -> type[ActionOptions]:
    """Return the class of an action of this package or of an entry point.

    :raises UnknownAction: no action has this name.
    :raises UnusableAction: the entry point cannot be loaded, or is not an action of this name.
    """
    if name in OWN:
        class_name = "".join(map(str.capitalize, name.split("_")))
        own: type[ActionOptions] = getattr(import_module(f"airflow_snowpack.maintenance.actions.{name}"), class_name)
        return own
    point = entry_points(GROUP).get(name)
    if point is None:
        raise UnknownAction(name, action_names())
    try:
        return load_class(point, ActionOptions, "action")
    except ValueError as problem:
        raise UnusableAction(name, str(problem)) from problem


def rewrites_files(actions: Iterable[str]) -> bool:
    """Return whether one of the actions replaces data or delete files. Actions that cannot be loaded count as no."""
    for name in actions:
        with suppress(UnknownAction, UnusableAction):
            if action_class(name).rewrites_files:
                return True
    return False


def usable_actions() -> tuple[str, ...]:
    """Return the names of all actions whose class can be loaded; log the entry points that cannot."""
    usable = []
    for name in action_names():
        try:
            action_class(name)
        except UnusableAction as problem:
            log.warning("action_not_loaded: %s", problem)
        else:
            usable.append(name)
    return tuple(usable)


def parse_options(action: str, given: Mapping[str, Any]) -> ActionOptions:
    """Parse the options of one action; ``None`` means "not given".

    :raises UnknownAction: no action has this name.
    :raises InvalidOption: an option is unknown or its value unusable; the message names both and what is allowed.
    """
    options = action_class(action)(**_read(action, given))
    options.check()
    return options


def as_given(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options as plain values, before defaults that depend on others: a size of 0 stays 0.

    :raises UnknownAction, InvalidOption: see :func:`parse_options`.
    """
    return {name: _plain(value) for name, value in _read(action, given).items() if value != ()}


def _read(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    readers = option_readers(action)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in readers:
            raise InvalidOption(action, str(name), "is not known", tuple(readers))
        if value is None:
            continue
        try:
            values[name] = readers[name](value)
        except ValueError as error:
            raise InvalidOption(action, name, str(error), tuple(readers)) from None
    return values


def option_readers(action: str) -> dict[str, Reader]:
    """Return the reader of each option of an action, in the order of their documentation."""
    return {each.name: each.metadata["read"] for each in fields(action_class(action))}


def policy_readers(action: str) -> dict[str, Reader]:
    """Return the reader of each option of an action that policies and table properties may set."""
    return {each.name: each.metadata["read"] for each in fields(action_class(action)) if not each.metadata["of_request"]}


def table_options(action: str) -> frozenset[str]:
    """Return the options of an action that can only be checked against the table."""
    return frozenset(each.name for each in fields(action_class(action)) if each.metadata["of_table"])


def parse_all_options(given: Mapping[str, Mapping[str, Any]]) -> dict[str, ActionOptions]:
    """Parse the options of several actions. Actions without options are left out, and run with the defaults.

    :raises UnknownAction: a key is not an action.
    :raises InvalidOption: see :func:`parse_options`; or the options of an action are not a mapping.
    """
    parsed: dict[str, ActionOptions] = {}
    for key, options in given.items():
        action = str(key)
        if not hasattr(options, "items"):
            raise InvalidOption(action, "options", f"must be a mapping, not {options!r:.60}", option_names(action))
        parsed[action] = parse_options(action, options)
    return parsed


def option_names(action: str) -> tuple[str, ...]:
    """Return the names of an action's options, in the order of their documentation."""
    return tuple(option_readers(action))


def defaults(action: str) -> dict[str, Any]:
    """Return the default of each option of an action as JSON; ``None`` where Iceberg or the table decides."""
    shape = action_class(action)
    return {each.name: _plain(each.default) for each in fields(shape)} | shape().to_json()


def refused(options: ActionOptions, name: str, problem: str) -> InvalidOption:
    """Return the error of an option that does not fit the other options or the table."""
    return InvalidOption(options.action, name, problem, option_names(options.action))


def refuse_newer(given: Iterable[ActionOptions], iceberg: str) -> None:
    """Refuse options that this version of Iceberg lacks.

    :raises InvalidOption: the procedure of this version has no such argument.
    """
    for options in given:
        for each in fields(options):
            since = each.metadata["since"]
            if since and _release(iceberg) < _release(since) and getattr(options, each.name) != each.default:
                problem = f"needs Iceberg {since}, and Spark runs with Iceberg {iceberg}: install pyspark for a newer one"
                raise refused(options, each.name, problem)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
