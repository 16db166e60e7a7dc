"""What a column and the values that it is compared with are compared as: the type that Spark widens both to, if that is sure.

    comparable(Comparison("delay", Op.GREATER, (Value(Kind.NUMBER, "1.5"),)), schema)      # both as decimals, nothing is rounded

The invariant: both go into that type without loss, except that what meets a floating column becomes double precision, in Spark as
here. What Spark would convert otherwise (text to numbers, moments by the time zone of its session, decimals with more than 38
digits) is refused. The rules are those of Spark's defaults (ANSI); tests compare them with Spark itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NoReturn

import pyarrow as pa
from pyarrow import types

from airflow_snowpack.interim.condition import Comparison, Kind, OnlySparkKnows, Op, Value

PATTERNS = (Op.LIKE, Op.NOT_LIKE)
VALUELESS = (Op.NULL, Op.NOT_NULL, Op.NAN, Op.NOT_NAN)
DIGITS = 38  # of the widest decimal of Spark and Iceberg
DIGITS_OF_INT, DIGITS_OF_LONG = 10, 20  # of the decimals that Spark makes of whole numbers
ALIKE_IN_SINGLE = 2**24  # whole numbers up to here are exact in single precision too
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.(\d{3}|\d{6}))?", re.ASCII)
ZONED = re.compile(MOMENT.pattern + r"(Z|[+-](0\d|1[0-7]):[0-5]\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Comparable:
    """A comparison with a column that is there.

    :param column: its name as the table has it.
    :param kind: what both are compared as.
    :param values: of that type; none for an operator that needs none.
    """

    column: str
    op: Op
    kind: pa.DataType
    values: tuple[pa.Scalar, ...] = ()


def comparable(asked: Comparison, schema: pa.Schema) -> Comparable:
    """Find the column, and the type to compare it in.

    :raises OnlySparkKnows: there is no such column, or its type and these values are not surely compared as in Spark.
    """
    column = column_of(schema, asked.column)
    own = schema.field(column).type
    if asked.op in VALUELESS:
        if asked.op in (Op.NAN, Op.NOT_NAN) and not types.is_floating(own):
            _refuse(asked, own)
        return Comparable(column, asked.op, own)
    kind, values = _numbers(asked, own) if is_number(own) else (own, _others(asked, own))
    return Comparable(column, asked.op, kind, values)


def column_of(schema: pa.Schema, name: str) -> str:
    """A column's name as the table has it: names differ by more than case.

    :raises OnlySparkKnows: there is none, or more than one.
    """
    found: list[str] = [each for each in schema.names if each.lower() == name.lower()]
    if len(found) != 1:
        raise OnlySparkKnows(f"{name!r} may be each of the columns {found}" if found else f"there is no column {name!r}")
    return found[0]


def is_ordered(kind: pa.DataType) -> bool:
    """Whether Arrow orders values of this type as Spark does."""
    return is_number(kind) or is_text(kind) or types.is_boolean(kind) or types.is_date(kind) or types.is_timestamp(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether it is one of Arrow's two types of text."""
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether it is a type of numbers that Iceberg has."""
    return bool(types.is_signed_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _numbers(asked: Comparison, own: pa.DataType) -> tuple[pa.DataType, tuple[pa.Scalar, ...]]:
    if asked.op in PATTERNS or any(value.kind is not Kind.NUMBER for value in asked.values):
        _refuse(asked, own)
    numbers = [Decimal(value.text) for value in asked.values]
    kind = _wide_enough(numbers, own) or _refuse(asked, own)
    convert: Callable[[Decimal], object] = float if types.is_floating(kind) else int if types.is_integer(kind) else Decimal
    return kind, tuple(pa.scalar(convert(number), kind) for number in numbers)


def _wide_enough(numbers: list[Decimal], own: pa.DataType) -> pa.DataType | None:
    after = max(_places(number) for number in numbers)
    before = max(_digits(number) for number in numbers)
    if before + after > DIGITS:
        return None
    if types.is_floating(own):
        is_sure = own.bit_width == 64 or all(_places(number) or abs(number) <= ALIKE_IN_SINGLE for number in numbers)
        return pa.float64() if is_sure else None
    if types.is_integer(own):
        if not all(-(2**63) < number < 2**63 for number in numbers):
            return None  # Spark 4.1 may find null to be less than such a number
        end = 2 ** (own.bit_width - 1)
        if after == 0 and all(-end <= number < end for number in numbers):
            return own
        before = max(before, DIGITS_OF_LONG)
    else:
        before, after = max(before, own.precision - own.scale), max(after, own.scale)
    return pa.decimal128(DIGITS, after) if before + after <= DIGITS else None


def _digits(number: Decimal) -> int:
    """Digits before the point of the decimal that Spark makes of it, in a list at least: of its type where it is whole."""
    written = max(number.adjusted() + 1, 0)
    if _places(number):
        return written
    return DIGITS_OF_INT if written < DIGITS_OF_INT else max(written, DIGITS_OF_LONG)


def _places(number: Decimal) -> int:
    """Digits after the point, as it was written."""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # neither NaN nor infinite
    return max(-exponent, 0)


def _others(asked: Comparison, own: pa.DataType) -> tuple[pa.Scalar, ...]:
    read = _reader(asked, own) or _refuse(asked, own)
    try:
        return tuple(pa.scalar(read(value), own) for value in asked.values)
    except (ValueError, OverflowError):  # no such day, or not written so that it is sure
        _refuse(asked, own)


def _reader(asked: Comparison, own: pa.DataType) -> Callable[[Value], object] | None:
    if is_text(own):
        return _text
    if types.is_boolean(own) and asked.op in (Op.EQUAL, Op.NOT_EQUAL):
        return _truth
    if asked.op in PATTERNS:
        return None
    if types.is_date(own):
        return _day
    if types.is_timestamp(own):
        return _moment if own.tz is None else _zoned
    return None


def _text(value: Value) -> str:
    return _written(value, (Kind.TEXT,), re.compile(r"(?s:.*)"))


def _truth(value: Value) -> bool:
    return _written(value, (Kind.BOOLEAN,), re.compile("true|false")) == "true"


def _day(value: Value) -> date:
    return date.fromisoformat(_written(value, (Kind.TEXT, Kind.DATE), DAY))


def _moment(value: Value) -> datetime:
    if value.kind is Kind.DATE or DAY.fullmatch(value.text):
        return datetime.fromisoformat(_written(value, (Kind.TEXT, Kind.DATE, Kind.TIMESTAMP_NTZ), DAY))
    return datetime.fromisoformat(_written(value, (Kind.TEXT, Kind.TIMESTAMP_NTZ), MOMENT))


def _zoned(value: Value) -> datetime:
    return datetime.fromisoformat(_written(value, (Kind.TEXT, Kind.TIMESTAMP), ZONED)).astimezone(UTC)


def _written(value: Value, kinds: tuple[Kind, ...], form: re.Pattern[str]) -> str:
    if value.kind not in kinds or not form.fullmatch(value.text):
        raise ValueError(value.text)
    return value.text


def _refuse(asked: Comparison, own: pa.DataType) -> NoReturn:
    said = f"{asked.op} {', '.join(map(str, asked.values)):.60}".strip()
    hint = ""
    if types.is_timestamp(own) and own.tz:
        hint = " (a moment takes its zone, as in '2026-01-31 12:00:00+00:00')"
    raise OnlySparkKnows(f"the column {asked.column!r} is {own}, and what {said} means for it is up to Spark{hint}")
