"""Convert Arrow values to the five kinds of values that SQLite has, and back.

    cells = to_cells(pyarrow.array([Decimal("1.50"), None]))   # ["1.50", None]
    read = from_cell(pyarrow.decimal128(10, 2))                # read("1.50") == Decimal("1.50")

Integers, floats, strings and bytes are themselves; a boolean is 0 or 1; timestamps, dates, times and durations are integers in
the unit of their type; decimals are text; lists, structs and maps are JSON text. NaN is the text ``nan``, as SQLite would store
it as NULL; an integer of 2^63 or more is text. The invariant: what is read equals Arrow's ``as_py`` of the value that was
written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import types

from airflow_snowpack.builds.errors import InvalidBuild

Cell = int | float | str | bytes | None
Read = Callable[[Any], Any]

INTEGER_LIMIT = 2**63
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
EPOCH, EPOCH_UTC, EPOCH_DAY = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)  # noqa: DTZ001 — of columns without a zone


def to_cells(array: pa.Array | pa.ChunkedArray) -> list[Cell]:
    """Return the values of a column as parameters for SQLite.

    :raises InvalidBuild: the column has intervals, which SQLite cannot represent.
    """
    kind = array.type
    if types.is_dictionary(kind):
        return to_cells(array.cast(kind.value_type))
    if _is_temporal(kind):
        return _as_integers(array)
    values = array.to_pylist()
    if types.is_boolean(kind):
        return [None if value is None else int(value) for value in values]
    if types.is_uint64(kind):
        return [str(value) if value is not None and value >= INTEGER_LIMIT else value for value in values]
    if types.is_floating(kind):
        return ["nan" if value is not None and math.isnan(value) else value for value in values]
    if types.is_decimal(kind):
        return [None if value is None else str(value) for value in values]
    if types.is_nested(kind):
        plain = _to_json(kind)
        return [None if value is None else json.dumps(plain(value), ensure_ascii=False) for value in values]
    if kind == pa.month_day_nano_interval():
        raise InvalidBuild("columns", str(kind), "a SQLite shard cannot hold it; cast it to a duration, or write Parquet shards")
    return list(values)


def from_cell(kind: pa.DataType) -> Read | None:
    """Return the function that converts a cell other than NULL to its value; ``None`` if the cell is the value."""
    if types.is_dictionary(kind):
        return from_cell(kind.value_type)
    if types.is_boolean(kind):
        return bool
    if types.is_uint64(kind):
        return int
    if types.is_floating(kind):
        return float
    if types.is_decimal(kind):
        return Decimal
    if _is_temporal(kind):
        return _from_integer(kind)
    if types.is_nested(kind):
        plain = _from_json(kind)
        return lambda text: plain(json.loads(text))
    return None


def arrow_array(cells: Sequence[Cell], kind: pa.DataType) -> pa.Array:
    """Return the column that was written as these cells."""
    if types.is_dictionary(kind):
        return arrow_array(cells, kind.value_type).cast(kind)
    if _is_temporal(kind):
        return pa.array(cells, _integers_of(kind)).cast(kind)
    read = from_cell(kind)
    return pa.array(cells if read is None else [None if cell is None else read(cell) for cell in cells], kind)


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(types.is_temporal(kind)) and kind != pa.month_day_nano_interval()


def _integers_of(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _as_integers(array: pa.Array | pa.ChunkedArray) -> list[Cell]:
    numbers: list[Cell] = array.cast(_integers_of(array.type)).to_pylist()
    return numbers


def _from_integer(kind: pa.DataType) -> Read:
    if types.is_date32(kind):
        return lambda days: EPOCH_DAY + timedelta(days=days)
    unit = MICROSECONDS.get(getattr(kind, "unit", ""))
    if unit is not None and types.is_timestamp(kind):
        if kind.tz is None:
            return lambda count: EPOCH + timedelta(microseconds=count * unit)
        zone = _zone(kind.tz)
        if zone is not None:
            return lambda count: (EPOCH_UTC + timedelta(microseconds=count * unit)).astimezone(zone)
    integers = _integers_of(kind)
    return lambda count: pa.array([count], integers).cast(kind)[0].as_py()


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None  # an offset such as +02:00, which Arrow supports


def _to_json(kind: pa.DataType) -> Read:
    """Return the function that converts a nested value to what JSON can hold; null stays null at every depth."""
    if types.is_struct(kind):
        parts = [(field.name, _nullable(_to_json(field.type))) for field in kind]
        return lambda value: {name: part(value[name]) for name, part in parts}
    if types.is_map(kind):
        key, item = _to_json(kind.key_type), _nullable(_to_json(kind.item_type))
        return lambda value: [[key(name), item(each)] for name, each in value]
    if types.is_nested(kind):
        inner = _nullable(_to_json(kind.value_type))
        return lambda value: [inner(each) for each in value]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    return lambda value: to_cells(pa.array([value], kind))[0]


def _from_json(kind: pa.DataType) -> Read:
    if types.is_struct(kind):
        parts = [(field.name, _nullable(_from_json(field.type))) for field in kind]
        return lambda value: {name: part(value[name]) for name, part in parts}
    if types.is_map(kind):
        key, item = _from_json(kind.key_type), _nullable(_from_json(kind.item_type))
        return lambda value: [(key(name), item(each)) for name, each in value]
    if types.is_nested(kind):
        inner = _nullable(_from_json(kind.value_type))
        return lambda value: [inner(each) for each in value]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return base64.b64decode
    return from_cell(kind) or (lambda value: value)


def _nullable(read: Read) -> Read:
    return lambda value: None if value is None else read(value)
