"""Gives an Arrow array another type of the same shape: fields by their place, values unchanged, every null where it was.

    retyped(pa.array([None, [], [{"sku": "x"}]]), pa.field("items", pa.large_list(pa.struct([("sku", pa.string())]))))

Arrow's own casts of nested arrays lose nulls, depending on slices and on what is inside, and PyIceberg's projection turns
null lists into empty ones. So lists, maps and structs are rebuilt here from their lengths, validity and children. The invariant:
the result has the Python values of the original, or an error names the type that does not fit one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

# Types into which Arrow casts with a silent loss; all other casts are safe by themselves.
CHECKED = (types.is_temporal, types.is_decimal, types.is_integer)


class DoesNotFit(pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """A value that does not fit the other type, or another shape."""


def retyped(array: Any, field: pa.Field) -> pa.Array:
    """Return the values in the field's type, with the names of its inner fields and their metadata.

    :raises pyarrow.ArrowException: a value does not fit, is null where the field is required, or the shapes differ.
    """
    made = _as_type(_plain(array), field.type)
    if made.null_count and not field.nullable:
        raise DoesNotFit(f"{field.name} must not be null")
    return made


def _plain(array: Any) -> Any:
    """Return the array without an encoding."""
    if types.is_dictionary(array.type):
        return _plain(array.dictionary_decode())
    if types.is_run_end_encoded(array.type):
        return _plain(compute.run_end_decode(array))
    return array


def _as_type(array: Any, kind: pa.DataType) -> Any:
    if array.type.equals(kind) and not types.is_nested(kind):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return _as_type(_plain(array.storage), kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _as_type(array, kind.storage_type))
    if types.is_struct(kind):
        return _struct(array, kind)
    if types.is_map(kind):
        return _map(array, kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return _list(array, kind)
    return _value(array, kind)


def _value(array: Any, kind: Any) -> Any:
    own = array.type
    if types.is_decimal(own) and own.scale < 0:
        return pa.array(array.to_pylist(), kind)  # Arrow casts none of these
    if types.is_nested(own):
        raise DoesNotFit(f"{own} is not {kind}")
    made = array.cast(kind)
    if any(is_kind(kind) for is_kind in CHECKED) and not made.cast(own).equals(array):
        raise DoesNotFit(f"casting from {own} to {kind} would lose data")
    return made


def _struct(array: Any, kind: Any) -> pa.Array:
    if not types.is_struct(array.type) or array.type.num_fields != kind.num_fields:
        raise DoesNotFit(f"{array.type} is not {kind}")
    missing = array.is_null() if array.null_count else None
    children = []
    for field, child in zip(kind, array.flatten(), strict=True):
        made = _as_type(_plain(child), field.type)
        # A null struct has no fields that could be null.
        if not field.nullable and made.null_count > array.null_count:
            raise DoesNotFit(f"{field.name} must not be null")
        children.append(made)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)


def _list(array: Any, kind: Any) -> pa.Array:
    if not types.is_nested(array.type) or types.is_struct(array.type) or types.is_map(array.type):
        raise DoesNotFit(f"{array.type} is not {kind}")
    elements = retyped(array.flatten(), kind.value_field)
    missing = array.is_null() if array.null_count else None
    make = pa.LargeListArray if types.is_large_list(kind) else pa.ListArray
    return make.from_arrays(_offsets(array, types.is_large_list(kind)), elements, type=kind, mask=missing)


def _map(array: Any, kind: Any) -> pa.Array:
    own = array.type
    if not types.is_map(own):
        raise DoesNotFit(f"{own} is not {kind}")
    pairs = _pairs(array)
    entries = pairs.flatten()
    keys, items = retyped(entries.field(0), kind.key_field), retyped(entries.field(1), kind.item_field)
    missing = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(_offsets(pairs, False), keys, items, type=kind, mask=missing)


def _pairs(array: Any) -> pa.Array:
    """Return the map as the list of structs that it is, buffer by buffer."""
    own = array.type
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=[own.key_field, own.item_field])
    kind = pa.list_(pa.field("entries", entries.type, nullable=False))
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _offsets(array: Any, large: bool) -> pa.Array:
    """Return where each list begins among the elements that belong to one."""
    lengths = compute.fill_null(compute.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return pa.array(ends, pa.int64()).cast(pa.int64() if large else pa.int32())
