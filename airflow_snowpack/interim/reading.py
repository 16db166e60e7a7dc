"""Reads what a reference points to, as of the snapshot that was handed on: with Spark, or without it.

    df = read_on_spark(ref, session)                     # lazy, as every DataFrame; Spark classic or Connect
    rows = read_as_arrow(ref.where("delay > 60"), catalog)

A view is one query either way: its condition first, then its order, its limit, and its columns last, so that it may be ordered by
a column which it leaves out.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.frame_errors import UnreadableView
from airflow_snowpack.interim.refs import ViewRef

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim.refs import Ref, TableRef

log = logging.getLogger(__name__)

ORDER = re.compile(r"`?(?P<name>[^`]+?)`?(?:\s+(?P<direction>asc|desc))?", re.IGNORECASE)


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
        clauses.append(f"WHERE (\n{view.condition}\n)")
    if view.order:
        clauses.append("ORDER BY " + "\n, ".join(view.order) + "\n")
    if view.rows is not None:
        clauses.append(f"LIMIT {view.rows}")
    return " ".join(clauses)


def read_as_arrow(ref: Ref, catalog: Catalog) -> pa.Table:
    """The rows in this process's memory.

    :raises UnreadableView: the view's condition is more than PyIceberg can evaluate, or it names a column that is not there.
    """
    began = time.monotonic()
    table, view = ref.of, ref if isinstance(ref, ViewRef) else ViewRef(ref.of)
    scan = catalog.load_table(name_of(table).identifier).scan(snapshot_id=table.snapshot_id, case_sensitive=False)
    orders = [_order(term, view) for term in view.order]
    try:
        if view.condition is not None:
            scan = scan.filter(_parsed(view))
        if view.columns:
            scan = scan.select(*dict.fromkeys([*view.columns, *(name for name, _ in orders)]))
        rows = (scan if orders or view.rows is None else scan.update(limit=view.rows)).to_arrow()
        rows = _selected(_ordered(rows, orders), view)
    except (ValueError, KeyError) as problem:
        raise UnreadableView(view, problem) from problem
    log.info("Read %s without Spark: %d rows, %.1f s", table.table, rows.num_rows, time.monotonic() - began)
    return rows


def name_of(table: TableRef) -> TableName:
    """The name of the table that a reference points to.

    :raises InvalidTableName: it is none.
    """
    catalog, _, name = table.table.partition(".")
    return TableName.parse(name, catalog=catalog)


def _parsed(view: ViewRef) -> BooleanExpression:
    from pyiceberg.expressions.parser import parse
    from pyparsing import ParseBaseException

    assert view.condition is not None
    try:
        return parse(view.condition)
    except ParseBaseException as problem:
        raise UnreadableView(view, f"it cannot be understood from {problem.line[problem.col - 1 :]!r:.60} on") from problem


def _ordered(rows: pa.Table, orders: list[tuple[str, bool]]) -> pa.Table:
    """As Spark does it: nulls come first in ascending order, and last in descending order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not orders:
        return rows
    keys: dict[str, Any] = {}
    directions = []
    for place, (name, down) in enumerate(orders):
        column = rows.column(_place(rows, name))
        # Whether there is a value goes the same way as the values themselves.
        keys |= {f"there{place}": pc.is_valid(column), f"value{place}": column}
        directions += [(f"{what}{place}", "descending" if down else "ascending") for what in ("there", "value")]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=directions))


def _selected(rows: pa.Table, view: ViewRef) -> pa.Table:
    rows = rows if view.rows is None else rows.slice(0, view.rows)
    return rows.select([_place(rows, name) for name in view.columns]) if view.columns else rows


def _place(rows: pa.Table, name: str) -> str:
    """The column's name as the table has it: names differ by more than case."""
    names: dict[str, str] = {each.lower(): each for each in rows.column_names}
    return names[name.lower()]


def _order(term: str, view: ViewRef) -> tuple[str, bool]:
    """The column, and whether it goes down."""
    found = ORDER.fullmatch(term.strip())
    if found is None:
        raise UnreadableView(view, f"{term!r} is more than a column and its direction")
    return found["name"], (found["direction"] or "").lower() == "desc"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
