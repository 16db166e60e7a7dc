"""The columns of shards: the types each format can hold, their names in the manifest, and their values in SQLite.

    check_columns(pyarrow.schema([("id", pyarrow.int64()), ("tags", pyarrow.struct([]))]), ShardFormat.PARQUET)     # InvalidBuild
    arrow_type("timestamp[us, tz=UTC]") == pyarrow.timestamp("us", "UTC")
    to_cells(pyarrow.array([Decimal("1.50"), None])) == ["1.50", None]
    from_cell(pyarrow.decimal128(10, 2))("1.50") == Decimal("1.50")

Columns are checked when a build is declared, as each shard's writer would fail on them. A manifest stores Arrow's type names:
``arrow_type(str(type)) == type`` for every type that passes the check, except for a struct with a field whose name contains ": "
or " not null". Such a column needs Parquet shards, which carry their own schema.

SQLite stores integers, floats, strings and bytes as they are; booleans as 0 or 1; timestamps, dates, times and durations as
integers in the unit of their type; decimals as text; lists, structs and maps as JSON text; NaN as the text ``nan``, because
SQLite stores NaN as NULL; integers from 2^63 as text. Invariant: what is read equals Arrow's ``as_py`` of what was written.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_snowpack.arrow.nesting import inner_fields, with_inner_fields
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import ShardFormat, plain_text

NOTHING = pa.array([], pa.int64())


def check_columns(schema: pa.Schema, shard_format: ShardFormat) -> None:
    """Raise :class:`InvalidBuild` if a name is not Unicode text or contains NUL, or this format cannot hold a type."""
    for field in schema:
        plain_text("columns", field.name)
        if "\0" in field.name:
            raise InvalidBuild("columns", field.name, "a name must not contain NUL")
    try:
        _try(schema, shard_format)
    except (pa.ArrowException, OSError, InvalidBuild):
        for field in schema:
            _check(field, shard_format)
        raise


def _check(field: pa.Field, shard_format: ShardFormat) -> None:
    try:
        _try(pa.schema([field]), shard_format)
    except (pa.ArrowException, OSError, InvalidBuild) as error:
        problem = f"a {shard_format.value} shard cannot hold its type {field.type}; omit it or cast it ({error})"
        raise InvalidBuild("columns", field.name, problem) from error


def _try(schema: pa.Schema, shard_format: ShardFormat) -> None:
    nothing = schema.empty_table()
    nothing.take(NOTHING)  # placing rows takes them
    if shard_format is ShardFormat.PARQUET:
        pq.write_table(nothing, pa.BufferOutputStream())
        return
    for field in schema:
        if _without_nullness(arrow_type(str(field.type))) != _without_nullness(field.type):
            raise InvalidBuild("columns", field.name, f"the manifest cannot distinguish {field.type} from another type")
        to_cells(nothing.column(field.name) if schema.names.count(field.name) == 1 else pa.array([], field.type))


def _without_nullness(kind: pa.DataType) -> pa.DataType:
    """Return the type without what affects no value: the nullability of a map's values, for example, which Arrow's names omit."""
    inner = [field.with_type(_without_nullness(field.type)).with_nullable(True) for field in inner_fields(kind)]
    return with_inner_fields(kind, inner)


_TIMESTAMP = re.compile(r"timestamp\[(\w+), tz=(.+)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_BINARY = re.compile(r"fixed_size_binary\[(\d+)\]")
_NESTED = re.compile(r"(list|large_list|fixed_size_list|struct|map|dictionary)<(.*)>(?:\[(\d+)\])?", re.DOTALL)
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}
_ENTRIES = re.compile(r" \('[^']*'\)$")
_NOT_NULL = " not null"


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of this name, or raise :class:`InvalidBuild` if there is none."""
    try:
        return _read(text)
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        raise InvalidBuild("columns", text, "it is not the name of an Arrow type") from None


def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """Return the schema of a manifest's columns; raises like :func:`arrow_type`."""
    return pa.schema([pa.field(name, arrow_type(text)) for name, text in columns])


def _read(text: str) -> pa.DataType:
    if found := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1], found[2])
    if found := _DECIMAL.fullmatch(text):
        return _DECIMALS[found[1]](int(found[2]), int(found[3]))
    if found := _BINARY.fullmatch(text):
        return pa.binary(int(found[1]))
    if found := _NESTED.fullmatch(text):
        return _nested(found[1], found[2], found[3])
    return pa.type_for_alias(text)


def _nested(kind: str, inside: str, size: str | None) -> pa.DataType:
    match kind:
        case "list":
            return pa.list_(_field(inside))
        case "large_list":
            return pa.large_list(_field(inside))
        case "fixed_size_list":
            return pa.list_(_field(inside), int(size or ""))
        case "struct":
            return pa.struct([_field(part) for part in _parts(inside)])
        case "map":
            # Arrow appends a non-default name of the entries, which Parquet files produce; no value depends on it.
            key, item = list(_parts(_ENTRIES.sub("", inside)))[:2]
            return pa.map_(_read(key), _read(item.removesuffix(_NOT_NULL)))
    parts = dict(part.split("=", 1) for part in _parts(inside))
    return pa.dictionary(_read(parts["indices"]), _read(parts["values"]), parts["ordered"] == "1")


def _field(text: str) -> pa.Field:
    name, _, kind = text.partition(": ")
    return pa.field(name, _read(kind.removesuffix(_NOT_NULL)), nullable=not kind.endswith(_NOT_NULL))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside of brackets."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character in "<[(") - (character in ">])")
        if depth == 0 and text.startswith(", ", at):
            yield text[begin:at]
            begin = at + 2
    if text:
        yield text[begin:]


Cell = int | float | str | bytes | None
Read = Callable[[Any], Any]

INTEGER_LIMIT = 2**63
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
EPOCH, EPOCH_UTC, EPOCH_DAY = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)  # noqa: DTZ001 — of columns without a zone


def to_cells(array: pa.Array | pa.ChunkedArray) -> list[Cell]:
    """Return the values of a column as parameters for SQLite, or raise :class:`InvalidBuild` if they are intervals."""
    kind = array.type
    if types.is_dictionary(kind):
        return to_cells(array.cast(kind.value_type))
    if _is_temporal(kind):
        numbers: list[Cell] = array.cast(_integers_of(kind)).to_pylist()
        return numbers
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
        plain = _each(kind, _to_json, list)
        return [None if value is None else json.dumps(plain(value), ensure_ascii=False) for value in values]
    if kind == pa.month_day_nano_interval():
        raise InvalidBuild("columns", str(kind), "a SQLite shard cannot hold it; cast it to a duration, or write Parquet shards")
    return list(values)


def from_cell(kind: pa.DataType) -> Read | None:
    """Return the function that converts a non-NULL cell to its value; ``None`` if they are equal."""
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
        plain = _each(kind, _from_json, tuple)
        return lambda text: plain(json.loads(text))
    return None


def arrow_array(cells: Sequence[Cell], kind: pa.DataType) -> pa.Array:
    """Return the column that these cells represent."""
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
    """Return the function that converts a value to its JSON-compatible form."""
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    return lambda value: to_cells(pa.array([value], kind))[0]


def _from_json(kind: pa.DataType) -> Read:
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return base64.b64decode
    return from_cell(kind) or (lambda value: value)


def _each(kind: pa.DataType, convert: Callable[[pa.DataType], Read], entry: type[list[Any] | tuple[Any, ...]]) -> Read:
    """Return the function that converts the plain values inside a nested one, except null; map entries become an ``entry``."""
    if types.is_struct(kind):
        parts = [(field.name, _nullable(_each(field.type, convert, entry))) for field in kind]
        return lambda value: {name: part(value[name]) for name, part in parts}
    if types.is_map(kind):
        key, item = _each(kind.key_type, convert, entry), _nullable(_each(kind.item_type, convert, entry))
        return lambda value: [entry((key(name), item(each))) for name, each in value]
    if types.is_nested(kind):
        inner = _nullable(_each(kind.value_type, convert, entry))
        return lambda value: [inner(each) for each in value]
    return convert(kind)


def _nullable(read: Read) -> Read:
    return lambda value: None if value is None else read(value)
