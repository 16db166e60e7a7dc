"""Detect what Arrow changes silently in Python values that become a column.

    loss = loss_among(pa.field("n", pa.int64()))
    loss([1, 2.0]), loss([1, np.float64(2.5)])       # None, "Its fraction would be cut off"

What Arrow itself refuses (text for a number, a decimal with too many places, a number that is too large) is not checked here.
Invariant: what comes back from a column equals what went in, of any class, except in columns of single precision, which round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import compute, types

Loss = Callable[[Any], str | None]

# Half a step above the largest number of single precision (IEEE 754, binary32): from here on, numbers round to infinity.
TOO_LARGE_FOR_SINGLE = float(2**128 - 2**103)
NUMBERS = (None, "i", "u", "f")  # numpy's kinds; None: not a numpy value
TEXT = (str, bytes, bytearray)
NO_NULL = "It must not be null"
NO_NANOSECONDS = "Its nanoseconds would be cut off"


def is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_raw(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


# Values of these classes fit columns of these types unchanged.
KEPT: list[tuple[Callable[[pa.DataType], bool], set[type]]] = [
    (types.is_integer, {int}),
    (types.is_floating, {int, float}),
    (is_text, {str}),
    (is_raw, {bytes}),
]


def loss_among(field: pa.Field) -> Callable[[Iterable[Any]], str | None]:
    """Return a function that checks the values of a column or list, and returns the first loss, or ``None``."""
    of_value, unharmed = _field_loss(field), _quick_check(field)

    def loss(values: Iterable[Any]) -> str | None:
        return None if unharmed(values) else _first(map(of_value, values))

    return loss


def _quick_check(field: pa.Field) -> Callable[[Iterable[Any]], bool]:
    """Return a quick check that no value of a column or list loses anything, which spares most columns a check of each value."""
    kind, nullable = field.type, field.nullable
    if nullable and _type_loss(kind) is None:
        return lambda values: True
    if types.is_float32(kind):

        def no_infinity(values: Iterable[Any]) -> bool:
            made = pa.array(values, kind)
            return (nullable or not made.null_count) and not compute.any(compute.is_inf(made)).as_py()

        return no_infinity
    kept = next((classes for is_kind, classes in KEPT if is_kind(kind)), set())
    classes = frozenset(kept | {type(None)} if nullable else kept)
    return lambda values: classes.issuperset(map(type, values))


def _type_loss(kind: pa.DataType) -> Loss | None:
    """Return the check for each value that is not null; ``None`` if no check is needed."""
    if types.is_integer(kind):
        return _whole_number_loss
    if types.is_float32(kind):
        return _single_loss
    if types.is_floating(kind):
        return _double_loss
    if types.is_date(kind):
        return _date_loss
    if types.is_timestamp(kind):
        return partial(_timestamp_loss, kind)
    if types.is_time(kind):
        return _time_loss
    if types.is_duration(kind):
        return partial(_duration_loss, kind)
    if is_text(kind):  # Arrow accepts any bytes as text
        return _class_loss((bytes, bytearray, memoryview), "It is bytes and not text; decode it")
    if is_raw(kind):
        return _class_loss((str,), "It is text and not bytes; encode it")
    if types.is_struct(kind):
        return _struct_loss(kind)
    if types.is_map(kind):
        return _map_loss(kind)
    return _list_loss(kind) if types.is_nested(kind) else None


def _whole_number_loss(value: Any) -> str | None:
    # Arrow accepts numpy's booleans, timestamps and durations as numbers.
    if _kind_of_numpy(value) not in NUMBERS:
        return "It is not a number"
    return None if value == int(value) else "Its fraction would be cut off"


def _single_loss(value: Any) -> str | None:
    # Infinity is kept.
    return "It is too large" if TOO_LARGE_FOR_SINGLE <= abs(float(value)) < float("inf") else None


def _double_loss(value: Any) -> str | None:
    # numpy has longer ones. NaN does not equal itself.
    return None if float(value) == value or value != value else "Its last digits would be cut off"


def _date_loss(value: Any) -> str | None:
    if isinstance(value, datetime):
        return "Its time of day would be cut off; return its .date()"
    return None if isinstance(value, date) else "It is not a date"


def _timestamp_loss(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, datetime) and _kind_of_numpy(value) != "M":
        return "It is not a date and time"
    zone = getattr(value, "tzinfo", None)
    if kind.tz is not None and zone is None:
        return "It has no time zone, and the column requires one; add it, for example by .replace(tzinfo=UTC)"
    if kind.tz is None and zone is not None:
        return "Its time zone would be cut off; remove it by .replace(tzinfo=None), or make the column a timestamp with one"
    if isinstance(value, datetime):
        return NO_NANOSECONDS if getattr(value, "nanosecond", 0) else None  # of pandas
    return _unit_loss(kind, value)


def _duration_loss(kind: pa.DataType, value: Any) -> str | None:
    if isinstance(value, timedelta):
        return NO_NANOSECONDS if getattr(value, "nanoseconds", 0) else None
    return _unit_loss(kind, value) if _kind_of_numpy(value) == "m" else "It is not a duration"


def _unit_loss(kind: pa.DataType, value: Any) -> str | None:
    """Return the loss of a numpy value, of which Arrow takes the number whatever its unit is."""
    fits = value.dtype.str.endswith(f"[{kind.unit}]")
    return None if fits else f"Its unit is that of {value.dtype}; convert it to {kind.unit} by .astype"


def _class_loss(classes: tuple[type, ...], problem: str) -> Loss:
    return lambda value: problem if isinstance(value, classes) else None


def _time_loss(value: Any) -> str | None:
    if not isinstance(value, time):
        return "It is not a time of day"
    return None if value.tzinfo is None else "Its time zone would be cut off; remove it by .replace(tzinfo=None)"


def _struct_loss(kind: pa.StructType) -> Loss:
    inner = {field.name: _field_loss(field) for field in kind}
    required = [field.name for field in kind if not field.nullable]

    def loss(value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return "It is not a dictionary"
        strange = next((name for name in value if name not in inner), None)
        if strange is not None:
            return f"Its field {strange!r} would be cut off"
        missing = next((name for name in required if name not in value), None)
        if missing is not None:
            return f"Its field {missing!r} must not be null"
        return _first(inner[name](each) for name, each in value.items())

    return loss


def _map_loss(kind: pa.MapType) -> Loss:
    of_key, of_item = _field_loss(kind.key_field), _field_loss(kind.item_field)

    def loss(value: Any) -> str | None:
        if isinstance(value, TEXT):
            return "It is text"
        pairs = value.items() if isinstance(value, Mapping) else value
        return _first(of_key(key) or of_item(item) for key, item in pairs)

    return loss


def _list_loss(kind: Any) -> Loss:
    among = loss_among(kind.value_field)

    def loss(value: Any) -> str | None:
        if isinstance(value, TEXT):
            return "It is text and not a list"  # Arrow would make a list of the letters
        # numpy, pandas and Arrow have arrays; Arrow would make lists of sets in any order.
        is_list = isinstance(value, list | tuple) or hasattr(value, "__array__")
        return among(value) if is_list else f"It is a {type(value).__name__} and not a list"

    return loss


def _field_loss(field: pa.Field) -> Loss:
    """Return the check for each value, including null."""
    of_value, nullable = _type_loss(field.type), field.nullable

    def loss(value: Any) -> str | None:
        if isinstance(value, pa.Scalar):
            value = value.as_py()  # from a computation with Arrow
        if value is None:
            return None if nullable else NO_NULL
        return None if of_value is None else of_value(value)

    return loss


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _kind_of_numpy(value: Any) -> str | None:
    return getattr(getattr(value, "dtype", None), "kind", None)
