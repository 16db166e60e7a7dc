"""The policy of one table: the merged values of rules and table properties, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import timestamp
from airflow_snowpack.maintenance.action import Action

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_snowpack.daily_window import DailyWindow
    from airflow_snowpack.iceberg.health.bounds import HealthBounds
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.options import ActionOptions

MAX_REWRITE_BYTES = 10 * 1024**3
"""The default byte limit of one plan of a table."""
QUIET_HORIZON = timedelta(days=2)
"""Consecutive daily windows of this length count as endless."""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Where a value came from.

    :param source: ``default``, ``table property write.…`` or another of Iceberg's, ``rule 'analytics.*'``, or
        ``table property snowpack.…``.
    :param file: the name of the rule's file, without folders; empty for a default or a property.
    :param line: in that file, from 1.
    """

    source: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source} ({self.file}:{self.line})" if self.file else self.source


DEFAULT = ValueOrigin("default")


@dataclass(frozen=True, slots=True)
class Quiet:
    """A clause for a time in which no maintenance starts, and the end of that time in UTC; ``None``: it never ends."""

    until: datetime | None

    def __str__(self) -> str:
        if self.until is None:
            return "the quiet windows of the policy cover the whole day, so it never starts"
        return f"quiet until {timestamp(self.until)}"


@dataclass(frozen=True, slots=True)
class ActionPolicy:
    """The policy of one action on one table.

    :param enabled: whether plans may run it.
    :param options: parsed, with the policy's ``where``; ``options.to_json()`` fits a ``MaintenanceRequest``.
    :param cadence: the action runs at most this often; ``None``: whenever it is needed.
    :param deadline: the action runs at least this often while it has something to do; ``None``: only when it is needed.
    :param thresholds: numbers from which the action is needed; :mod:`.definitions` has the names and defaults.
    """

    action: str
    enabled: bool
    options: ActionOptions
    cadence: timedelta | None = None
    deadline: timedelta | None = None
    thresholds: Mapping[str, int | float] = field(default_factory=dict)

    @property
    def where(self) -> str | None:
        """The Spark predicate that limits the action; ``None`` if it has none."""
        where: str | None = getattr(self.options, "where", None)
        return where


@dataclass(frozen=True, slots=True)
class TableProblem:
    """A table property that cannot be used, and what the policy does instead.

    :param name: of the property.
    :param message: what is wrong, what is allowed, and what applies instead; one or two sentences.
    """

    name: str
    value: str
    message: str


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The values for one table.

    :param skip: why the table gets no maintenance; ``None`` if it does.
    :param frozen_until: no maintenance starts before this time.
    :param quiet: daily windows in which no maintenance starts.
    :param max_rewrite_bytes: the byte limit of one plan.
    :param owner: who receives the notifications about the table, by a rule or ``snowpack.owner``.
    :param actions: by name, each action of the installation, in the default order.
    :param origins: by dotted path, such as ``expire_snapshots.options.max_age``; missing paths have defaults.
    :param problems: table properties that cannot be used.
    :param forbidden: by action that is otherwise enabled, why a property of Iceberg forbids it; a part of a sentence.
    :param ruled: the dotted paths of values that a rule or ``snowpack.*`` property sets.
    :param of_table: by dotted path, values that only Iceberg's table properties set.
    """

    table: TableName
    actions: Mapping[str, ActionPolicy]
    skip: str | None = None
    frozen_until: datetime | None = None
    quiet: tuple[DailyWindow, ...] = ()
    max_rewrite_bytes: int = MAX_REWRITE_BYTES
    owner: str | None = None
    origins: Mapping[str, ValueOrigin] = field(default_factory=dict)
    problems: tuple[TableProblem, ...] = ()
    forbidden: Mapping[str, str] = field(default_factory=dict)
    ruled: frozenset[str] = frozenset()
    of_table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bounds(self) -> HealthBounds:
        """The bounds of ``rewrite_data_files``, with which the table's health is read."""
        from airflow_snowpack.iceberg.health.bounds import HealthBounds

        options = self.actions[Action.REWRITE_DATA_FILES].options
        return HealthBounds(**{each.name: getattr(options, each.name) for each in fields(HealthBounds)})

    def quiet_at(self, now: datetime) -> Quiet | None:
        """Return the quiet time at ``now``; ``None``: maintenance may start."""
        until = now
        while window := next((each for each in self.quiet if each.contains(until)), None):
            until = window.next_end(until)
            if until - now >= QUIET_HORIZON:
                return Quiet(None)
        return None if until == now else Quiet(until)

    def origin(self, path: str) -> ValueOrigin:
        """Return where the value at a dotted path came from."""
        return self.origins.get(path, DEFAULT)
