"""The columns of shards: their type names in the manifest, and the check whether a format can hold them.

    check_columns(pyarrow.schema([("id", pyarrow.int64()), ("tags", pyarrow.struct([]))]), ShardFormat.PARQUET)     # InvalidBuild
    arrow_type("timestamp[us, tz=UTC]") == pyarrow.timestamp("us", "UTC")

Columns are checked when a build is declared, as each shard's writer would fail in the same way. A manifest has Arrow's own names
of types. The invariant: ``arrow_type(str(type)) == type`` for every type that passes the check, except a struct with a field
whose name contains ": " or " not null"; such a column needs Parquet shards, which carry their own schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import ShardFormat, plain_text
from airflow_snowpack.builds.sqlite_values import to_cells

NOTHING = pa.array([], pa.int64())


def check_columns(schema: pa.Schema, shard_format: ShardFormat) -> None:
    """Check names and types.

    :raises InvalidBuild: a name is not Unicode text without NUL, or a shard of this format cannot hold a type.
    """
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
    nothing.take(NOTHING)  # as rows are placed
    if shard_format is ShardFormat.PARQUET:
        pq.write_table(nothing, pa.BufferOutputStream())
        return
    for field in schema:
        if _without_nullness(arrow_type(str(field.type))) != _without_nullness(field.type):
            raise InvalidBuild("columns", field.name, f"the manifest cannot distinguish {field.type} from another type")
        to_cells(nothing.column(field.name) if schema.names.count(field.name) == 1 else pa.array([], field.type))


def _without_nullness(kind: pa.DataType) -> pa.DataType:
    """Return the type without what no value depends on, such as the nullability of a map's values, which Arrow's names omit."""
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _without_nullness(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_without_nullness(kind.key_type), _without_nullness(kind.item_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_without_nullness(kind.value_type), kind.list_size)
    if types.is_list(kind):
        return pa.list_(_without_nullness(kind.value_type))
    if types.is_large_list(kind):
        return pa.large_list(_without_nullness(kind.value_type))
    return kind


_TIMESTAMP = re.compile(r"timestamp\[(\w+), tz=(.+)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_BINARY = re.compile(r"fixed_size_binary\[(\d+)\]")
_NESTED = re.compile(r"(list|large_list|fixed_size_list|struct|map|dictionary)<(.*)>(?:\[(\d+)\])?", re.DOTALL)
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}
_ENTRIES = re.compile(r" \('[^']*'\)$")
_NOT_NULL = " not null"


def arrow_type(text: str) -> pa.DataType:
    """Return the type of this name.

    :raises InvalidBuild: no type has this name.
    """
    try:
        return _read(text)
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        raise InvalidBuild("columns", text, "it is not the name of an Arrow type") from None


def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """Return the schema of a manifest's columns.

    :raises InvalidBuild: a column's type is unknown.
    """
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
            # Arrow appends the name of the entries if it is not its default, as after reading Parquet; no value depends on it.
            key, item = list(_parts(_ENTRIES.sub("", inside)))[:2]
            return pa.map_(_read(key), _read(item.removesuffix(_NOT_NULL)))
    parts = dict(part.split("=", 1) for part in _parts(inside))
    return pa.dictionary(_read(parts["indices"]), _read(parts["values"]), parts["ordered"] == "1")


def _field(text: str) -> pa.Field:
    name, _, kind = text.partition(": ")
    return pa.field(name, _read(kind.removesuffix(_NOT_NULL)), nullable=not kind.endswith(_NOT_NULL))


def _parts(text: str) -> Iterator[str]:
    """Yield what is between the commas outside of brackets."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character in "<[(") - (character in ">])")
        if depth == 0 and text.startswith(", ", at):
            yield text[begin:at]
            begin = at + 2
    if text:
        yield text[begin:]
