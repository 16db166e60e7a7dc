"""What counts as rows: a DataFrame of Spark, one of pandas, what Arrow holds, and all that gives an Arrow stream of itself.

    frame_kind(value)        # FrameKind.SPARK, FrameKind.PANDAS, FrameKind.ARROW, or None for an ordinary value
    as_arrow(value)          # a pyarrow.Table of what is in memory

The invariant: a task pays for no library that it does not use. Spark and pandas are known by the names of their classes;
everything else, such as Polars, DuckDB and Ibis, by ``__arrow_c_stream__``, which Arrow's PyCapsule interface defines.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.errors import UnfitForm, UnwritableFrame, is_panic

if TYPE_CHECKING:
    import pyarrow as pa


STREAM = "__arrow_c_stream__"


class FrameKind(StrEnum):
    """What rows are held in."""

    SPARK = "Spark"
    PANDAS = "pandas"
    ARROW = "Arrow"
    """Also anything that gives an Arrow stream."""


def frame_kind(value: object) -> FrameKind | None:
    """Return what holds the rows; ``None``: the value has none."""
    for known in type(value).__mro__:
        kind = kind_named(known.__module__, known.__name__)
        if kind is not None:
            return kind
    return FrameKind.ARROW if hasattr(type(value), STREAM) else None


def kind_named(module: str, name: str) -> FrameKind | None:
    """Return what a class of this name holds, if the name alone says it."""
    root = module.partition(".")[0]
    if name == "DataFrame" and module.startswith("pyspark.sql"):
        return FrameKind.SPARK
    if name == "DataFrame" and root == "pandas":
        return FrameKind.PANDAS
    # Older releases of pyarrow give no stream of all of these, and a query of Polars gives none until it has run.
    named = {("pyarrow", "Table"), ("pyarrow", "RecordBatch"), ("pyarrow", "RecordBatchReader"), ("polars", "LazyFrame")}
    return FrameKind.ARROW if (root, name) in named else None


def as_arrow(frame: Any) -> pa.Table:
    """Return the rows of what pandas, Arrow, or anything with an Arrow stream holds, in its own types.

    :raises UnwritableFrame: Arrow cannot hold them, or it is a column and no table.
    """
    import pyarrow as pa

    try:
        return _table_of(frame)
    except BaseException as problem:
        if isinstance(problem, pa.ArrowException | TypeError) or is_panic(problem):
            raise UnwritableFrame(f"this {type(frame).__name__} cannot become a table of Arrow: {problem}") from problem
        raise


def _table_of(frame: Any) -> pa.Table:
    import pyarrow as pa

    if frame_kind(frame) is FrameKind.PANDAS:
        from airflow_snowpack.interim.frames.pandas_rows import rows_of_pandas

        return rows_of_pandas(frame)
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if _is_of_polars(frame):
        frame = frame.collect() if hasattr(frame, "collect") else frame
        objects = [name for name, kind in frame.schema.items() if "Object" in str(kind.base_type())]
        if objects:  # Polars would give their addresses
            raise TypeError(f"the column {objects[0]} holds objects of Python")
        # Its stream ends the whole process for some types, where this raises.
        return frame.to_arrow()
    if _is_of_duckdb(frame):
        zoned = [name for name, kind in zip(frame.columns, frame.types, strict=True) if "TIME WITH TIME ZONE" in str(kind)]
        if zoned:  # DuckDB's stream leaves the zones out
            raise TypeError(f"the column {zoned[0]} holds times of day with a time zone; cast it to TIME or to VARCHAR")
    return pa.RecordBatchReader.from_stream(frame).read_all()


def _is_of_polars(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "polars" and type(frame).__name__ in ("DataFrame", "LazyFrame")


def _is_of_duckdb(frame: Any) -> bool:
    module, name = type(frame).__module__.partition(".")[0], type(frame).__name__
    return module in ("duckdb", "_duckdb") and name == "DuckDBPyRelation"


class Form(StrEnum):
    """What a table arrives as."""

    SPARK = "spark"
    REFERENCE = "reference"
    ARROW = "pyarrow.Table"
    BATCH = "pyarrow.RecordBatch"
    READER = "pyarrow.RecordBatchReader"
    PANDAS = "pandas.DataFrame"
    POLARS = "polars.DataFrame"
    LAZY = "polars.LazyFrame"
    DUCKDB = "duckdb.DuckDBPyRelation"
    IBIS = "ibis.Table"


# In memory, the most common first: a parameter that may be several of them gets the first.
IN_MEMORY = (Form.ARROW, Form.PANDAS, Form.POLARS, Form.LAZY, Form.DUCKDB, Form.IBIS, Form.READER, Form.BATCH)


def form_of(module: str, name: str) -> Form | None:
    """Return the form of a class that holds rows in memory, by its module and its name."""
    root = module.partition(".")[0].lstrip("_")
    return next((form for form in IN_MEMORY if form == f"{root}.{name}"), None)


def in_form(rows: pa.Table, form: Form) -> Any:
    """Return the rows as this form holds them, each value unchanged.

    :param form: one of :data:`IN_MEMORY`.
    :raises UnfitForm: it cannot hold them.
    """
    try:
        return _converted(rows, form)
    except ImportError:
        raise
    except BaseException as problem:  # each library has errors of its own
        if isinstance(problem, Exception) or is_panic(problem):
            raise UnfitForm(form, problem) from problem
        raise


def _converted(rows: pa.Table, form: Form) -> Any:
    match form:
        case Form.PANDAS:
            from airflow_snowpack.interim.frames.pandas_rows import pandas_of_rows

            return pandas_of_rows(rows)
        case Form.POLARS | Form.LAZY:
            import polars

            frame = polars.DataFrame(rows)
            return frame.lazy() if form is Form.LAZY else frame
        case Form.DUCKDB:
            import duckdb

            return duckdb.from_arrow(rows)
        case Form.IBIS:
            import ibis

            return ibis.memtable(rows)
        case Form.READER:
            return rows.to_reader()
        case Form.BATCH:
            batches = rows.combine_chunks().to_batches()
            return batches[0] if batches else _empty_batch(rows)
    return rows


def _empty_batch(rows: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=rows.schema)
