"""A schedule: which DAG to run, when, and under which constraints a run may start.

    nightly = Schedule(
        "page_views_nightly",
        dag_id="maintain_page_views",
        conf={"table": "analytics.page_views"},
        trigger=PartitionsAdded("analytics.page_views", 5) | Every("4h"),
        constraints=[TimeWindow("22:00", "06:00", tz="America/New_York"), SinceLastRun("5m")],
        timeout=Timeout("1d", then="discard"),
    )

The invariant: a :class:`Schedule` is valid, and equal to the one read from its JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from airflow_snowpack.durations import format_duration
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling.constraints.constraint import CONSTRAINTS, Constraint
from airflow_snowpack.scheduling.declared import as_period, check_storable, parse_choice, parse_period, to_plain
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.triggers.trigger import Trigger, parse_trigger

DAG_ID = re.compile(r"[\w.~-]{1,250}")
MAX_NAME = 200
MAX_PARTS = 500
"""The most event triggers, and the most constraints; a change writes a row for each while no other schedule can be changed."""
PRIORITIES = range(-1000, 1001)


class Then(StrEnum):
    """What happens to a pending run that times out."""

    DISCARD = "discard"
    LAUNCH = "launch"


class Missed(StrEnum):
    """What happens to cron ticks while no scheduler runs: one run for all of them, one run for each, or none."""

    ONE = "one"
    ALL = "all"
    NONE = "none"


class LaunchBacklog(StrEnum):
    """How many launches may wait for a DAG that cannot be started, such as a paused one.

    ``ONE``: further events join the waiting launch, and the DAG gets one run for all of them. ``ALL``: each gets a run of its
    own.
    """

    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Timeout:
    """How long a pending run may wait for its constraints after its trigger was satisfied, and what happens then."""

    after: timedelta | str = timedelta(days=1)
    then: Then | str = Then.DISCARD

    def __post_init__(self) -> None:
        object.__setattr__(self, "after", read_field("timeout.after", self.after, parse_period))
        object.__setattr__(self, "then", read_field("timeout.then", self.then, parse_choice(Then)))

    @property
    def period(self) -> timedelta:
        return as_period(self.after)

    def to_json(self) -> dict[str, str]:
        return {"after": format_duration(self.period), "then": str(self.then)}


@dataclass(frozen=True)
class Schedule:
    """When to run a DAG.

    :param name: unique in a store: letters, digits, underscores and hyphens, with a letter or an underscore first.
    :param conf: the ``dag_run.conf`` of each run, to which the events that started it are added.
    :param timeout: how long a pending run may wait for its constraints; a day by default.
    :param priority: from -1000 to 1000; if there is not room for all, higher priorities start first.
    :param missed: what happens to cron ticks while no scheduler runs.
    :param backlog: what happens to events while a launch waits for its DAG.
    :param enabled: whether it is created enabled, or suspended until it is resumed.
    :raises InvalidSchedule: a value is invalid; the error names its field.
    """

    name: str
    dag_id: str
    trigger: Trigger
    conf: Mapping[str, Any] = field(default_factory=dict)
    constraints: Sequence[Constraint] = ()
    timeout: Timeout = field(default_factory=Timeout)
    priority: int = 0
    missed: Missed | str = Missed.ONE
    enabled: bool = False
    description: str = ""
    backlog: LaunchBacklog | str = LaunchBacklog.ONE

    def __post_init__(self) -> None:
        for name, parse in _READERS.items():
            object.__setattr__(self, name, read_field(name, getattr(self, name), parse))
        for name, parts in (("trigger", self.trigger.leaves()), ("constraints", self.constraints)):
            if len(parts) > MAX_PARTS:
                raise InvalidSchedule(name, f"{len(parts):,} parts", f"it must have at most {MAX_PARTS}")
        for constraint in self.constraints:
            CONSTRAINTS.verified(constraint, self.dag_id)

    def to_json(self) -> dict[str, Any]:
        return {name: to_plain(getattr(self, name)) for name in _READERS}

    def runs_like(self, other: Schedule) -> bool:
        """Return whether both have the same trigger, constraints and DAG, so that pending runs of one suit the other."""
        mine, its = self.to_json(), other.to_json()
        return all(mine[name] == its[name] for name in ("trigger", "constraints", "dag_id"))

    @classmethod
    def from_json(cls, declared: object) -> Schedule:
        """:raises InvalidSchedule: a field is missing, unknown or invalid."""
        return cls(**read_fields("schedule", declared, known=_READERS, required=("name", "dag_id", "trigger")))


def read_fields(what: str, declared: object, *, known: Collection[str], required: Collection[str]) -> Mapping[str, Any]:
    """:raises InvalidSchedule: the declaration is not a mapping, or a field is unknown or missing."""
    if not isinstance(declared, Mapping):
        raise InvalidSchedule(what, declared, "it must be a mapping of fields")
    for name in declared:
        if name not in known:
            raise InvalidSchedule(str(name), declared[name], f"it is not known; use {', '.join(known)}")
    for name in required:
        if name not in declared:
            raise InvalidSchedule(name, None, "it is missing")
    return declared


def read_field(name: str, value: Any, parse: Callable[[Any], Any]) -> Any:
    """Return a field's value as ``parse`` returns it.

    :raises InvalidSchedule: it is invalid; the error names the field.
    """
    try:
        return parse(value)
    except InvalidSchedule as error:
        raise error if error.field.startswith(name) else error.below(name) from error
    except (ValueError, SnowpackError) as error:
        raise InvalidSchedule(name, value, str(error)) from error
    except RecursionError:
        raise InvalidSchedule(name, "…", "it is nested too deeply") from None


def parse_constraints(value: object) -> tuple[Constraint, ...]:
    """Return constraints unchanged, or read them from JSON.

    :raises InvalidSchedule: a constraint is invalid; the error has the path of its field.
    """
    read: tuple[Constraint, ...] = read_field("constraints", value, _constraints)
    return read


def parse_name(value: object) -> str:
    """:raises ValueError: it is not a schedule's name."""
    if not isinstance(value, str) or len(value) > MAX_NAME or not LEVEL.fullmatch(value):
        raise ValueError(
            "it must start with a letter or an underscore and go on with letters, digits, underscores and hyphens "
            f"({MAX_NAME} characters at most)"
        )
    return value


def parse_dag_id(value: object) -> str:
    """:raises ValueError: it is not a DAG's id."""
    if not isinstance(value, str) or not DAG_ID.fullmatch(value):
        raise ValueError("it must be the id of a DAG: letters, digits, underscores, dots, tildes and hyphens, 250 at most")
    return value


def parse_conf(value: object) -> Mapping[str, Any]:
    """:raises ValueError: it is not a JSON object that a database stores."""
    if not isinstance(value, Mapping):
        raise ValueError('it must be a mapping, such as {"table": "analytics.page_views"}')
    try:
        text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"it must have JSON values only ({error})") from error
    if "\\u0000" in text:
        raise ValueError("it must not have NUL characters")
    if value:
        from airflow_snowpack.bounded_text import MAX_DEPTH, is_too_deep  # not for every schedule of a DAG file

        if is_too_deep(text.encode("utf-8", "surrogatepass")):
            raise ValueError(f"it must not be nested more than {MAX_DEPTH} levels deep")
    conf: Mapping[str, Any] = json.loads(check_storable(text))
    return conf


def _constraints(value: object) -> tuple[Constraint, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("it must be a list of constraints")
    read = []
    for number, declared in enumerate(value):
        try:
            read.append(CONSTRAINTS.parse(declared))
        except InvalidSchedule as error:
            raise InvalidSchedule(f"constraints[{number}].{error.field}", error.value, error.problem) from error
    return tuple(read)


def _timeout(value: object) -> Timeout:
    if isinstance(value, Timeout):
        return value
    if isinstance(value, Mapping) and set(value) <= {"after", "then"}:
        return Timeout(**value)
    if isinstance(value, str | timedelta):
        return Timeout(value)
    raise ValueError("it must be a period such as 1d, or a mapping of `after` and `then`")


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in PRIORITIES:
        raise ValueError("it must be a whole number from -1000 to 1000")
    return value


def parse_flag(value: object) -> bool:
    """:raises ValueError: it is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError("it must be true or false")
    return value


def parse_description(value: object) -> str:
    """:raises ValueError: it is not a text that a database stores."""
    if not isinstance(value, str):
        raise ValueError("it must be a text")
    return check_storable(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "name": parse_name,
    "dag_id": parse_dag_id,
    "trigger": parse_trigger,
    "conf": parse_conf,
    "constraints": _constraints,
    "timeout": _timeout,
    "priority": _priority,
    "missed": parse_choice(Missed),
    "backlog": parse_choice(LaunchBacklog),
    "enabled": parse_flag,
    "description": parse_description,
}


class Definitions:
    """The definitions of schedules, each parsed once per round of the checker, because parsing costs more than evaluating."""

    def __init__(self, read: Iterable[tuple[str, Any]]) -> None:
        self._parsed = {name: (declared, readable(declared)) for name, declared in read}

    @property
    def readable(self) -> list[Schedule]:
        return [schedule for _, schedule in self._parsed.values() if schedule is not None]

    def read(self, name: str, declared: Any) -> Schedule:
        """Return the schedule with this stored definition, parsed again only if it has changed.

        :raises InvalidSchedule: this version cannot read it.
        """
        known, schedule = self._parsed.get(name, (None, None))
        return schedule if schedule is not None and known == declared else Schedule.from_json(declared)


def readable(declared: object) -> Schedule | None:
    """Return a schedule from its JSON; ``None`` if this version cannot read it, because a newer one has written it."""
    try:
        return Schedule.from_json(declared)
    except InvalidSchedule:
        return None
