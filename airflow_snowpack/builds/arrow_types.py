"""Arrow's types, read back from the words in which Arrow tells them: a manifest names the type of each column so.

    >>> arrow_type("timestamp[us, tz=UTC]") == pyarrow.timestamp("us", "UTC")
    True

The invariant: ``arrow_type(str(type)) == type`` for every type that a shard may hold. Only a struct's field whose name has ": "
or " not null" in it cannot be told apart from its type; such a column is kept in Parquet shards, which carry their own schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild

_TIMESTAMP = re.compile(r"timestamp\[(\w+), tz=(.+)\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_BINARY = re.compile(r"fixed_size_binary\[(\d+)\]")
_NESTED = re.compile(r"(list|large_list|fixed_size_list|struct|map|dictionary)<(.*)>(?:\[(\d+)\])?", re.DOTALL)
_DECIMALS = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}
_ENTRIES = re.compile(r" \('[^']*'\)$")
_NOT_NULL = " not null"


def arrow_type(text: str) -> pa.DataType:
    """The type that Arrow calls so.

    :raises InvalidBuild: no type is called so.
    """
    try:
        return _read(text)
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        raise InvalidBuild("columns", text, "it is not the name of an Arrow type") from None


def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """The schema of a manifest's columns.

    :raises InvalidBuild: a column's type is none.
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
            # Arrow adds the name of the entries where it is not its own, as after reading Parquet; no value depends on it.
            key, item = list(_parts(_ENTRIES.sub("", inside)))[:2]
            return pa.map_(_read(key), _read(item.removesuffix(_NOT_NULL)))
    told = dict(part.split("=", 1) for part in _parts(inside))
    return pa.dictionary(_read(told["indices"]), _read(told["values"]), told["ordered"] == "1")


def _field(text: str) -> pa.Field:
    name, _, kind = text.partition(": ")
    return pa.field(name, _read(kind.removesuffix(_NOT_NULL)), nullable=not kind.endswith(_NOT_NULL))


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas that stand in no bracket."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character in "<[(") - (character in ">])")
        if depth == 0 and text.startswith(", ", at):
            yield text[begin:at]
            begin = at + 2
    if text:
        yield text[begin:]
