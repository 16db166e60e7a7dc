"""The fields inside of nested types, uniformly for structs, maps and lists.

    inner_fields(pa.map_(pa.string(), pa.int64()))                                # the key's and the value's
    elements_of(pa.array([[1, 2], None, [3]]))                                    # [1, 2, 3]
    with_inner_fields(pa.list_(pa.int8()), [pa.field("item", pa.int64())])        # list<item: int64>

Any other type has no fields inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import compute, types

EXTENSION = b"ARROW:extension:name"
"""The metadata key under which Arrow stores the name of an extension type that it does not know."""


def inner_fields(kind: Any) -> list[pa.Field]:
    """Return the fields inside a struct, map or list; none for any other type."""
    if types.is_struct(kind):
        return list(kind)
    if types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if types.is_nested(kind) and hasattr(kind, "value_field") else []


def elements_of(lists: Any) -> Any:
    """Return the elements of all lists in one array."""
    if not compute.sum(compute.list_value_length(lists)).as_py():
        return lists.values[:0]  # for no elements, Arrow makes no array of an extension type
    return lists.flatten()


def with_inner_fields(kind: Any, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return a type like this one with other fields inside; a type without fields stays as it is."""
    if not fields:
        return kind
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_map(kind):
        return pa.map_(fields[0].with_nullable(False), fields[1])
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.large_list(fields[0]) if types.is_large_list(kind) else pa.list_(fields[0])
