"""Give Arrow rows the types that Iceberg has: each value stays unchanged, or an error names the column.

    rows = in_iceberg_types(pa.table({"at": pa.array([5], pa.time32("s"))}))     # at: time64[us]
    in_iceberg_types(pa.table({"for": pa.array([5], pa.duration("s"))}))         # raises UnwritableFrame
    properties = {TIME_ZONES: json.dumps(time_zones(rows.schema))}               # {"3.0": "Europe/Berlin"}
    field = in_time_zones(field, zones, "3")

Invariant: a type becomes one that fits all of its values (``time32`` becomes ``time64``, ``decimal32`` ``decimal128``), or one
that is checked value by value (``uint64``, nanoseconds, ``date64``, ``decimal256``). Every other type is refused, and so is a
date, time, decimal or text outside of its type's range, which Arrow does not check.

Iceberg stores timestamps as instants in UTC; their time zones, which decide their day and hour, are stored beside the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

import pyarrow as pa
from pyarrow import compute, types

from airflow_snowpack.arrow.casting import cast
from airflow_snowpack.arrow.nesting import EXTENSION, elements_of, inner_fields, with_inner_fields
from airflow_snowpack.interim.errors import UnwritableFrame
from airflow_snowpack.interim.frames.schemas import refuse_names

MAX_DIGITS = 38  # of Iceberg's widest decimal
DAY, EPOCH = 86_400_000_000, date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = date.min.toordinal() - EPOCH, date.max.toordinal() - EPOCH
# The smallest and largest number of each type in microseconds or days; Arrow itself allows all numbers.
RANGES = (
    (types.is_date, FIRST_DAY, LAST_DAY, "a date is before the year 1 or after 9999"),
    (types.is_timestamp, FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1, "a timestamp is before the year 1 or after 9999"),
    (types.is_time, 0, DAY - 1, "a time of day is before 00:00:00 or after 23:59:59.999999"),
)
OUT_OF_RANGE = "Replace the value by null, or store the column as text or numbers"


def in_iceberg_types(rows: pa.Table) -> pa.Table:
    """Return the rows with each column in a type that Iceberg has; timestamps with a zone are in UTC.

    :raises UnwritableFrame: Iceberg has no type for a column, a value does not fit its type, or a column has no name.
    """
    if rows.num_rows and not rows.num_columns:
        raise UnwritableFrame("they have no columns")
    names = [field.name for field in _check_named(rows.schema)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnwritableFrame(f"more than one column is called {', '.join(twice)}", "Rename all but one")
    refuse_names(names)
    columns, fields = [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        kept = _iceberg_field(field, field.name)
        try:
            chunks = [cast(chunk, kept) for chunk in column.chunks]
        except pa.ArrowException as problem:
            raise UnwritableFrame(problem, getattr(problem, "advice", ""), column=f"{field.name} ({field.type})") from problem
        for chunk in chunks:
            _check_range(chunk, field.name)
        fields.append(kept)
        columns.append(pa.chunked_array(chunks, kept.type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _iceberg_field(field: pa.Field, path: str) -> pa.Field:
    """Return the field in a type that Iceberg has; ``path`` names it in errors."""
    if (extension := (field.metadata or {}).get(EXTENSION)) is not None:
        problem = f"Iceberg has no type for Arrow's extension type {extension.decode(errors='replace')}"
        raise UnwritableFrame(problem, f"Cast it, for example to {field.type}", column=path)
    return pa.field(field.name, _iceberg_type(field.type, path), field.nullable)


def _check_range(array: Any, path: str) -> None:
    """Raise :class:`UnwritableFrame` for values that no other engine accepts for their type.

    :param array: in Iceberg's types, rebuilt by :func:`cast`, so every value inside belongs to a row.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return
    if inner_fields(kind):
        for name, part in _inner_arrays(array):
            _check_range(part, f"{path}.{name}")
        return
    for is_kind, smallest, largest, problem in RANGES:
        if is_kind(kind):
            found = compute.min_max(array.cast(pa.int32() if types.is_date(kind) else pa.int64())).as_py()
            if found["min"] is not None and not smallest <= found["min"] <= found["max"] <= largest:
                raise UnwritableFrame(problem, OUT_OF_RANGE, column=f"{path} ({kind})")
    try:
        array.validate(full=True)  # decimals with more digits than their type, text that is not UTF-8
    except pa.ArrowInvalid as problem:
        raise UnwritableFrame(problem, "Cast the column to a type that fits all of its values", column=path) from problem


def _inner_arrays(array: Any) -> list[tuple[str, Any]]:
    """Return the arrays inside a struct, map or list, each with its name for errors."""
    if types.is_struct(array.type):
        return [(field.name, part) for field, part in zip(array.type, array.flatten(), strict=True)]
    if types.is_map(array.type):
        return [("key", array.keys), ("value", array.items)]
    return [("element", elements_of(array))]


def time_zones(schema: pa.Schema) -> dict[str, str]:
    """Return the zones of timestamps other than UTC, by positions of columns and inner fields: ``{"3.0": "Europe/Berlin"}``."""
    return dict(_zones(schema, ()))


def in_time_zones(field: pa.Field, zones: Mapping[str, str], place: str) -> pa.Field:
    """Return the field at this position with the zones from :func:`time_zones`."""
    kind = field.type
    if types.is_timestamp(kind) and place in zones:
        return field.with_type(pa.timestamp(kind.unit, zones[place]))
    inner = [in_time_zones(each, zones, f"{place}.{inside}") for inside, each in enumerate(inner_fields(kind))]
    return field.with_type(with_inner_fields(kind, inner))


def _zones(fields: Iterable[pa.Field], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for place, field in enumerate(fields):
        path, kind = (*above, str(place)), field.type
        while types.is_dictionary(kind) or types.is_run_end_encoded(kind):
            kind = kind.value_type
        if types.is_timestamp(kind) and kind.tz is not None and kind.tz != "UTC":
            yield ".".join(path), kind.tz
        yield from _zones(inner_fields(kind), path)


def _iceberg_type(kind: pa.DataType, path: str) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _extension_type(kind, path)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _iceberg_type(kind.value_type, path)
    if types.is_struct(kind):
        if not kind.num_fields:
            raise UnwritableFrame("a struct has no fields", "Drop it, or add a field", column=path)
        # Arrow's Parquet writer would store a null in a required field of a null struct.
        return pa.struct([_iceberg_field(each, f"{path}.{each.name}").with_nullable(True) for each in _check_named(kind)])
    if types.is_map(kind):
        return pa.map_(_iceberg_field(kind.key_field, f"{path}.key"), _iceberg_field(kind.item_field, f"{path}.value"))
    if types.is_large_list(kind) or types.is_large_list_view(kind):
        return pa.large_list(_iceberg_field(kind.value_field, f"{path}.element"))
    if types.is_list(kind) or types.is_list_view(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_iceberg_field(kind.value_field, f"{path}.element"))
    return _temporal_type(kind, path) if types.is_temporal(kind) else _plain_type(kind, path)


def _extension_type(kind: Any, path: str) -> pa.DataType:
    if isinstance(kind, pa.UuidType):
        return kind
    if isinstance(kind, pa.Bool8Type):
        return pa.bool_()
    if isinstance(kind, pa.JsonType):
        return _iceberg_type(kind.storage_type, path)
    raise UnwritableFrame(f"Iceberg has no type for {kind}", f"Cast it, for example to {kind.storage_type}", column=path)


def _temporal_type(kind: Any, path: str) -> pa.DataType:
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_date(kind):
        return pa.date32()
    raise UnwritableFrame(f"Iceberg has no type for {kind}", "Cast it, for example to a number", column=path)


def _plain_type(kind: Any, path: str) -> pa.DataType:
    if types.is_integer(kind):
        return pa.int32() if kind.bit_width < 32 or kind.equals(pa.int32()) else pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_decimal(kind):
        return _decimal_type(kind, path)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if types.is_null(kind):
        raise UnwritableFrame("it has only nulls and no type", "Cast it to one", column=path)
    known = (types.is_boolean, types.is_floating, types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_kind(kind) for is_kind in (*known, types.is_fixed_size_binary)):
        return kind
    raise UnwritableFrame(f"Iceberg has no type for {kind}", "Cast it to a type that Iceberg has", column=path)


def _decimal_type(kind: Any, path: str) -> pa.DataType:
    scale = max(kind.scale, 0)
    digits = kind.precision - min(kind.scale, 0)
    if scale > MAX_DIGITS or (digits > MAX_DIGITS and kind.bit_width < 256):
        problem = f"Iceberg's decimals have at most {MAX_DIGITS} digits, and {kind} has more"
        raise UnwritableFrame(problem, "Cast it to a decimal with fewer digits, or to text", column=path)
    return pa.decimal128(max(min(digits, MAX_DIGITS), scale), scale)


def _check_named(fields: Iterable[pa.Field]) -> list[pa.Field]:
    named = list(fields)
    if not all(field.name for field in named):
        raise UnwritableFrame("a column, or a field of one, has no name", "Give it one")
    return named
