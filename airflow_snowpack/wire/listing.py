"""Listings: the name of a list in JSON, the JSON of its entries, and its columns on the command line.

LOCKS = Listing("locks", LockShape.encode, (Column("table", "table.dotted"), Column("expires", "expires_at")))

LOCKS.page(found.items, found.next)      # {"locks": […], "next": null}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, TypeVar

from airflow_snowpack import humanize
from airflow_snowpack.wire.shape import Body, plain
from airflow_snowpack.wire.tone import Tone, tone_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The time from a start to an end, or until now: seconds for programs, a duration for people."""

    start: datetime
    end: datetime | None = None

    def at(self, now: datetime) -> timedelta:
        return (self.end or now) - self.start


Read = str | Callable[[T], object]
"""The path of an attribute, such as ``table.dotted``, or a function."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a list.

    :param value: the value for programs that read plain text: whole ids, exact times.
    :param text: the value for people, where it differs. Times, durations and numbers are formatted by :mod:`humanize`, and the
        parts of a tuple are separated by spaces.
    :param state: the state whose tone colours the text, or ``None`` for no colour.
    """

    heading: str
    value: Read[T]
    text: Read[T] | None = None
    _: KW_ONLY
    state: Read[T] | None = None

    def for_programs(self, item: T, now: datetime) -> object:
        """Return the value as JSON has it."""
        value = _read(self.value, item)
        return plain(value.at(now) if isinstance(value, Elapsed) else value)

    def tone(self, item: T) -> Tone | None:
        """Return the tone of the text; ``None`` for text without a state."""
        state = None if self.state is None else _read(self.state, item)
        return None if state is None else tone_of(str(state))

    def for_people(self, item: T, now: datetime) -> str:
        """Return the value as people read it."""
        return readable(_read(self.value if self.text is None else self.text, item), now)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """How a list is written.

    :param name: of the list in JSON.
    :param body: returns the JSON of an entry.
    :param noun: the entries for people, when that is not ``name``.
    """

    name: str
    body: Callable[[T], Body]
    columns: Sequence[Column[T]]
    noun: str | None = None

    def page(self, items: Sequence[T], next_: object, **more: Any) -> Body:
        """Return a page of the list as JSON.

        :param next_: where the page after this one begins; ``None`` for the last page.
        """
        return {self.name: [self.body(item) for item in items], **more, "next": next_}


def cut(found: Sequence[T], limit: int, place: Callable[[T], Any]) -> tuple[Sequence[T], Any]:
    """Split the result of a query for ``limit + 1`` entries into a page and the place of the next one, if any."""
    shown = found[:limit]
    return shown, place(shown[-1]) if len(found) > limit else None


def readable(value: object, now: datetime) -> str:
    """Return a value as people read it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()  # as JSON has it
        case datetime():
            return humanize.ago(value, now)
        case timedelta():
            return humanize.duration(value)
        case Elapsed():
            return humanize.duration(value.at(now))
        case tuple():
            return " ".join(readable(each, now) for each in value)
        case int() | float():
            return humanize.number(value)
        case _:
            return str(plain(value))


def _read(read: Read[T], item: T) -> object:
    return attrgetter(read)(item) if isinstance(read, str) else read(item)
