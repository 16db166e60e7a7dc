"""Pages of a list, and the cursors between them.

    NEWEST_FIRST = Keyset(jobs.c.submitted_at, jobs.c.job_id, descending=True)
    query = sa.select(jobs).where(*NEWEST_FIRST.beyond(cursor)).order_by(*NEWEST_FIRST.order()).limit(limit + 1)
    page = NEWEST_FIRST.page(store.all(query), limit, job_from)
    page.items, page.next               # the cursor of the next page

The invariant: a page begins right after the last row of the previous page, by values that never change. Rows that are added or
deleted meanwhile cause no duplicates and no gaps, and the cost of a page does not grow with its number.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime, storable
from airflow_snowpack.store.errors import InvalidCursor

T = TypeVar("T")
At = TypeVar("At")
Place = tuple[Any, ...]
"""The values by which a list orders its rows."""

MAX_CURSOR_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list; ``next`` is the cursor of the next page, ``None`` for the last one."""

    items: tuple[T, ...]
    next: str | None


class Keyset:
    """The order of a list, by columns whose values together are unique and never change.

    :param columns: of type ``UtcDateTime``, ``Text`` or an integer type, without nulls; an index begins with them.
    """

    def __init__(self, *columns: sa.Column[Any], descending: bool = False) -> None:
        self.columns = columns
        self._descending = descending

    def order(self, source: sa.FromClause | None = None) -> list[sa.UnaryExpression[Any]]:
        """Return the ``ORDER BY`` terms, for the table or a subquery with these columns."""
        columns = [column if source is None else source.c[column.name] for column in self.columns]
        return [column.desc() if self._descending else column.asc() for column in columns]

    def beyond(self, cursor: str | None) -> list[sa.ColumnElement[bool]]:
        """Return the condition for the rows after the cursor; empty without a cursor.

        :raises InvalidCursor: no page returned it.
        """
        return [] if cursor is None else [self.after(self.place_of(cursor))]

    def after(self, place: Place) -> sa.ColumnElement[bool]:
        """Return the condition for the rows after this place."""
        here, there = sa.tuple_(*self.columns), self._literal(place)
        return here < there if self._descending else here > there

    def up_to(self, place: Place) -> sa.ColumnElement[bool]:
        here, there = sa.tuple_(*self.columns), self._literal(place)
        return here >= there if self._descending else here <= there

    def page(self, rows: Sequence[Any], limit: int, value_of: Callable[[Any], T]) -> Page[T]:
        """Return the first ``limit`` of these ordered rows as a page; more rows show that there is a next page."""
        shown = rows[:limit]
        more = len(rows) > limit > 0
        return Page(tuple(value_of(row) for row in shown), self.cursor_of(shown[-1]) if more else None)

    def cursor_of(self, row: Any) -> str:
        """Return the cursor for the rows after this one, or any object with the columns as attributes."""
        return self.cursor(*(getattr(row, column.name) for column in self.columns))

    @staticmethod
    def cursor(*place: Any) -> str:
        values = [value.isoformat() if isinstance(value, datetime) else value for value in place]
        return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")

    def place_of(self, cursor: str) -> Place:
        """:raises InvalidCursor: no page returned the cursor."""
        if len(cursor) > MAX_CURSOR_LENGTH:
            raise InvalidCursor(cursor)
        try:
            stored = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
            place = tuple(_read(column, value) for column, value in zip(self.columns, stored, strict=True))
            known = self.cursor(*place) == cursor
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidCursor(cursor) from error
        if not known:
            raise InvalidCursor(cursor)
        return place

    def _literal(self, place: Place) -> sa.Tuple:
        return sa.tuple_(*(sa.literal(value, column.type) for value, column in zip(place, self.columns, strict=True)))


@dataclass(frozen=True, slots=True)
class Found(Generic[T, At]):
    """One page of a search; ``next`` is the place before the next page, ``searched`` the number of entries searched."""

    items: tuple[T, ...]
    next: At | None
    searched: int


def search_pages(
    read: Callable[[At | None, int], Sequence[T]],
    place_of: Callable[[T], At],
    fits: Callable[[T], bool],
    *,
    after: At | None,
    limit: int,
    batch: int,
    at_most: int,
) -> Found[T, At]:
    """Filter a list by what a statement cannot select, until a page is full or ``at_most`` entries were searched.

    :param read: returns up to so many entries after a place.
    """
    chosen: list[T] = []
    searched, more = 0, True
    while more and searched < at_most:
        entries = read(after, batch + 1)
        more = len(entries) > batch
        for entry in entries[:batch]:
            searched, after = searched + 1, place_of(entry)
            if fits(entry):
                chosen.append(entry)
            if len(chosen) == limit:
                return Found(tuple(chosen), after if more or entry is not entries[-1] else None, searched)
    return Found(tuple(chosen), after if more else None, searched)


def _read(column: sa.Column[Any], value: Any) -> Any:
    if isinstance(column.type, UtcDateTime):
        return datetime.fromisoformat(value).astimezone(UTC)
    if isinstance(column.type, sa.Integer):
        limit = 2 ** (63 if isinstance(column.type, sa.BigInteger) else 31)
        if type(value) is not int or not -limit <= value < limit:
            raise ValueError(value)
        return value
    return storable(value)
