"""What a source library's schema may contain: types that a table can store, and names that every engine reads.

    refuse_types("DuckDB", duckdb_types(relation))         # UnwritableFrame: the column bits.element: DuckDB's BIT …
    refuse_types("Polars", polars_types(frame.schema))
    refuse_types("Spark", spark_types(frame.schema))
    refuse_names(rows.schema.names)                        # UnwritableFrame: the column _file: …

A library's stream may represent a type by one with other values (DuckDB's ``UHUGEINT`` becomes a decimal that wraps around), and
Spark reports a type that Iceberg lacks by a Java error without the column. So the library's own schema is checked before any row
is read. Arrow types are checked afterwards in ``iceberg_types.py``, and pandas' dtypes in ``pandas_rows.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_snowpack.interim.errors import UnwritableFrame

Leaf = tuple[str, str, str]
"""The path of a column or of a field inside, its type's name in ``ALLOWED``, and the type as the library writes it."""

ALLOWED = {
    "DuckDB": {
        *("boolean", "tinyint", "utinyint", "smallint", "usmallint", "integer", "uinteger", "bigint", "ubigint", "hugeint"),
        *("float", "double", "decimal", "varchar", "enum", "uuid", "blob", "date", "time", "time_ns", "timestamp"),
        *("timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone", "timestamptz_ns"),
    },
    "Polars": {
        *("Boolean", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float16", "Float32", "Float64"),
        *("Decimal", "String", "Categorical", "Enum", "Binary", "Date", "Time", "Datetime"),
    },
    "Spark": {
        *("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "char", "varchar", "binary"),
        *("date", "timestamp", "timestamp_ntz"),
    },
}
RESERVED = frozenset(("_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id", "_last_updated_sequence_number"))
"""The names of Iceberg's metadata columns: Spark reads no table with a data column of such a name."""
ADVICE = {
    "uhugeint": "Cast it to HUGEINT, DECIMAL(38, 0) or VARCHAR",
    "variant": "Cast it to JSON or to text",
    "time with time zone": "Cast it to TIME or to VARCHAR",
    "interval": "Cast it to VARCHAR, or store its seconds: epoch(…)",
    "geometry": "Store its text or bytes: ST_AsText(…) or ST_AsWKB(…)",
    "union": "Cast it to VARCHAR or a STRUCT",
    "Int128": "Cast it to pl.Decimal(38, 0) or pl.String",
    "UInt128": "Cast it to pl.Decimal(38, 0) or pl.String",
    "Duration": "Store its microseconds: .dt.total_microseconds()",
    "Object": "Store its values in a column of a type of Polars",
    "void": "Cast it to a type",
}
CAST = {
    "DuckDB": "Cast it to VARCHAR, or to another type that fits all of its values",
    "Polars": "Cast it to a type with values",
    "Spark": "Cast it to a string, or to another type that fits all of its values",
}


def refuse_types(library: str, leaves: Iterable[Leaf]) -> None:
    """Raise :class:`UnwritableFrame` for a type that is not in the library's ``ALLOWED``."""
    for path, name, shown in leaves:
        if name not in ALLOWED[library]:
            raise UnwritableFrame(f"{library}'s {shown} cannot be kept", ADVICE.get(name, CAST[library]), column=path)


def refuse_names(names: Iterable[str]) -> None:
    """Raise :class:`UnwritableFrame` for a column with the name of one of Iceberg's metadata columns."""
    for name in names:
        if name in RESERVED:
            raise UnwritableFrame("Iceberg has a metadata column of this name, so Spark cannot read it", "Rename it", column=name)


def duckdb_types(relation: Any) -> Iterator[Leaf]:
    for path, kind in zip(relation.columns, relation.types, strict=True):
        yield from _duckdb_leaves(path, kind)


def _duckdb_leaves(path: str, kind: Any) -> Iterator[Leaf]:
    if kind.id not in ("list", "array", "struct", "map"):
        yield path, kind.id, str(kind)
        return
    inside = kind.children if kind.id in ("struct", "map") else [("element", kind.children[0][1])]
    for name, each in inside:
        yield from _duckdb_leaves(f"{path}.{name}", each)


def polars_types(schema: Mapping[str, Any]) -> Iterator[Leaf]:
    for path, kind in schema.items():
        yield from _polars_leaves(path, kind)


def _polars_leaves(path: str, kind: Any) -> Iterator[Leaf]:
    match name := kind.base_type().__name__:
        case "Struct":
            yield from (leaf for field in kind.fields for leaf in _polars_leaves(f"{path}.{field.name}", field.dtype))
        case "List" | "Array":
            yield from _polars_leaves(f"{path}.element", kind.inner)
        case "Map":
            yield from _polars_leaves(f"{path}.key", kind.key)
            yield from _polars_leaves(f"{path}.value", kind.value)
        case _:
            yield path, name, str(kind)


def spark_types(schema: Any) -> Iterator[Leaf]:
    for field in schema:
        yield from _spark_leaves(field.name, field.dataType)


def _spark_leaves(path: str, kind: Any) -> Iterator[Leaf]:
    match name := kind.typeName():
        case "struct":
            yield from (leaf for field in kind for leaf in _spark_leaves(f"{path}.{field.name}", field.dataType))
        case "array":
            yield from _spark_leaves(f"{path}.element", kind.elementType)
        case "map":
            yield from _spark_leaves(f"{path}.key", kind.keyType)
            yield from _spark_leaves(f"{path}.value", kind.valueType)
        case _:
            yield path, name, kind.simpleString().upper()
