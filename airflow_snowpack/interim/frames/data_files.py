"""The Parquet files of an Iceberg table, written from and read as Arrow rows.

    with transaction.update_snapshot().fast_append() as append:
        for file in written_files(rows, transaction.table_metadata, io):
            append.append_data_file(file)

    rows = rows_of(table.scan(snapshot_id=7))
    reader = batches_of(table.scan(snapshot_id=7))               # without keeping all rows in memory

PyIceberg plans, prunes and commits. The rows only go through :mod:`~airflow_snowpack.arrow.casting`, because PyIceberg's
projection turns null lists and maps into empty ones. Invariant: a read returns what the files have, null for null, or raises.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import dataset, types
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ParquetFormatModel, bin_pack_arrow_table, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import DataScan, FileScanTask, TableProperties
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType, StructType
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.properties import property_as_int

from airflow_snowpack.arrow.casting import cast, cast_batch
from airflow_snowpack.arrow.nesting import inner_fields, with_inner_fields
from airflow_snowpack.interim.errors import UnreadableTable

T = TypeVar("T", bound=Any)  # a table or a batch

FIELD_ID = b"PARQUET:field_id"
READ_BUFFER_BYTES = 8 * 1024 * 1024


def written_files(rows: pa.Table, metadata: TableMetadata, io: FileIO) -> Iterator[DataFile]:
    """Write the rows into new files of the table, in about as many as its target file size requires.

    :param rows: with the columns of the table, in order.
    :param metadata: of a table without partitions, with these columns.
    :raises pyarrow.ArrowException: a value is null in a required field.
    """
    if not rows.num_rows:
        return
    columns = sanitize_column_names(metadata.schema())  # like every Iceberg writer names them in files
    wanted = schema_to_pyarrow(columns, include_field_ids=True)
    fields = [_shape(own, field, with_ids=True) for own, field in zip(rows.schema, wanted, strict=True)]
    made = [
        pa.chunked_array([cast(chunk, field) for chunk in column.chunks], field.type)
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    size = property_as_int(metadata.properties, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, default) or default
    in_file = pa.Table.from_arrays(made, schema=pa.schema(fields))
    for number, batches in enumerate(bin_pack_arrow_table(in_file, size)):
        yield _written_file(pa.Table.from_batches(batches), columns, number, metadata, io)


def _written_file(rows: pa.Table, columns: Schema, number: int, metadata: TableMetadata, io: FileIO) -> DataFile:
    place = load_location_provider(table_location=metadata.location, table_properties=metadata.properties)
    output = io.new_output(place.new_data_location(f"00000-{number}-{uuid.uuid4()}.parquet"))
    writer = ParquetFormatModel().create_writer(output, columns, metadata.properties)
    with writer:
        writer.write(rows)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=len(output),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **writer.result().to_serialized_dict(),
    )


def is_changed_by_projection(columns: Schema) -> bool:
    """Return whether PyIceberg reads null lists and maps as empty ones: where structs are their elements or values."""

    def changed(kind: object) -> bool:
        if isinstance(kind, StructType):
            return any(changed(field.field_type) for field in kind.fields)
        if isinstance(kind, ListType):
            return isinstance(kind.element_type, StructType) or changed(kind.element_type)
        return isinstance(kind, MapType) and (isinstance(kind.value_type, StructType) or changed(kind.value_type))

    return changed(columns.as_struct())


def rows_of(scan: DataScan) -> pa.Table:
    """Read the rows of a scan.

    :param scan: without a filter; its columns, snapshot and limit apply.
    :raises UnreadableTable: the files have deletes, another format or other columns than those of interim tables.
    """
    wanted = _wanted_schema(scan)
    files = ExecutorFactory.get_or_create().map(lambda task: _rows_of_file(scan, task, wanted), scan.plan_files())
    found = list(_limited(files, scan.limit))
    if not found:
        return without_rows(_shape_without_rows(wanted))
    return pa.concat_tables(found, promote_options="permissive")


def batches_of(scan: DataScan) -> pa.RecordBatchReader:
    """Read the rows of a scan batch by batch, file by file; see :func:`rows_of`.

    Text, bytes and lists are as large or small as in the first file. Errors in a file appear when it is read.
    """
    wanted, tasks = _wanted_schema(scan), list(scan.plan_files())
    if not tasks:
        return pa.RecordBatchReader.from_batches(_shape_without_rows(wanted), [])
    with _open_file(scan, tasks[0], wanted) as (schema, _):
        return pa.RecordBatchReader.from_batches(schema, _limited(_all_batches(scan, tasks, wanted, schema), scan.limit))


def _all_batches(scan: DataScan, tasks: list[FileScanTask], wanted: pa.Schema, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        with _open_file(scan, task, wanted) as (_, batches):
            yield from (cast_batch(batch, schema) for batch in batches)


def _limited(found: Iterable[T], limit: int | None) -> Iterator[T]:
    """Yield the rows up to the limit, and read none after it: ten rows must not cost the whole table."""
    for rows in found:
        yield rows if limit is None else rows.slice(0, limit)
        if limit is not None and (limit := limit - rows.num_rows) <= 0:
            return


def without_rows(schema: pa.Schema) -> pa.Table:
    """Return a table with these columns and no rows."""
    # Not empty_table(): Arrow builds no arrays of lists of uuids, not even empty ones.
    return pa.Table.from_arrays([pa.chunked_array([], field.type) for field in schema], schema=schema)


def _wanted_schema(scan: DataScan) -> pa.Schema:
    if scan.row_filter != AlwaysTrue():
        raise ValueError(f"Reading a scan reads every row, and this one has the filter {scan.row_filter}.")
    return schema_to_pyarrow(scan.projection(), include_field_ids=True)


def _shape_without_rows(wanted: pa.Schema) -> pa.Schema:
    return pa.schema([_shape(None, field) for field in wanted])


def _rows_of_file(scan: DataScan, task: FileScanTask, wanted: pa.Schema) -> pa.Table:
    with _open_file(scan, task, wanted) as (schema, batches):
        return pa.Table.from_batches(list(_limited(batches, scan.limit)), schema=schema)


@contextmanager
def _open_file(scan: DataScan, task: FileScanTask, wanted: pa.Schema) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a file; return the schema of its rows, and the rows."""
    path = task.file.file_path
    if task.delete_files:
        raise UnreadableTable(path, "some of its rows are deleted")
    if task.file.file_format != FileFormat.PARQUET:
        raise UnreadableTable(path, f"it is {task.file.file_format}")
    with scan.io.new_input(path).open() as opened:
        format_ = dataset.ParquetFileFormat(pre_buffer=True, use_buffered_stream=True, buffer_size=READ_BUFFER_BYTES)
        fragment = format_.make_fragment(opened)
        in_file = fragment.physical_schema
        known = {field.metadata[FIELD_ID]: field for field in in_file if FIELD_ID in (field.metadata or {})}
        try:
            own = [known[field.metadata[FIELD_ID]] for field in wanted]
        except KeyError as missing:
            raise UnreadableTable(path, f"it has no column with the id {missing.args[0].decode()}") from missing
        # With a limit, do not read ahead: row groups after it are not needed.
        ahead: dict[str, int] = {} if scan.limit is None else {"batch_readahead": 0}
        columns = dataset.Scanner.from_fragment(fragment, schema=in_file, columns=[field.name for field in own], **ahead)
        try:
            schema = pa.schema([_shape(each, field) for each, field in zip(own, wanted, strict=True)])
            yield schema, (cast_batch(rows, schema) for rows in columns.to_batches() if rows.num_rows)
        except pa.ArrowInvalid as problem:
            raise UnreadableTable(path, problem) from problem


def _shape(own: pa.Field | None, field: pa.Field, *, with_ids: bool = False) -> pa.Field:
    """Return Iceberg's field with large or small text, bytes and lists, which Iceberg does not distinguish, as in the rows.

    :param own: the field of the rows; ``None`` if there are no rows, and everything is small.
    """
    ids = [(each.metadata or {}).get(FIELD_ID) for each in (own, field) if each is not None]
    if len(ids) == 2 and None not in ids and ids[0] != ids[1]:
        raise pa.ArrowInvalid(f"another field is in the place of {field.name}")
    kind = _shape_of_type(None if own is None else own.type, field.type, with_ids)
    return pa.field(field.name, kind, field.nullable, field.metadata if with_ids else None)


def _shape_of_type(own: Any, kind: Any, with_ids: bool) -> pa.DataType:
    if types.is_large_string(kind):
        return pa.string() if own is None else own
    if types.is_large_binary(kind):
        return pa.binary() if own is None else own
    parts = inner_fields(kind)
    if not parts:
        return kind
    others: Sequence[pa.Field | None] = inner_fields(own) if own is not None else [None] * len(parts)
    if len(others) != len(parts):
        raise pa.ArrowInvalid(f"{own} is not {kind}")
    inner = [_shape(each, part, with_ids=with_ids) for each, part in zip(others, parts, strict=True)]
    if types.is_large_list(kind) and (own is None or not types.is_large_list(own)):
        return pa.list_(*inner)
    return with_inner_fields(kind, inner)
