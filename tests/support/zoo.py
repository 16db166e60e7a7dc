"""The catalog of :mod:`table_zoo`: how its kinds are declared, made and read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from airflow_snowpack.iceberg import TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

NAMESPACE = "zoo"
Kind = Callable[["Zoo", str], None]


@dataclass(frozen=True)
class Declared:
    """How a kind is made, and by whom it can be."""

    make: Kind
    needs_spark: bool
    is_readable: bool


DECLARED: dict[str, Declared] = {}


@dataclass
class Zoo:
    """The tables of one catalog, in one database.

    :param spark: a session with the same catalog; without it, the kinds that need Spark cannot be made.
    """

    catalog: Catalog
    spark: SparkSession | None = None
    namespace: str = NAMESPACE
    _made: dict[str, TableName] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.catalog.create_namespace_if_not_exists(self.namespace)

    @property
    def session(self) -> SparkSession:
        """The Spark session, for a kind that needs one."""
        assert self.spark is not None, "this kind needs a zoo with Spark"
        return self.spark

    def shared(self, kind: str) -> TableName:
        """Return the table of a kind that all tests of the session read; make it at the first call."""
        if kind not in self._made:
            self._made[kind] = self.new(kind, kind)
        return self._made[kind]

    def new(self, kind: str, name: str | None = None) -> TableName:
        """Make a table of a kind for one test, under a name that no other has."""
        name = name or f"{kind}_{uuid.uuid4().hex[:8]}"
        DECLARED[kind].make(self, name)
        return self.named(name)

    def named(self, name: str) -> TableName:
        """Return the full name of a table of the zoo."""
        return TableName(self.catalog.name, self.namespace, name)

    def load(self, name: TableName) -> Table:
        """Return PyIceberg's view of a table as it is now."""
        return self.catalog.load_table(name.identifier)

    def kinds(self) -> list[str]:
        """Return the names of the kinds that this zoo can make, without the unreadable ones."""
        return [name for name, kind in DECLARED.items() if kind.is_readable and (self.spark or not kind.needs_spark)]

    def create(
        self,
        name: str,
        value: IcebergType | None = None,
        transform: Transform[Any, Any] | None = None,
        *,
        location: str | None = None,
        **properties: str,
    ) -> Table:
        """Create an empty table.

        :param value: the type of the column ``value``; text by default.
        :param transform: of ``value``, to partition by; ``None`` for a table without partitions.
        :param properties: table properties, as ``**{"gc.enabled": "false"}``.
        """
        schema = Schema(
            NestedField(1, "id", LongType(), required=False),
            NestedField(2, "value", value or StringType(), required=False),
            NestedField(3, "note", StringType(), required=False),
        )
        spec = PartitionSpec() if transform is None else PartitionSpec(PartitionField(2, 1000, transform, "part"))
        return self.catalog.create_table(
            f"{self.namespace}.{name}", schema, location=location, partition_spec=spec, properties=properties
        )


def kind(make: Kind) -> Kind:
    """Declare a kind that PyIceberg makes."""
    DECLARED[make.__name__] = Declared(make, needs_spark=False, is_readable=True)
    return make


def kind_of_spark(make: Kind) -> Kind:
    """Declare a kind that only Spark makes."""
    DECLARED[make.__name__] = Declared(make, needs_spark=True, is_readable=True)
    return make


def unreadable_kind(make: Kind) -> Kind:
    """Declare a kind whose metadata cannot be read to its end."""
    DECLARED[make.__name__] = Declared(make, needs_spark=False, is_readable=False)
    return make


def append(table: Table, values: Sequence[Any], *, start: int | None = None) -> None:
    """Commit one row for each value; their ids go on from the rows that the table has.

    :param start: the first id, for a table that another engine or a deletion has changed.
    """
    snapshot = table.current_snapshot()
    if start is None:
        start = int(snapshot.summary["total-records"] or 0) if snapshot and snapshot.summary else 0
    columns = {
        "id": list(range(start, start + len(values))),
        "value": list(values),
        "note": [f"note {each}" for each in range(start, start + len(values))],
    }
    table.append(pa.table(columns, schema=table.schema().select(*columns).as_arrow()))


def rows(table: Table, snapshot_id: int | None = None) -> list[tuple[Any, ...]]:
    """Return what readers see of a table, sorted: for "the rows are the same before and after".

    Not for tables with equality deletes, which PyIceberg cannot apply; read those with Spark.
    """
    found = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def data_files(table: Table) -> list[str]:
    """Return the paths of the data files of the current snapshot, in the order of their commits and partitions."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    entries = [entry for each in snapshot.manifests(table.io) for entry in each.fetch_manifest_entry(table.io)]
    data = [entry for entry in entries if entry.data_file.content == 0]
    in_order = sorted(data, key=lambda entry: (entry.sequence_number, entry.data_file.file_path))
    return [entry.data_file.file_path for entry in in_order]


def read_metadata(table: Table) -> dict[str, Any]:
    """Return the JSON of a table's metadata file."""
    with table.io.new_input(table.metadata_location).open() as source:
        found: dict[str, Any] = json.loads(source.read())
    return found


def replace_metadata(zoo: Zoo, table: Table, metadata: Mapping[str, Any]) -> None:
    """Let the catalog point to a metadata file that is written here."""
    place = f"{table.location()}/metadata/90000-{uuid.uuid4()}.metadata.json"
    with table.io.new_output(place).create() as sink:
        sink.write(json.dumps(metadata).encode())
    zoo.catalog.drop_table(table.name())
    zoo.catalog.register_table(table.name(), place)
