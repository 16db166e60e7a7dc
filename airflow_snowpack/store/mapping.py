"""Reads rows as values.

    job_from = row_mapper(Job, {"status": JobStatus, "actions": tuple}, table=table_from)
    [job_from(row) for row in store.all(sa.select(jobs))]

A field has the value of the column of its name, unless the mapper names another column or a function of the whole row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")
Get = Callable[[Any], Any]


def row_mapper(
    value: type[T], convert: Mapping[str, Callable[[Any], Any]] | None = None, /, **sources: str | Get
) -> Callable[[Any], T]:
    """Return a function that makes a value of a dataclass from a row.

    :param convert: by field, what to apply to the column's value, also when that is ``None``.
    :param sources: by field, the name of another column, or a function of the row.
    """
    gets = [_getter(sources.get(field.name, field.name), (convert or {}).get(field.name)) for field in fields(value)]  # type: ignore[arg-type]  # any dataclass
    return lambda row: value(*[get(row) for get in gets])


def _getter(source: str | Get, convert: Callable[[Any], Any] | None) -> Get:
    get = attrgetter(source) if isinstance(source, str) else source
    return get if convert is None else lambda row: convert(get(row))
