"""Write the Spark predicate that selects exactly the given partitions of a table.

    >>> where_of([SpecField("ts", "timestamptz", "day", "ts_day")], [(20473,)], catalog="lake")
    "`lake`.system.days(`ts`) = DATE '2026-01-20'"

Iceberg evaluates the predicate on the partition values of a file. A predicate with the partition field's transform selects
exactly the files of a value, whatever the type. A range of the source column does not: Iceberg widens ranges of times before 1970
by one partition. If no predicate selects the partitions, :class:`NotSelectable` is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow_snowpack.iceberg.health import PartitionHealth, SpecField
from airflow_snowpack.maintenance.condition import MOST_CONDITIONS
from airflow_snowpack.maintenance.planning.finding import Facts
from airflow_snowpack.maintenance.readers import MAX_PREDICATE, MAX_TEXT

VOID = "void"
FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
WITH_WIDTH = re.compile(r"(bucket|truncate)\[([0-9]+)\]")
DECIMAL = re.compile(r"decimal\(\s*([0-9]+)\s*,\s*([0-9]+)\s*\)")
FIXED = re.compile(r"fixed\[[0-9]+\]")
NAN = "NaN"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IN_TEXT = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\n": "\\n", "\r": "\\r", "\x00": "\\u0000"})
"""Spark substitutes ``${…}`` even inside texts, so a dollar sign is escaped."""
LONGEST = MAX_PREDICATE - MAX_TEXT - len("() AND ()")
"""The limit of the option, minus room for the predicate of a policy."""


class NotSelectable(ValueError):
    """The reason why no predicate selects a partition."""


def where_for(facts: Facts, partitions: Iterable[PartitionHealth], own: str | None) -> str:
    """Return the predicate that selects these partitions of the current spec, combined with the policy's predicate.

    :raises NotSelectable: see :func:`where_of`.
    """
    health = facts.health
    generated = where_of(health.specs[health.spec_id], [each.values for each in partitions], catalog=facts.catalog)
    return f"({own}) AND ({generated})" if own else generated


def where_of(fields: Sequence[SpecField], partitions: Iterable[Sequence[Any]], *, catalog: str) -> str:
    """Return the predicate that selects these partitions of one partition spec.

    :param partitions: the values of each, as :class:`~airflow_snowpack.iceberg.health.PartitionHealth` has them; at least one.
    :param catalog: the name of the Spark catalog, which has the functions.
    :raises NotSelectable: a field cannot be expressed, no field distinguishes the partitions, or the predicate is too long.
    """
    where = _where_of(fields, partitions, catalog)
    if where.count(" AND ") + where.count(" OR ") >= MOST_CONDITIONS // 2:  # the policy's predicate is added
        raise NotSelectable("the predicate of the partitions would have too many conditions")
    if len(where) > LONGEST:
        raise NotSelectable(f"the predicate of the partitions would have {len(where):,} characters")
    return where


def _where_of(fields: Sequence[SpecField], partitions: Iterable[Sequence[Any]], catalog: str) -> str:
    terms = [(place, *_term(field, catalog)) for place, field in enumerate(fields) if field.transform != VOID]
    if not terms:
        raise NotSelectable("the partition spec has no field that a predicate can use")
    if len(terms) == 1:
        (place, term, type_), *_ = terms
        return _one_of(term, _source(fields[place]), type_, [values[place] for values in partitions])
    return " OR ".join(
        "(" + " AND ".join(_equals(term, _source(fields[place]), type_, values[place]) for place, term, type_ in terms) + ")"
        for values in partitions
    )


def _one_of(term: str, source: str, type_: str, values: list[Any]) -> str:
    literals = [_literal(type_, value) for value in values if value not in (None, NAN)]
    parts = [f"{term} = {literals[0]}"] if len(literals) == 1 else [f"{term} IN ({', '.join(literals)})"] if literals else []
    if NAN in values:  # Iceberg refuses it in a list, but not in a comparison
        parts.append(f"{term} = {_literal(type_, NAN)}")
    if None in values:
        parts.append(f"{source} IS NULL")
    return " OR ".join(parts)


def _equals(term: str, source: str, type_: str, value: Any) -> str:
    # Only null is transformed to null.
    return f"{source} IS NULL" if value is None else f"{term} = {_literal(type_, value)}"


def _term(field: SpecField, catalog: str) -> tuple[str, str]:
    """Return the expression whose value the partition has, and that value's Iceberg type."""
    source = _source(field)
    type_ = str(field.source_type)
    if field.transform == "identity":
        return source, type_
    function = FUNCTIONS.get(field.transform)
    if function is not None:
        return f"{_quoted(catalog)}.system.{function}({source})", "date" if function == "days" else "int"
    parsed = WITH_WIDTH.fullmatch(field.transform)
    if parsed is None:
        raise NotSelectable(f"Spark has no function for the transform {field.transform!r} of the partition field {field.name!r}")
    name, width = parsed.groups()
    return f"{_quoted(catalog)}.system.{name}({width}, {source})", "int" if name == "bucket" else type_


def _source(field: SpecField) -> str:
    if field.source is None:
        raise NotSelectable(f"the column of the partition field {field.name!r} has been dropped, or has a dot in its name")
    if "${" in field.source:
        raise NotSelectable(f"Spark substitutes a setting in the name of the column {field.source!r}")
    return ".".join(map(_quoted, field.source.split(".")))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(type_: str, value: Any) -> str:
    """Return the value in Spark's syntax, of a type that needs no cast of the column."""
    if type_ in LITERALS:
        return LITERALS[type_](value)
    if DECIMAL.fullmatch(type_):
        return f"CAST('{value}' AS {type_.upper()})"
    if FIXED.fullmatch(type_):
        return f"X'{value}'"
    raise NotSelectable(f"Spark has no literal of the type {type_}")


def _text(value: str) -> str:
    return f"'{value.translate(IN_TEXT)}'"


def _date(days: int) -> str:
    try:
        return f"DATE '{(date(1970, 1, 1) + timedelta(days=days)).isoformat()}'"
    except OverflowError:
        raise NotSelectable(f"the day {days} after 1970-01-01 is outside of the years 1 to 9999") from None


def _moment(type_: str, microseconds: int, zone: str) -> str:
    try:
        moment = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise NotSelectable(f"the moment {microseconds} µs after 1970 is outside of the years 1 to 9999") from None
    return f"{type_} '{moment.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}{zone}'"


LITERALS: dict[str, Callable[[Any], str]] = {
    "boolean": lambda value: str(value).lower(),
    "int": str,
    "long": lambda value: f"{value}L",
    "float": lambda value: f"CAST('{value}' AS FLOAT)",
    "double": lambda value: f"CAST('{value}' AS DOUBLE)",
    "string": _text,
    "uuid": _text,
    "binary": lambda value: f"X'{value}'",
    "date": _date,
    "timestamp": lambda value: _moment("TIMESTAMP_NTZ", value, ""),
    "timestamptz": lambda value: _moment("TIMESTAMP_LTZ", value, " UTC"),
}
"""How Spark writes the values of each Iceberg type."""
