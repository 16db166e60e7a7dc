"""Write rows as a new Iceberg table, and read the table of a reference, with or without Spark.

    written = write_table(df, TableName("lake", "snowpack_interim", "flights_clean_3f09c1a2b4d5"), catalog, store.identity)
    sources_of(df)        # (TableAt("lake.shop.orders", 11, …), …): the tables that a DataFrame's plan reads
    df = read_on_spark(ref, session)                                     # lazy, as every DataFrame; Spark classic or Connect
    rows = read_as_arrow(ref.order_by("delay desc").limit(3), catalog)   # in memory, no JVM
    reader = read_as_batches(ref.select("delay"), catalog)               # batch by batch

A table is written in one commit: it exists with all of its rows, or not at all. Spark, classic or Connect, writes its DataFrames;
this process writes rows of pandas or Arrow without Spark. Counts come from the snapshot's summary.

A table is read at its committed snapshot. A view is one query: condition, order, limit, then columns, so it may be ordered by a
column that it leaves out. Only Spark evaluates conditions: others do not find the same rows (decision 44 in ``docs/decisions``).
"""

from __future__ import annotations

import json
import logging
import re
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, schema_to_pyarrow
from pyiceberg.table import DataScan

from airflow_snowpack.arrow.casting import cast
from airflow_snowpack.humanize import duration, plural, size
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import INTERIM, STORE, TIME_ZONES
from airflow_snowpack.interim.errors import UnfitForm, UnreadableView, UnwritableFrame
from airflow_snowpack.interim.forms import FrameKind, as_arrow, frame_kind
from airflow_snowpack.interim.frames.data_files import batches_of, rows_of, without_rows, written_files
from airflow_snowpack.interim.frames.iceberg_types import in_iceberg_types, in_time_zones, time_zones
from airflow_snowpack.interim.frames.schemas import refuse_names, refuse_types, spark_types
from airflow_snowpack.interim.ownership import claim
from airflow_snowpack.interim.refs import Ref, TableRef, ViewRef
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.spark import without_substitution
from airflow_snowpack.spark.plan_tables import tables_read
from airflow_snowpack.spark.work import spark_errors, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

TABLE_PROPERTIES = {"format-version": "2", INTERIM: "true", "write.format.default": "parquet"}
ORDER = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[a-z_]\w*))(?:\s+(?P<direction>asc|desc))?\s*", re.I | re.A)
# In an ORDER BY, Spark does not read these as columns unless they are in backquotes.
KEYWORDS = {"and", "or", "not", "in", "is", "null", "like", "between", "true", "false", "case", "cast", "exists", "interval"}

NO_TIMES = "Spark does not support time fields"
"""Iceberg's message for a ``time`` column, which other libraries write and read."""


@dataclass(frozen=True, slots=True)
class CommittedTable:
    """A table after its only commit; ``location`` is its folder, from the catalog."""

    snapshot_id: int | None
    location: str
    rows: int


def write_table(frame: Any, name: TableName, catalog: Catalog, store_id: str) -> CommittedTable:
    """Create the table with these rows.

    :param frame: see :mod:`airflow_snowpack.interim.forms`.
    :param store_id: the id of the store with the table's record; the table is marked with it.
    :raises UnwritableFrame: Iceberg has no type for one of its columns, or it is not a frame.
    :raises ForeignNamespace: the namespace belongs to another store.
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
    return CommittedTable(snapshot.snapshot_id if snapshot is not None else None, table.location(), rows)


def _create_with_spark(frame: Any, name: TableName, properties: Mapping[str, str]) -> None:
    _check_on_spark(frame)
    writer = frame.writeTo(name.quoted).using("iceberg")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    writer.create()


def _check_on_spark(frame: Any) -> None:
    """Refuse what Spark and Iceberg would refuse without naming the column, or only when the table is read."""
    schema = frame.schema
    refuse_types("Spark", spark_types(schema))
    refuse_names(schema.names)
    is_exact = frame.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    counted = Counter(schema.names if is_exact else map(str.lower, schema.names))
    if twice := sorted(column for column, count in counted.items() if count > 1):
        problem = f"more than one column is called {', '.join(twice)}{'' if is_exact else ' in upper or lower case'}"
        raise UnwritableFrame(problem, "Rename all but one")


def _create_with_pyiceberg(frame: Any, name: TableName, catalog: Catalog, properties: Mapping[str, str]) -> None:
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


def read_on_spark(ref: Ref, session: SparkSession) -> DataFrame:
    """Return the rows as a lazy DataFrame.

    :raises AnalysisException: Spark's error for a view that is not valid SQL or names an unknown column.
    :raises UnfitForm: a column has times of day.
    """
    log.info("Reading %s with Spark: %s rows as of the snapshot %s", ref.of.table, ref.of.rows, ref.of.snapshot_id)
    try:
        return without_substitution(session).sql(query_of(ref))
    except spark_errors() as failure:
        if NO_TIMES in str(translate(failure)):
            raise UnfitForm("a Spark DataFrame", "a column has times of day, which Spark cannot read") from failure
        raise


def query_of(ref: Ref) -> str:
    table, view = ref.of, ref if isinstance(ref, ViewRef) else ViewRef(ref.of)
    version = "" if table.snapshot_id is None else f" VERSION AS OF {table.snapshot_id}"
    columns = ", ".join(_quoted(name) for name in view.columns) if view.columns else "*"
    # A line end ends a comment at the end of a user's condition.
    clauses = [f"SELECT {columns} FROM {name_of(table).quoted}{version}"]
    if view.condition is not None:
        # Two pairs of parentheses: Spark reads WHERE (a) after a table as an alias of the table and its column.
        clauses.append(f"WHERE ((\n{view.condition}\n))")
    if view.order:
        clauses.append("ORDER BY " + "\n, ".join(view.order) + "\n")
    if view.rows is not None:
        clauses.append(f"LIMIT {view.rows}")
    return " ".join(clauses)


def read_as_arrow(ref: Ref, catalog: Catalog) -> pa.Table:
    """Return the rows in this process's memory: exactly those that Spark would read.

    :raises UnreadableView: the view has a condition, orders by more than columns, or names an unknown column.
    """
    began, reading = time.monotonic(), _Reading.of(ref, catalog)
    limit = reading.view.rows
    rows = rows_of(reading.scan if reading.orders else reading.scan.update(limit=limit))
    rows = reading.arranged(_sort(rows, reading.orders).slice(0, limit))
    log.info("Read %s without Spark: %s, %s", ref.of.table, plural(rows.num_rows, "row"), duration(time.monotonic() - began))
    return rows


def read_as_batches(ref: Ref, catalog: Catalog) -> pa.RecordBatchReader:
    """Return the rows of :func:`read_as_arrow` batch by batch; only those of an ordered view are in memory at once."""
    reading = _Reading.of(ref, catalog)
    if reading.orders:
        return read_as_arrow(ref, catalog).to_reader()
    found = batches_of(reading.scan.update(limit=reading.view.rows))
    schema = reading.arranged(without_rows(found.schema)).schema
    arranged = (reading.arranged(pa.Table.from_batches([batch])) for batch in found)
    return pa.RecordBatchReader.from_batches(schema, (batch for rows in arranged for batch in rows.to_batches()))


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a reference is read without Spark.

    :ivar scan: of the needed columns.
    :ivar schema: of the table.
    :ivar orders: the columns to order by, and whether each is descending.
    :ivar selected: the table's names of the view's columns.
    """

    view: ViewRef
    scan: DataScan
    schema: pa.Schema
    orders: list[tuple[str, bool]]
    selected: list[str]

    @classmethod
    def of(cls, ref: Ref, catalog: Catalog) -> _Reading:
        table, view = ref.of, ref if isinstance(ref, ViewRef) else ViewRef(ref.of)
        if view.condition is not None:
            raise UnreadableView(view.to_json(), "its condition is SQL, which only Spark evaluates")
        scan = catalog.load_table(name_of(table).identifier).scan(snapshot_id=table.snapshot_id)
        schema = schema_to_pyarrow(scan.projection())
        orders = [_order(view, term, schema) for term in view.order]
        selected = [_column(view, name, schema) for name in view.columns or ()]
        if selected:
            scan = scan.select(*{*selected, *(name for name, _ in orders)})
        return cls(view, scan, schema, orders, selected)

    def arranged(self, rows: pa.Table) -> pa.Table:
        """Return rows of the scan with the columns and time zones of the view."""
        rows = _with_time_zones(rows, self.schema.names, self.scan.table_metadata.properties)
        if self.view.columns:  # like Spark, name columns as the view does
            rows = rows.select(self.selected).rename_columns(list(self.view.columns))
        return rows


def name_of(table: TableRef) -> TableName:
    """Return the name of a reference's table, or raise :class:`InvalidTableName` if it is unusable."""
    catalog, _, name = table.table.partition(".")
    return TableName.parse(name, catalog=catalog)


def _with_time_zones(rows: pa.Table, columns: list[str], properties: Mapping[str, str]) -> pa.Table:
    """Return the rows with their timestamps in the time zones in which they were written."""
    zones = json.loads(properties.get(TIME_ZONES, "{}"))
    for place, name in enumerate(columns):
        here = rows.schema.get_field_index(name)
        if here < 0 or not any(zone.partition(".")[0] == str(place) for zone in zones):
            continue
        field = in_time_zones(rows.schema.field(here), zones, str(place))
        chunks = [cast(chunk, field) for chunk in rows.column(here).chunks]
        rows = rows.set_column(here, field, pa.chunked_array(chunks, field.type))
    return rows


def _column(view: ViewRef, name: str, schema: pa.Schema) -> str:
    """Return the table's own name of a column, found in any case, as by Spark."""
    found: list[str] = [each for each in schema.names if each.lower() == name.lower()]
    if len(found) != 1:
        problem = f"{name!r} may be each of the columns {found}" if found else f"there is no column {name!r}"
        raise UnreadableView(view.to_json(), problem)
    return found[0]


def _order(view: ViewRef, term: str, schema: pa.Schema) -> tuple[str, bool]:
    """Return the column, and whether it is in descending order."""
    found = ORDER.fullmatch(term)
    if found is None or (found["word"] or "").lower() in KEYWORDS:
        raise UnreadableView(view.to_json(), f"{term!r} is more than a column and its direction")
    column = _column(view, found["word"] or found["quoted"].replace("``", "`"), schema)
    kind = schema.field(column).type
    ordered = (types.is_integer, types.is_floating, types.is_decimal, types.is_string, types.is_large_string)
    if not any(is_kind(kind) for is_kind in (*ordered, types.is_boolean, types.is_date, types.is_timestamp)):
        raise UnreadableView(view.to_json(), f"only Spark orders {kind}, the type of {column!r}")
    return column, (found["direction"] or "").lower() == "desc"


def _sort(rows: pa.Table, orders: list[tuple[str, bool]]) -> pa.Table:
    """Order as Spark does: ascending with nulls first and NaN last, descending the other way round."""
    if not orders:
        return rows
    keys: dict[str, Any] = {}
    directions = []
    for place, (name, down) in enumerate(orders):
        column = rows.column(name)
        # Whether there is a value, and whether it is a number, sort in the same direction as the values.
        parts = [pc.is_valid(column), column]
        if types.is_floating(column.type):
            is_nan = pc.is_nan(column)
            parts[1:] = [is_nan, pc.if_else(is_nan, pa.scalar(0, column.type), column)]
        keys |= {f"{place}.{number}": part for number, part in enumerate(parts)}
        directions += [(f"{place}.{number}", "descending" if down else "ascending") for number in range(len(parts))]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=directions))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
