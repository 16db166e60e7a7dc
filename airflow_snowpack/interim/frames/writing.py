"""Writes rows as a new Iceberg table, in one commit: the table exists with all of them, or not at all.

    written = write_table(df, TableName("lake", "snowpack_interim", "flights_clean_3f09c1a2b4d5"), catalog, store.identity)
    written.rows, written.snapshot_id
    sources_of(df)        # (TableAt("lake.shop.orders", 11, …), …): the tables that the plan of a DataFrame reads

Spark writes its own DataFrames, classic or Connect; this process writes the rows of pandas or Arrow, without Spark. The numbers
come from the snapshot's own summary, so that nothing is counted twice.
"""

from __future__ import annotations

import json
import logging
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import duration, plural, size
from airflow_snowpack.interim.errors import UnwritableFrame
from airflow_snowpack.interim.forms import FrameKind, as_arrow, frame_kind
from airflow_snowpack.interim.ownership import STORE, claim
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.spark.plan_tables import tables_read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.iceberg import TableName

log = logging.getLogger(__name__)

TABLE_PROPERTIES = {"format-version": "2", "snowpack.interim": "true", "write.format.default": "parquet"}


@dataclass(frozen=True, slots=True)
class Written:
    """A table after its only commit, with its folder from the catalog."""

    snapshot_id: int | None
    location: str
    rows: int


def write_table(frame: Any, name: TableName, catalog: Catalog, store_id: str) -> Written:
    """Create the table with these rows.

    :param frame: see :mod:`airflow_snowpack.interim.forms`.
    :param store_id: of the store that has the table on record; the table is marked with it.
    :raises UnwritableFrame: Iceberg has no type for one of its columns, or it is not a frame.
    :raises ForeignNamespace: the namespace is another store's.
    """
    kind = frame_kind(frame)
    began = time.monotonic()
    claim(catalog, name.catalog, name.database, store_id)
    properties = TABLE_PROPERTIES | {STORE: store_id}
    if kind is FrameKind.SPARK:
        _create_with_spark(frame, name, properties)
    elif kind is not None:
        _create_with_pyiceberg(frame, name, catalog, properties)
    else:
        raise UnwritableFrame(f"a {type(frame).__name__} is not a frame")
    table = catalog.load_table(name.identifier)
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot is not None else None
    totals = ("total-records", "total-data-files", "total-files-size")
    rows, files, stored = (int((summary[total] if summary is not None else None) or 0) for total in totals)
    took = duration(time.monotonic() - began)
    log.info("Wrote %s with %s: %s in %s, %s, %s", name, kind, plural(rows, "row"), plural(files, "file"), size(stored), took)
    return Written(snapshot.snapshot_id if snapshot is not None else None, table.location(), rows)


def _create_with_spark(frame: Any, name: TableName, properties: Mapping[str, str]) -> None:
    writer = frame.writeTo(name.quoted).using("iceberg")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.create()


def _create_with_pyiceberg(frame: Any, name: TableName, catalog: Catalog, properties: Mapping[str, str]) -> None:
    from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

    from airflow_snowpack.interim.frames.data_files import written_files
    from airflow_snowpack.interim.frames.retyping import TIME_ZONES, in_iceberg_types, time_zones

    given = as_arrow(frame)
    rows, zones = in_iceberg_types(given), time_zones(given.schema)
    own = {TIME_ZONES: json.dumps(zones)} if zones else {}
    try:
        creation = catalog.create_table_transaction(name.identifier, schema=rows.schema, properties={**properties, **own})
        with creation.update_snapshot().fast_append() as append:
            for file in written_files(rows, creation.table_metadata, creation._table.io):
                append.append_data_file(file)
    # Packing the bounds of a column with a value that does not fit its type raises errors that are not Arrow's.
    except (UnsupportedPyArrowTypeException, TypeError, ValueError, struct.error) as problem:
        raise UnwritableFrame(problem) from problem
    creation.commit_transaction()


def sources_of(frame: Any) -> Sequence[TableAt]:
    """Return the Iceberg tables that a Spark DataFrame reads; the sources of rows in memory are unknown."""
    if frame_kind(frame) is not FrameKind.SPARK:
        return ()
    return tuple(TableAt(table.name, table.snapshot_id, table.location) for table in tables_read(frame))
