"""Cast columns to other types: each value and null stays unchanged, or an error has the reason.

    cast(pa.array([1, None], pa.uint64()), pa.field("n", pa.int64()))
    cast(pa.array([1.005]), pa.field("n", pa.decimal128(9, 2)))                  # raises DoesNotFit
    cast_batch(batch, schema)

Arrow's casts turn timestamps into dates and instants into local times silently, and those of nested arrays lose nulls, depending
on slices and content. So lists, maps and structs are rebuilt here from their lengths, validity and children. Invariant: a cast
array has the Python values of the original, except in columns of single precision, ``float``, which round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from airflow_snowpack.arrow.nesting import elements_of, inner_fields

# Arrow's casts to all other types are safe.
CHECKED = (types.is_temporal, types.is_decimal, types.is_integer, types.is_floating, types.is_boolean)
FILL = "Replace its nulls, or make the field nullable"


class DoesNotFit(pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """A value does not fit the other type, or the shapes differ; ``advice`` is what the owner of the rows can do."""

    def __init__(self, problem: object, advice: str = "") -> None:
        super().__init__(str(problem))
        self.advice = advice


def cast_batch(rows: pa.RecordBatch, schema: pa.Schema, *, by_name: bool = False) -> pa.RecordBatch:
    """Return the rows with these columns, matched by position; parameters and errors as of :func:`cast`."""
    made = [cast(column, field, by_name=by_name) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def cast(array: Any, field: pa.Field, *, by_name: bool = False) -> pa.Array:
    """Return the values in the field's type, with the names and metadata of its inner fields.

    :param by_name: match the fields of structs by name instead of by position; a missing field is null.
    :raises pyarrow.ArrowException: a value does not fit, is null in a required field, or the shapes differ.
    """
    made = _as_type(array, field.type, by_name)
    if made.null_count and not field.nullable:
        raise DoesNotFit(f"{field.name} must not be null", FILL)
    return made


def _plain(array: Any) -> Any:
    """Return the array without dictionary or run-end encoding."""
    if types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if types.is_run_end_encoded(array.type):
        return _plain(compute.run_end_decode(array))
    return array


def _as_type(array: Any, kind: pa.DataType, by_name: bool) -> Any:
    own = array.type
    if own.equals(kind) and not inner_fields(kind) and not (types.is_dictionary(own) and array.dictionary.null_count):
        return array
    array = _plain(array)
    own = array.type
    if types.is_null(own):
        return pa.nulls(len(array), kind)
    if isinstance(own, pa.BaseExtensionType):
        storage = array.storage.cast(pa.bool_()) if isinstance(own, pa.Bool8Type) else array.storage
        return _as_type(storage, kind, by_name)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _as_type(array, kind.storage_type, by_name))
    if types.is_dictionary(kind):
        # Arrow encodes only text and bytes.
        return _as_type(array, kind.value_type, by_name).dictionary_encode().cast(kind)
    if types.is_struct(kind):
        return _struct(array, kind, by_name)
    if types.is_map(kind):
        return _map(array, kind, by_name)
    if types.is_list(kind) or types.is_large_list(kind):
        return _list(array, kind, by_name)
    if types.is_fixed_size_list(kind):
        return _list(array, pa.list_(kind.value_field), by_name).cast(kind)
    return _value(array, kind)


def _value(array: Any, kind: Any) -> Any:
    own = array.type
    if own.equals(kind):  # a view of a list
        return array
    if types.is_nested(own):
        raise DoesNotFit(f"{own} is not {kind}")
    if types.is_temporal(kind) and not types.is_temporal(own):
        raise DoesNotFit(f"{own} is not a date or time")
    if types.is_timestamp(own) and types.is_timestamp(kind) and (own.tz is None) != (kind.tz is None):
        raise DoesNotFit("only one of the two has a time zone; add it to the timestamps, or remove it")
    try:
        if types.is_decimal(own) and own.scale < 0:
            return pa.array(array.to_pylist(), kind)  # Arrow casts none of these
        made = array.cast(kind)
        kept = _is_lossless(array, made)
    except pa.ArrowException as problem:
        raise DoesNotFit(problem, _advice(own)) from problem
    if not kept:
        raise DoesNotFit(f"casting from {own} to {kind} would lose data", _advice(own))
    return made


def _is_lossless(array: Any, made: Any) -> bool:
    own, kind = array.type, made.type
    if types.is_floating(own) and types.is_floating(kind):
        grown = kind.bit_width < own.bit_width and compute.and_not(compute.is_inf(made), compute.is_inf(array))
        return not grown or not compute.any(grown).as_py()
    return not any(is_kind(kind) for is_kind in CHECKED) or bool(made.cast(own).equals(array))


def _advice(own: pa.DataType) -> str:
    if types.is_temporal(own):
        return "Round it to days" if types.is_date(own) else "Round it to microseconds"
    return "Cast it to text, or to a decimal that fits all of its values"


def _struct(array: Any, kind: Any, by_name: bool) -> pa.Array:
    own = array.type
    if not types.is_struct(own) or (own.num_fields != kind.num_fields and not by_name):
        raise DoesNotFit(f"{own} is not {kind}")
    children = array.flatten()
    if by_name:
        named = {field.name: child for field, child in zip(own, children, strict=True)}
        if strange := [name for name in named if kind.get_field_index(name) < 0]:
            raise DoesNotFit(f"{', '.join(strange)} would be cut off")
        children = [named[field.name] if field.name in named else pa.nulls(len(array)) for field in kind]
    made = []
    for field, child in zip(kind, children, strict=True):
        made.append(_as_type(child, field.type, by_name))
        # The fields of a null struct do not count as null.
        if not field.nullable and made[-1].null_count > array.null_count:
            raise DoesNotFit(f"{field.name} must not be null", FILL)
    return pa.StructArray.from_arrays(made, fields=list(kind), mask=_nulls(array))


def _list(array: Any, kind: Any, by_name: bool) -> pa.Array:
    if not types.is_nested(array.type) or types.is_struct(array.type) or types.is_map(array.type):
        raise DoesNotFit(f"{array.type} is not {kind}")
    elements, is_large = cast(elements_of(array), kind.value_field, by_name=by_name), types.is_large_list(kind)
    make = pa.LargeListArray if is_large else pa.ListArray
    return make.from_arrays(_offsets(array, is_large), elements, type=kind, mask=_nulls(array))


def _map(array: Any, kind: Any, by_name: bool) -> pa.Array:
    if not types.is_map(array.type):
        raise DoesNotFit(f"{array.type} is not {kind}")
    pairs = _pairs(array)
    entries = pairs.flatten()
    keys = cast(entries.field(0), kind.key_field, by_name=by_name)
    items = cast(entries.field(1), kind.item_field, by_name=by_name)
    return pa.MapArray.from_arrays(_offsets(pairs, False), keys, items, type=kind, mask=_nulls(array))


def _nulls(array: Any) -> Any:
    return array.is_null() if array.null_count else None


def _pairs(array: Any) -> pa.Array:
    """Return a map as its list of structs, sharing its buffers."""
    own = array.type
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=[own.key_field, own.item_field])
    kind = pa.list_(pa.field("entries", entries.type, nullable=False))
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _offsets(array: Any, large: bool) -> pa.Array:
    """Return the offsets of the lists in the elements, without those that belong to no list."""
    lengths = compute.fill_null(compute.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return pa.array(ends, pa.int64()).cast(pa.int64() if large else pa.int32())
