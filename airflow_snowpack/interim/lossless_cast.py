"""A column of Arrow as another type, whole: Arrow alone makes dates of moments and local times of instants, and does not say.

    cast_whole(pa.array([1, 2]), pa.int32())                       # as Arrow casts it
    cast_whole(pa.array([1.005]), pa.decimal128(9, 2))             # raises CutOff: not all of its values could be had back

The invariant: the new column, cast back, is the old one. The one exception are columns of single precision, ``float``: they
round, which is what they are for.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import compute, types


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
