"""What Arrow would change of a Python value on its way into a column, and not say: it makes 1 of 1.5 where whole numbers stand.

    loss = loss_among(pa.field("n", pa.int64()))
    loss([1, 2.0]), loss([1, np.float64(2.5)])       # None, "Its fraction would be cut off"

What Arrow refuses (text for a number, a decimal with too many places, a number that is too large) is not looked at here: whoever
asks has a column that Arrow has made. The invariant: what comes back from a column equals what went into it, of whichever class
that was. The one exception are columns of single precision, ``float``: they round, which is what they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import compute, types

Loss = Callable[[Any], str | None]

# Half a step above the largest number of single precision (IEEE 754, binary32): from here on they round to infinity.
TOO_LARGE_FOR_SINGLE = float(2**128 - 2**103)
NUMBERS = (None, "i", "u", "f")  # as numpy has them; None: it is not numpy's
TEXT = (str, bytes, bytearray)


def is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_raw(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


# Values of these classes are kept by columns of these types, whatever the values are.
KEPT: list[tuple[Callable[[pa.DataType], bool], set[type]]] = [
    (types.is_integer, {int}),
    (types.is_floating, {int, float}),
    (is_text, {str}),
    (is_raw, {bytes}),
]
NO_NULL = "It must not be null"
NO_NANOSECONDS = "Its nanoseconds would be cut off"


def loss_among(field: pa.Field) -> Callable[[Iterable[Any]], str | None]:
    """What to ask about the values of a column, or of a list: what the first that loses something would lose, or ``None``."""
    of_value, unharmed = _inside(field), _unharmed(field)

    def loss(values: Iterable[Any]) -> str | None:
        return None if unharmed(values) else _first(map(of_value, values))

    return loss


def _unharmed(field: pa.Field) -> Callable[[Iterable[Any]], bool]:
    """Tells of most columns and lists quickly that each value is kept, so that none has to be asked alone."""
    kind, nullable = field.type, field.nullable
    if nullable and _loss_in(kind) is None:
        return lambda values: True
    if types.is_float32(kind):

        def no_infinity(values: Iterable[Any]) -> bool:
            made = pa.array(values, kind)
            return (nullable or not made.null_count) and not compute.any(compute.is_inf(made)).as_py()

        return no_infinity
    kept = next((classes for is_kind, classes in KEPT if is_kind(kind)), set())
    classes = frozenset(kept | {type(None)} if nullable else kept)
    return lambda values: classes.issuperset(map(type, values))


def _loss_in(kind: pa.DataType) -> Loss | None:
    """What to ask about each value but null; ``None``: nothing."""
    if types.is_integer(kind):
        return _of_whole_number
    if types.is_float32(kind):
        return _of_single
    if types.is_floating(kind):
        return _of_double
    if types.is_date(kind):
        return _of_date
    if types.is_timestamp(kind):
        return partial(_of_moment, kind)
    if types.is_time(kind):
        return _of_time
    if types.is_duration(kind):
        return partial(_of_duration, kind)
    if is_text(kind):
        return _of_text
    if is_raw(kind):
        return _of_bytes
    if types.is_struct(kind):
        return _in_fields(kind)
    if types.is_map(kind):
        return _in_items(kind)
    return _in_elements(kind) if types.is_nested(kind) else None


def _of_whole_number(value: Any) -> str | None:
    # Arrow takes numpy's truth, moments and durations for numbers.
    if _kind_of_numpy(value) not in NUMBERS:
        return "It is no number"
    return None if value == int(value) else "Its fraction would be cut off"


def _of_single(value: Any) -> str | None:
    # Infinity itself is kept.
    return "It is too large" if TOO_LARGE_FOR_SINGLE <= abs(float(value)) < float("inf") else None


def _of_double(value: Any) -> str | None:
    # numpy has longer ones. What is not a number does not equal itself.
    return None if float(value) == value or value != value else "Its last digits would be cut off"


def _of_date(value: Any) -> str | None:
    if isinstance(value, datetime):
        return "Its time of day would be cut off; give its .date()"
    return None if isinstance(value, date) else "It is no date"


def _of_moment(kind: pa.DataType, value: Any) -> str | None:
    if not isinstance(value, datetime) and _kind_of_numpy(value) != "M":
        return "It is no date and time"
    zone = getattr(value, "tzinfo", None)
    if kind.tz is not None and zone is None:
        return "It has no time zone, and the column's moments have; give it one, as by .replace(tzinfo=UTC)"
    if kind.tz is None and zone is not None:
        return (
            "Its time zone would be cut off; take it off, as by .replace(tzinfo=None), or let the column be a timestamp with one"
        )
    if isinstance(value, datetime):
        return NO_NANOSECONDS if getattr(value, "nanosecond", 0) else None  # those of pandas
    return _of_unit(kind, value)


def _of_duration(kind: pa.DataType, value: Any) -> str | None:
    if isinstance(value, timedelta):
        return NO_NANOSECONDS if getattr(value, "nanoseconds", 0) else None
    return _of_unit(kind, value) if _kind_of_numpy(value) == "m" else "It is no duration"


def _of_unit(kind: pa.DataType, value: Any) -> str | None:
    """Of numpy's arrays Arrow takes the numbers, whatever they count."""
    fits = value.dtype.str.endswith(f"[{kind.unit}]")
    return None if fits else f"It counts {value.dtype}; give it in {kind.unit}, as by .astype"


def _of_text(value: Any) -> str | None:
    # Arrow takes bytes for text, also those that are none.
    return "It is bytes and no text; decode it" if isinstance(value, bytes | bytearray | memoryview) else None


def _of_bytes(value: Any) -> str | None:
    return "It is text and no bytes; encode it" if isinstance(value, str) else None


def _of_time(value: Any) -> str | None:
    if not isinstance(value, time):
        return "It is no time of day"
    return None if value.tzinfo is None else "Its time zone would be cut off; take it off, as by .replace(tzinfo=None)"


def _in_fields(kind: pa.StructType) -> Loss:
    inner = {field.name: _inside(field) for field in kind}
    required = [field.name for field in kind if not field.nullable]

    def loss(value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return "It is no dictionary"
        strange = next((name for name in value if name not in inner), None)
        if strange is not None:
            return f"Its field {strange!r} would be cut off"
        missing = next((name for name in required if name not in value), None)
        if missing is not None:
            return f"Its field {missing!r} must not be null"
        return _first(inner[name](each) for name, each in value.items())

    return loss


def _in_items(kind: pa.MapType) -> Loss:
    of_key, of_item = _inside(kind.key_field), _inside(kind.item_field)

    def loss(value: Any) -> str | None:
        if isinstance(value, TEXT):
            return "It is text"
        pairs = value.items() if isinstance(value, Mapping) else value
        return _first(of_key(key) or of_item(item) for key, item in pairs)

    return loss


def _in_elements(kind: Any) -> Loss:
    among = loss_among(kind.value_field)

    def loss(value: Any) -> str | None:
        return "It is text, of which a list of letters would become" if isinstance(value, TEXT) else among(value)

    return loss


def _inside(field: pa.Field) -> Loss:
    """What to ask about each value, null too."""
    of_value, nullable = _loss_in(field.type), field.nullable

    def loss(value: Any) -> str | None:
        if isinstance(value, pa.Scalar):
            value = value.as_py()  # what computing with Arrow gives
        if value is None:
            return None if nullable else NO_NULL
        return None if of_value is None else of_value(value)

    return loss


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _kind_of_numpy(value: Any) -> str | None:
    return getattr(getattr(value, "dtype", None), "kind", None)


class CutOff(pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """What Arrow itself would not have refused."""


def cast_whole(column: Any, kind: pa.DataType) -> Any:
    """The column in this type.

    :raises pyarrow.ArrowException: it cannot be cast, or something would be cut off.
    """
    if column.type.equals(kind):
        return column
    if types.is_dictionary(column.type):
        return cast_whole(column.dictionary_decode(), kind)
    made = column.cast(kind)
    problem = _loss(column, made)
    if problem is not None:
        raise CutOff(problem)
    return made


def _loss(before: Any, after: Any) -> str | None:
    """What ``after``, cast from ``before``, has lost."""
    old, new = before.type, after.type
    if old.equals(new) or types.is_null(old) or types.is_string(new):
        return None
    if types.is_nested(old) and types.is_nested(new):
        return _loss_inside(before, after)
    if types.is_temporal(new) and not types.is_temporal(old):
        return f"{old} is no date or time"
    if types.is_timestamp(old) and types.is_timestamp(new) and (old.tz is None) != (new.tz is None):
        return "only one of the two has a time zone; give the moments one, or take it off"
    if types.is_floating(old) and types.is_floating(new):
        grown = compute.and_not(compute.is_inf(after), compute.is_inf(before))
        return "a value is too large" if compute.any(grown).as_py() else None
    return None if after.cast(old).equals(before) else "something would be cut off"


def _loss_inside(before: Any, after: Any) -> str | None:
    old, new = _parts(before), _parts(after)
    strange = [name for name in old if name not in new]
    if strange:
        return f"{', '.join(strange)} would be cut off"
    for name, (field, part) in new.items():
        if part.null_count and not field.nullable:
            return f"{name} must not be null"
        problem = _loss(old[name][1], part) if name in old else None
        if problem is not None:
            return problem
    return None


def _parts(column: Any) -> dict[str, tuple[pa.Field, Any]]:
    """What stands inside of each value, with what it may be."""
    kind = column.type
    if types.is_struct(kind):
        there = column.drop_null().flatten()
        return {field.name: (field, part) for field, part in zip(kind, there, strict=True)}
    if types.is_map(kind):
        # Keys and items know nothing of what a slice has left out; a copy has left out nothing.
        whole = column.take(pa.array(range(len(column)), pa.int64()))
        return {"its keys": (kind.key_field, whole.keys), "its items": (kind.item_field, whole.items)}
    return {"an element": (kind.value_field, column.flatten())}
