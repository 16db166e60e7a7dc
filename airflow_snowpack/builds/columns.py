"""Whether a shard can hold a column: checked when a build is declared, as each shard's writer would fail in the same way.

    check_columns(pyarrow.schema([("id", pyarrow.int64()), ("tags", pyarrow.struct([]))]), ShardFormat.PARQUET)     # InvalidBuild

The invariant: what passes can be written by both writers' code, without a row of the input.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from airflow_snowpack.builds.arrow_types import arrow_type
from airflow_snowpack.builds.cells import to_cells
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import ShardFormat, plain_text

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
        problem = f"a {shard_format.value} shard cannot hold its type {field.type}; leave it out, or cast it ({error})"
        raise InvalidBuild("columns", field.name, problem) from error


def _try(schema: pa.Schema, shard_format: ShardFormat) -> None:
    nothing = schema.empty_table()
    nothing.take(NOTHING)  # as rows are placed
    if shard_format is ShardFormat.PARQUET:
        pq.write_table(nothing, pa.BufferOutputStream())
        return
    for field in schema:
        if _without_nullness(arrow_type(str(field.type))) != _without_nullness(field.type):
            raise InvalidBuild("columns", field.name, f"{field.type} cannot be told from another type in the manifest")
        to_cells(nothing.column(field.name) if schema.names.count(field.name) == 1 else pa.array([], field.type))


def _without_nullness(kind: pa.DataType) -> pa.DataType:
    """The type without what no value depends on: Arrow's names leave out whether a map's values may be null, for example."""
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
