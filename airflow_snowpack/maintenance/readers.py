"""Readers convert a caller's value (Python, JSON or rendered template text) to the value of an option.

    >>> read = whole_number(at_least=1)
    >>> read(5), read("5")
    (5, 5)
    >>> read(0)
    Traceback (most recent call last):
    ValueError: must be at least 1, not 0

The invariant: a reader returns a value that is safe to use, or raises ``ValueError`` with the predicate of a sentence ("must be
at least 1, not 0"). The results of :func:`columns` and :func:`sort_order` contain names only.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.humanize import duration as in_words
from airflow_snowpack.iceberg.table_properties import LONGEST_AGE
from airflow_snowpack.literal import check_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum

    Reader = Callable[[object], Any]

COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
SORT_FIELD = re.compile(
    rf"(?P<column>{COLUMN.pattern})(?:\s+(?P<direction>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?", re.IGNORECASE
)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,254}")
TRUTH = {"true": True, "false": False}
MAX_TEXT = 8192
MAX_PREDICATE = 65_536
"""Enough for the predicate of a plan, which has the values of up to 200 partitions."""
MAX_PATHS = 1_000
# For speed alone: others name code, such as committers and catalogs, or change what a statement means, such as the time zone.
SPARK_SETTING = re.compile(
    r"spark\.sql\.(shuffle\.partitions|autoBroadcastJoinThreshold|broadcastTimeout|adaptive\.(?!.*Class)[A-Za-z0-9_.]{1,200})"
)
SETTING_VALUE = re.compile(r"[A-Za-z0-9_.,:/-]{1,1000}")
DURATION_SCHEMA = {
    "type": "string",
    "pattern": r"^([ 0-9wdhmsWDHMS]*[0-9] ?[wdhmsWDHMS] *|P(?=.)([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?)$",
    "description": 'A duration such as "6h", "1d12h" or the ISO 8601 "P7D".',
}


def described(schema: Mapping[str, Any]) -> Callable[[Reader], Reader]:
    """Attach a JSON Schema to a reader, for the schema of ``policies.yaml``. It allows what people write there."""

    def attach(read: Reader) -> Reader:
        read.json_schema = schema  # type: ignore[attr-defined]  # of a function
        return read

    return attach


def schema_of(read: Reader) -> dict[str, Any]:
    """Return the JSON Schema of a reader; without one, the empty schema, which allows any value."""
    return dict(getattr(read, "json_schema", {}))


def literal(read: Reader) -> Reader:
    """Return this reader, made to refuse text with a variable for Spark to substitute."""

    @described(schema_of(read))
    def checked(value: object) -> Any:
        check_literal(value)
        return read(value)

    return checked


@described({"type": "boolean"})
def flag(value: object) -> bool:
    """A boolean; as text, ``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in TRUTH:
        return TRUTH[value.strip().lower()]
    raise ValueError(f"must be true or false, not {_shown(value)}")


def whole_number(*, at_least: int, at_most: int | None = None) -> Reader:
    """An integer in a range; as text, its digits."""
    schema = {"type": "integer", "minimum": at_least} | ({} if at_most is None else {"maximum": at_most})

    @described(schema)
    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip()):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"must be a whole number, not {_shown(value)}")
        if value < at_least:
            raise ValueError(f"must be at least {at_least}, not {value}")
        if at_most is not None and value > at_most:
            raise ValueError(f"must be at most {at_most}, not {value}")
        return value

    return read


@described({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
def ratio(value: object) -> float:
    """A number above 0 and up to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a number, not {_shown(value)}")
    try:
        if isinstance(value, str) and ("_" in value or not value.isascii()):  # only Python accepts these in numbers
            raise ValueError
        number = float(value)
    except ValueError:
        raise ValueError(f"must be a number, not {_shown(value)}") from None
    if not 0 < number <= 1:
        raise ValueError(f"must be above 0 and at most 1, not {value}")
    return number


def duration(*, at_least: timedelta, at_most: timedelta = LONGEST_AGE) -> Reader:
    """A duration within bounds; at most a century, because it is subtracted from the current time."""

    @described(DURATION_SCHEMA)
    def read(value: object) -> timedelta:
        parsed = parse_duration(value)
        if parsed < at_least:
            raise ValueError(f"must be at least {in_words(at_least)}, not {in_words(parsed)}")
        if parsed > at_most:
            raise ValueError(f"must be at most {at_most.days} days, not {parsed.days}")
        return parsed

    return read


def text_up_to(most: int) -> Reader:
    """Non-empty free text, to be escaped before use in SQL."""

    @described({"type": "string", "minLength": 1, "maxLength": most})
    def read(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"must be text, not {_shown(value)}")
        if not value.strip() or len(value) > most or "\x00" in value:
            raise ValueError(f"must be text of 1 to {most} characters without a NUL")
        return value.strip()

    return read


text, predicate = text_up_to(MAX_TEXT), text_up_to(MAX_PREDICATE)


def one_of(choices: type[StrEnum]) -> Reader:
    """A member of an enumeration, given by value."""

    @described({"enum": [choice.value for choice in choices]})
    def read(value: object) -> StrEnum:
        for choice in choices:
            if value == choice.value:
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}, not {_shown(value)}")

    return read


@described({"type": "array", "items": {"type": "integer", "minimum": 1}})
def ids(value: object) -> tuple[int, ...]:
    """Snapshot ids, as a list or as text with commas."""
    read_id = whole_number(at_least=1, at_most=2**63 - 1)
    given = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"must be a list of snapshot ids, not {_shown(value)}")
    return tuple(read_id(each) for each in given)


@described({"type": "array", "items": {"type": "string", "minLength": 1}})
def paths(value: object) -> tuple[str, ...]:
    """File paths, as a list or a single path. Every character is taken literally."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) and each for each in given):
        raise ValueError(f"must be a list of paths, not {_shown(value)}")
    if any("\x00" in each for each in given):
        raise ValueError("must be paths without a NUL")
    if len(given) > MAX_PATHS:
        raise ValueError(f"must be at most {MAX_PATHS:,} paths, not {len(given):,}")
    return tuple(given)


@described({"type": "object", "additionalProperties": {"type": "string", "minLength": 1}})
def text_map(value: object) -> tuple[tuple[str, str], ...]:
    """A map from text to text, such as ``{"s3a,s3": "s3"}``."""
    if value in ([], ()):
        return ()  # as the default is written
    if not isinstance(value, dict) or not all(isinstance(each, str) and each for pair in value.items() for each in pair):
        raise ValueError(f'must be a map of texts such as {{"s3a,s3n": "s3"}}, not {_shown(value)}')
    return tuple((key.strip(), item.strip()) for key, item in value.items())


@described(
    {"type": "object", "propertyNames": {"pattern": f"^{SPARK_SETTING.pattern}$"}, "additionalProperties": {"type": "string"}}
)
def spark_conf(value: object) -> tuple[tuple[str, str], ...]:
    """Settings of Spark SQL for speed, such as ``{"spark.sql.shuffle.partitions": "400"}``."""
    if value in ([], ()):
        return ()
    if not isinstance(value, dict):
        raise ValueError(f'must be a map such as {{"spark.sql.shuffle.partitions": "400"}}, not {_shown(value)}')
    for name, setting in value.items():
        if not isinstance(name, str) or not SPARK_SETTING.fullmatch(name):
            allowed = "shuffle.partitions, autoBroadcastJoinThreshold, broadcastTimeout and adaptive.*, but no class"
            raise ValueError(f"may set, below spark.sql, {allowed}: {_shown(name)} is not one of them")
        if not isinstance(setting, str) or not SETTING_VALUE.fullmatch(setting):
            raise ValueError(f"must have a value of letters, digits and the signs _.,:/- for {name}, not {_shown(setting)}")
    return tuple(value.items())


@described({"type": "string", "pattern": f"^{NAME.pattern}$"})
def branch_name(value: object) -> str:
    """The name of a branch."""
    if not isinstance(value, str) or not NAME.fullmatch(value.strip()):
        raise ValueError(f"must be a name of letters, digits, '_', '-', '.' and '/', not {_shown(value)}")
    return value.strip()


@described({"type": ["array", "string"], "items": {"type": "string", "pattern": f"^{COLUMN.pattern}$"}})
def columns(value: object) -> tuple[str, ...]:
    """Column names, with dots for fields of structs; a list, or text with commas."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"must be a list of column names, not {_shown(value)}")
    stripped = tuple(name.strip() for name in names)
    for name in stripped:
        if not COLUMN.fullmatch(name):
            raise ValueError(f"has {name[:60]!r}, which is not a column name (letters, digits and underscores, dots between)")
    return stripped


@described({"type": "string", "minLength": 1})
def sort_order(value: object) -> str:
    """``column [ASC|DESC] [NULLS FIRST|LAST], …``; the result has every part spelled out."""
    if not isinstance(value, str):
        raise ValueError(f"must be text such as 'day DESC NULLS LAST, carrier', not {_shown(value)}")
    return ", ".join(_sort_field(part.strip()) for part in value.split(","))


def _sort_field(part: str) -> str:
    match = SORT_FIELD.fullmatch(part)
    if not match:
        raise ValueError(f"has {part[:60]!r}; each part must be: column [ASC|DESC] [NULLS FIRST|LAST]")
    direction = (match["direction"] or "ASC").upper()
    # Iceberg's default: nulls first when ascending, last when descending.
    nulls = (match["nulls"] or ("FIRST" if direction == "ASC" else "LAST")).upper()
    return f"{match['column']} {direction} NULLS {nulls}"


def _shown(value: object) -> str:
    return repr(value)[:60]
