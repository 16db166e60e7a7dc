"""Whether Arrow keeps a Python value as it is: it makes 1 of 1.5 where whole numbers stand, and says nothing.

    keeps = keeper(pa.int64())
    keeps(2.0), keeps(2.5)            # True, False; None for a kind whose every loss Arrow itself refuses

What Arrow refuses (text for a number, a decimal with too many places, a number that is too large) is not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow import types

Keeps = Callable[[Any], bool]


def keeper(kind: pa.DataType) -> Keeps | None:
    """What to ask about each value but null; ``None``: nothing."""
    if types.is_integer(kind):
        return _whole
    if types.is_date(kind):
        return _no_time
    if types.is_struct(kind):
        return _fields({field.name: keeper(field.type) for field in kind})
    if types.is_map(kind):
        return _items(keeper(kind.key_type), keeper(kind.item_type))
    if types.is_nested(kind):
        return _elements(keeper(kind.value_type))
    return None


def _whole(value: Any) -> bool:
    return type(value) is not float or value.is_integer()


def _no_time(value: Any) -> bool:
    return not isinstance(value, datetime)


def _kept(keeps: Keeps | None, value: Any) -> bool:
    return keeps is None or value is None or keeps(value)


def _fields(inner: Mapping[str, Keeps | None]) -> Keeps:
    def keeps(value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        return all(name in inner and _kept(inner[name], each) for name, each in value.items())

    return keeps


def _items(keys: Keeps | None, items: Keeps | None) -> Keeps:
    def keeps(value: Any) -> bool:
        pairs = value.items() if isinstance(value, Mapping) else value
        return all(_kept(keys, key) and _kept(items, item) for key, item in pairs)

    return keeps


def _elements(inner: Keeps | None) -> Keeps:
    def keeps(value: Any) -> bool:
        # Text would become a list of its letters.
        return not isinstance(value, str | bytes) and (inner is None or all(_kept(inner, each) for each in value))

    return keeps
