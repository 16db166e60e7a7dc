"""Reads what a reference points to, as of the snapshot that was handed on: with Spark, or without it.

    df = read_on_spark(ref, session)                     # lazy, as every DataFrame; Spark classic or Connect
    rows = read_as_arrow(ref.where("delay > 60"), catalog)

A view is one query either way: its condition first, then its order, its limit, and its columns last, so that it may be ordered by
a column which it leaves out.
"""

from __future__ import annotations

import json
import logging
import re
import time
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.frame_errors import UnreadableView
from airflow_snowpack.interim.refs import ViewRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import DataScan
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim.refs import Ref, TableRef

log = logging.getLogger(__name__)

ORDER = re.compile(r"\s*(?P<name>.+?)(?:\s+(?P<direction>asc|desc))?\s*", re.IGNORECASE | re.DOTALL)


def read_on_spark(ref: Ref, session: SparkSession) -> DataFrame:
    """The rows as a DataFrame; Spark reads them when something is done with it.

    :raises AnalysisException: Spark's own, for a view that is no SQL, or that names a column which is not there.
    """
    log.info("Reading %s with Spark: %s rows as of the snapshot %s", ref.of.table, ref.of.rows, ref.of.snapshot_id)
    return session.sql(query_of(ref))


def query_of(ref: Ref) -> str:
    """The query in Spark's SQL that a reference stands for."""
    table, view = ref.of, ref if isinstance(ref, ViewRef) else ViewRef(ref.of)
    version = "" if table.snapshot_id is None else f" VERSION AS OF {table.snapshot_id}"
    columns = ", ".join(_quoted(name) for name in view.columns) if view.columns else "*"
    # A comment at the end of somebody's condition ends with its line.
    clauses = [f"SELECT {columns} FROM {name_of(table).quoted}{version}"]
    if view.condition is not None:
        # Twice in parentheses: WHERE (a) after a table is for Spark a name for the table and for its column.
        clauses.append(f"WHERE ((\n{view.condition}\n))")
    if view.order:
        clauses.append("ORDER BY " + "\n, ".join(view.order) + "\n")
    if view.rows is not None:
        clauses.append(f"LIMIT {view.rows}")
    return " ".join(clauses)


def read_as_arrow(ref: Ref, catalog: Catalog) -> pa.Table:
    """The rows in this process's memory: exactly those that Spark would read.

    :raises UnreadableView: only Spark knows for sure which these are, or the view names a column that is not there.
    """
    from airflow_snowpack.interim.condition import OnlySparkKnows

    began = time.monotonic()
    table, view = ref.of, ref if isinstance(ref, ViewRef) else ViewRef(ref.of)
    scan = catalog.load_table(name_of(table).identifier).scan(snapshot_id=table.snapshot_id)
    try:
        rows = _viewed(scan, view)
    except OnlySparkKnows as problem:
        raise UnreadableView(view, problem) from problem
    log.info("Read %s without Spark: %d rows, %.1f s", table.table, rows.num_rows, time.monotonic() - began)
    return rows


def name_of(table: TableRef) -> TableName:
    """The name of the table that a reference points to.

    :raises InvalidTableName: it is none.
    """
    catalog, _, name = table.table.partition(".")
    return TableName.parse(name, catalog=catalog)


def _viewed(scan: DataScan, view: ViewRef) -> pa.Table:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    from airflow_snowpack.interim.comparable import column_of
    from airflow_snowpack.interim.condition_text import parse
    from airflow_snowpack.interim.data_files import rows_of
    from airflow_snowpack.interim.matching import Matching

    schema = schema_to_pyarrow(scan.projection())
    orders = [_order(term, schema) for term in view.order]
    selected = [column_of(schema, name) for name in view.columns or ()]
    matching = None if view.condition is None else Matching(parse(view.condition), schema)
    if selected:
        scan = scan.select(*{*selected, *(name for name, _ in orders), *(matching.columns if matching else ())})
    if matching is not None:
        rows = matching.rows(rows_of(scan.filter(matching.pushed())))
    else:
        rows = rows_of(scan if orders else scan.update(limit=view.rows))
    rows = _zoned(_ordered(rows, orders).slice(0, view.rows), schema.names, scan.table_metadata.properties)
    # As in Spark, the columns are called what the view calls them.
    return rows.select(selected).rename_columns(list(view.columns)) if view.columns else rows


def _zoned(rows: pa.Table, columns: list[str], properties: Mapping[str, str]) -> pa.Table:
    """The rows with their moments in the zones that they were written in."""
    import pyarrow as pa

    from airflow_snowpack.interim.retyping import retyped
    from airflow_snowpack.interim.time_zones import TIME_ZONES, in_time_zones

    zones = json.loads(properties.get(TIME_ZONES, "{}"))
    for place, name in enumerate(columns):
        here = rows.schema.get_field_index(name)
        if here < 0 or not any(zone.partition(".")[0] == str(place) for zone in zones):
            continue
        field = in_time_zones(rows.schema.field(here), zones, str(place))
        chunks = [retyped(chunk, field) for chunk in rows.column(here).chunks]
        rows = rows.set_column(here, field, pa.chunked_array(chunks, field.type))
    return rows


def _order(term: str, schema: pa.Schema) -> tuple[str, bool]:
    """The column, and whether it goes down."""
    from airflow_snowpack.interim.comparable import column_of, is_ordered
    from airflow_snowpack.interim.condition import OnlySparkKnows
    from airflow_snowpack.interim.condition_text import column_in

    found = ORDER.fullmatch(term)
    name = column_in(found["name"]) if found else None
    if found is None or name is None:
        raise OnlySparkKnows(f"{term!r} is more than a column and its direction")
    column = column_of(schema, name)
    if not is_ordered(schema.field(column).type):
        raise OnlySparkKnows(f"only Spark orders {schema.field(column).type}, as {column!r} is")
    return column, (found["direction"] or "").lower() == "desc"


def _ordered(rows: pa.Table, orders: list[tuple[str, bool]]) -> pa.Table:
    """As Spark does it: in ascending order nulls come first and NaN last, in descending order the other way round."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not orders:
        return rows
    keys: dict[str, Any] = {}
    directions = []
    for place, (name, down) in enumerate(orders):
        column = rows.column(name)
        # Whether there is a value, and whether it is a number, go the same way as the values themselves.
        parts = [pc.is_valid(column), column]
        if pa.types.is_floating(column.type):
            is_nan = pc.is_nan(column)
            parts[1:] = [is_nan, pc.if_else(is_nan, pa.scalar(0, column.type), column)]
        keys |= {f"{place}.{number}": part for number, part in enumerate(parts)}
        directions += [(f"{place}.{number}", "descending" if down else "ascending") for number in range(len(parts))]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=directions))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
