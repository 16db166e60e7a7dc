"""Delete files as other engines write them, committed with PyIceberg, which writes none itself.

    commit_position_delete(table, {path: [0, 3]})            # rows 0 and 3 of a data file
    commit_equality_delete(table, "id", [7, 8])              # all rows with these ids that were there before

A table without partitions, or one partition of a table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, StructType

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.typedef import TableVersion

# Reserved field ids of the Iceberg specification.
PATH_FIELD, POSITION_FIELD = 2147483546, 2147483545
FIELD_ID = b"PARQUET:field_id"


def commit_position_delete(table: Table, positions: Mapping[str, Sequence[int]], partition: Record | None = None) -> None:
    """Commit one file that deletes rows by their positions.

    :param positions: of the rows, by data file.
    """
    pairs = sorted((path, position) for path, found in positions.items() for position in found)
    schema = pa.schema([_column("file_path", pa.string(), PATH_FIELD), _column("pos", pa.int64(), POSITION_FIELD)])
    deleted = pa.table([[path for path, _ in pairs], [position for _, position in pairs]], schema=schema)
    bounds = {"lower_bounds": {PATH_FIELD: min(positions).encode()}, "upper_bounds": {PATH_FIELD: max(positions).encode()}}
    _commit(table, deleted, DataFileContent.POSITION_DELETES, partition, **bounds)


def commit_equality_delete(table: Table, column: str, values: Sequence[Any], partition: Record | None = None) -> None:
    """Commit one file that deletes all older rows which have one of these values."""
    column_field = table.schema().find_field(column)
    arrow_type = table.schema().select(column).as_arrow().field(0).type
    deleted = pa.table([list(values)], schema=pa.schema([_column(column, arrow_type, column_field.field_id)]))
    _commit(table, deleted, DataFileContent.EQUALITY_DELETES, partition, equality_ids=[column_field.field_id])


def _column(name: str, arrow_type: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, arrow_type, nullable=False, metadata={FIELD_ID: str(field_id)})


def _commit(table: Table, deleted: pa.Table, content: DataFileContent, partition: Record | None, **more: Any) -> None:
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    with table.io.new_output(path).create() as sink:
        pq.write_table(deleted, sink)
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=deleted.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        **{"lower_bounds": {}, "upper_bounds": {}, "key_metadata": None, "split_offsets": None, "equality_ids": None, **more},
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        producer = _AddDeletes(Operation.DELETE, transaction, table.io)
        producer.append_data_file(file)
        producer.commit()
    table.refresh()


class _AddDeletes(_FastAppendFiles):
    """An append whose new manifest is one of delete files."""

    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        return _DeleteManifest(spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        """The specification has a list of ints, PyIceberg 0.12 one of longs, with which Spark cannot do anything."""
        ints = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        schema = super()._with_partition(format_version)
        file_type = schema.find_field("data_file").field_type
        assert isinstance(file_type, StructType)
        columns = [each.model_copy(update={"field_type": ints}) if each.field_id == 135 else each for each in file_type.fields]
        file_field = schema.find_field("data_file").model_copy(update={"field_type": StructType(*columns)})
        return Schema(*(file_field if each.field_id == file_field.field_id else each for each in schema.fields))
