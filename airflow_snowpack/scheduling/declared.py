"""Declarations of triggers and constraints: Python values, JSON in the store, and YAML files.

    >>> PartitionsAdded("analytics.page_views", 5).to_json()
    {'partitions_added': {'table': 'analytics.page_views', 'count': 5}}

A declaration is a frozen value whose fields are validated on construction. The invariant: its JSON reads back as an equal value.
It is not a dataclass, because that would compile six methods per class in a third of a millisecond, at every parse of a DAG file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import FrozenInstanceError
from datetime import time, timedelta
from enum import Enum
from typing import Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

from airflow_snowpack.durations import format_duration, parse_duration
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling.errors import InvalidSchedule

LONGEST = timedelta(days=36_500)
"""A century. A longer period is a mistake, and a date that far away may not exist."""


LARGEST = 2**63 - 1
"""The largest number that a column of either database holds."""

REQUIRED: Any = object()
"""The default of a required field."""

C = TypeVar("C", bound=str)
D = TypeVar("D", bound="Declared")


@dataclass_transform(frozen_default=True)
def declaration(kind: type[D]) -> type[D]:
    """Make the annotations of a class its fields, except ``ClassVar``, after those of its parent."""
    # As text: annotations are text with ``from __future__ import annotations``, and objects without.
    names = [name for name, of in vars(kind).get("__annotations__", {}).items() if "ClassVar" not in str(of)]
    kind.fields = {**kind.fields, **{name: vars(kind).get(name, REQUIRED) for name in names}}
    return kind


class Declared:
    """A trigger or a constraint.

    :cvar kind: its name in JSON and YAML.
    :cvar fields: the defaults of its fields in order; :data:`REQUIRED` for a required one.
    :cvar checks: by field, a function that validates a value and returns its normal form; raises :class:`ValueError`.
    """

    kind: ClassVar[str]
    fields: ClassVar[Mapping[str, Any]] = {}
    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    def __init__(self, *values: Any, **named: Any) -> None:
        """:raises TypeError: a field is missing, unknown or given twice."""
        what = type(self).__name__
        if len(values) > len(self.fields):
            raise TypeError(f"{what}() takes {len(self.fields)} arguments, and {len(values)} were given")
        given = dict(zip(self.fields, values, strict=False))
        if twice := given.keys() & named.keys():
            raise TypeError(f"{what}() got multiple values for {', '.join(sorted(twice))}")
        given |= named
        if unknown := given.keys() - self.fields.keys():
            raise TypeError(f"{what}() got unknown arguments: {', '.join(sorted(unknown))}")
        for name, default in self.fields.items():
            value = given.get(name, default)
            if value is REQUIRED:
                raise TypeError(f"{what}() needs a value for {name}")
            object.__setattr__(self, name, value)
        for name, check in self.checks.items():
            self._read(name, check)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Validate what involves several fields."""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self.values == other.values if isinstance(other, Declared) and type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.values)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of its fields, in their order."""
        return tuple([getattr(self, name) for name in self.fields])

    def to_json(self) -> dict[str, Any]:
        """Return its kind with its fields, except those at their default."""
        values = zip(self.fields, self.values, strict=True)
        return {self.kind: {name: to_plain(value) for name, value in values if value != self.fields[name]}}

    @classmethod
    def from_fields(cls, fields: object) -> Self:
        """Read the fields from a mapping, or from the value of the first field alone.

        :raises InvalidSchedule: a field is missing, unknown or invalid.
        """
        known = list(cls.fields)
        given = fields if isinstance(fields, Mapping) else {known[0]: fields}
        for name in given:
            if name not in known:
                raise InvalidSchedule(f"{cls.kind}.{name}", given[name], f"it is not known; use {', '.join(known)}")
        try:
            return cls(**given)
        except TypeError as error:
            raise InvalidSchedule(cls.kind, fields, f"a field is missing; it takes {', '.join(known)}") from error

    def verify(self, dag_id: str = "dag") -> None:
        """Call its methods once, to refuse a faulty class of another package as soon as a declaration is read."""

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the JSON schema of its fields, which may also be the value of the first field alone."""
        as_object = {
            "type": "object",
            "properties": {name: {} for name in cls.fields},
            "required": [name for name, default in cls.fields.items() if default is REQUIRED],
            "additionalProperties": False,
        }
        summary = str(cls.__doc__).strip().split("\n")[0]
        return {"anyOf": [as_object, {"not": {"type": "object"}}], "description": summary}

    def _read(self, name: str, parse: Callable[[Any], Any]) -> None:
        """Validate a field, and set it to its normal form."""
        value = getattr(self, name)
        try:
            object.__setattr__(self, name, parse(value))
        except InvalidSchedule as error:
            raise error.below(f"{self.kind}.{name}") from error
        except (ValueError, SnowpackError) as error:
            raise InvalidSchedule(f"{self.kind}.{name}", value, str(error)) from error


def parse_period(value: object) -> timedelta:
    """:raises ValueError: it is not a duration above zero and up to :data:`LONGEST`."""
    period = parse_duration(value)
    if not timedelta(0) < period <= LONGEST:
        raise ValueError(f"it must be longer than zero, and {LONGEST.days} days at most")
    return period


def parse_count(value: object) -> int:
    """:raises ValueError: it is not a whole number from 1 to :data:`LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise ValueError("it must be a whole number, 1 or more")
    return value


def as_period(value: timedelta | str) -> timedelta:
    """Return a field that :func:`parse_period` has read."""
    assert isinstance(value, timedelta), "checked when it was made"
    return value


def optional(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a check that accepts ``None`` too."""
    return lambda value: None if value is None else check(value)


def parse_choice(allowed: Iterable[C]) -> Callable[[Any], C]:
    """Return a check that accepts only these texts or enum members, and returns the member of a text."""
    choices = tuple(allowed)

    def parse(value: Any) -> C:
        if value not in choices:
            raise ValueError(f"it must be one of: {', '.join(choices)}")
        return choices[choices.index(value)]

    return parse


def parse_text(value: object) -> str:
    """:raises ValueError: it is not a text of 1 to 500 characters that a database stores."""
    if not isinstance(value, str) or not value.strip() or len(value) > 500:
        raise ValueError("it must be a text of 1 to 500 characters")
    return check_storable(value)


def check_storable(text: str) -> str:
    """:raises ValueError: it has a NUL or a lone surrogate, which no database stores."""
    if "\x00" in text:
        raise ValueError("it must not have NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it must not have halves of surrogate pairs, which no database stores") from None
    return text


def to_plain(value: Any) -> Any:
    """Return a value of a declaration as JSON."""
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, time):
        return f"{value:%H:%M}"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value.to_json() if hasattr(value, "to_json") else value
