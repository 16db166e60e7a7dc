"""The libraries that rows may come from and be passed to, recognised by the names of their classes.

    frame_kind(value)                    # FrameKind.SPARK, PANDAS or ARROW; None for a value that is not a frame
    as_arrow(value)                      # a pyarrow.Table of a frame in memory
    form_of("polars", "DataFrame")       # Form.POLARS
    in_form(rows, Form.POLARS)           # a polars.DataFrame with the rows of a pyarrow.Table

Invariant: a task imports no library that it does not use. This module is cheap to import, because DAG files are parsed with it.
Spark and pandas are recognised by class names; all others by ``__arrow_c_stream__`` of Arrow's PyCapsule interface.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.errors import UnfitForm, UnwritableFrame, is_panic

if TYPE_CHECKING:
    import pyarrow as pa

# Older releases of pyarrow have no stream for some of these, and a lazy Polars query has none before it runs.
READER = ("pyarrow", "RecordBatchReader")
ARROW_CLASSES = {("pyarrow", "Table"), ("pyarrow", "RecordBatch"), READER, ("polars", "LazyFrame")}


class FrameKind(StrEnum):
    """How to write a frame that a task returns."""

    SPARK = "Spark"
    PANDAS = "pandas"
    ARROW = "Arrow"
    """Anything with an Arrow stream, too."""


class Form(StrEnum):
    """The form in which a task receives a table."""

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


# In memory, the most common first: a parameter that allows several gets the first.
IN_MEMORY = (Form.ARROW, Form.PANDAS, Form.POLARS, Form.LAZY, Form.DUCKDB, Form.IBIS, Form.READER, Form.BATCH)


def frame_kind(value: object) -> FrameKind | None:
    """Return how to write this frame; ``None`` if it is not a frame."""
    for known in type(value).__mro__:
        root, name = known.__module__.partition(".")[0], known.__name__
        if name == "DataFrame" and known.__module__.startswith("pyspark.sql"):
            return FrameKind.SPARK
        if name == "DataFrame" and root == "pandas":
            return FrameKind.PANDAS
        if (root, name) in ARROW_CLASSES:
            return FrameKind.ARROW
    return FrameKind.ARROW if hasattr(type(value), "__arrow_c_stream__") else None


def is_reader(frame: object) -> bool:
    """Return whether the frame is a ``pyarrow.RecordBatchReader``, which can be read only once."""
    return any((known.__module__.partition(".")[0], known.__name__) == READER for known in type(frame).__mro__)


def form_of(module: str, name: str) -> Form | None:
    """Return the in-memory form of a class, by its module and name."""
    root = module.partition(".")[0].lstrip("_")
    return next((form for form in IN_MEMORY if form == f"{root}.{name}"), None)


def as_arrow(frame: Any) -> pa.Table:
    """Return the rows of a pandas or Arrow frame, or of anything with an Arrow stream, with its types.

    :raises UnwritableFrame: Arrow cannot represent them, or it is a column and not a table.
    """
    import pyarrow as pa

    try:
        return _table_of(frame)
    except BaseException as problem:
        if isinstance(problem, pa.ArrowException | TypeError) or is_panic(problem):
            name = type(frame).__name__
            advice = "Return a table with columns of other types"
            raise UnwritableFrame(f"this {name} cannot become a table of Arrow: {problem}", advice) from problem
        raise


def unread(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return a reader of the same rows, or raise :class:`UnwritableFrame` if it has no batches and may have been read before."""
    import pyarrow as pa

    first = next(iter(reader), None)
    if first is None:
        problem = "this RecordBatchReader has no batches: it was already read to its end, or never had one"
        raise UnwritableFrame(problem, "Return a pyarrow.Table instead, such as the result of its read_all()")
    return pa.RecordBatchReader.from_batches(reader.schema, chain([first], reader))


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return an empty batch with these columns: a reader without batches cannot be returned (see :func:`unread`)."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def in_form(rows: pa.Table, form: Form) -> Any:
    """Return the rows in a form of :data:`IN_MEMORY`, each value unchanged; raise :class:`UnfitForm` if they do not fit it."""
    try:
        return _convert(rows, form)
    except ImportError:
        raise
    except BaseException as problem:  # each library has its own errors
        if isinstance(problem, Exception) or is_panic(problem):
            raise UnfitForm(form, problem) from problem
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
    from airflow_snowpack.interim.frames.schemas import duckdb_types, polars_types, refuse_types

    root, name = type(frame).__module__.partition(".")[0], type(frame).__name__
    if root == "polars" and name in ("DataFrame", "LazyFrame"):
        frame = frame.collect() if hasattr(frame, "collect") else frame
        refuse_types("Polars", polars_types(frame.schema))
        # Its stream kills the process for some types; this raises an error.
        return frame.to_arrow()
    if root in ("duckdb", "_duckdb") and name == "DuckDBPyRelation":
        refuse_types("DuckDB", duckdb_types(frame))
    return (unread(frame) if isinstance(frame, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(frame)).read_all()


def _convert(rows: pa.Table, form: Form) -> Any:
    import pyarrow as pa

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

            twice = [name for name, count in Counter(map(str.lower, rows.column_names)).items() if count > 1]
            if twice:  # DuckDB would rename all but one
                raise ValueError(f"DuckDB does not distinguish upper and lower case, and has one column {twice[0]}")
            return duckdb.from_arrow(rows)
        case Form.IBIS:
            import ibis

            return ibis.memtable(rows)
        case Form.READER:
            return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches() or [no_rows(rows.schema)])
        case Form.BATCH:
            batches = rows.combine_chunks().to_batches()
            return batches[0] if batches else no_rows(rows.schema)
    return rows
