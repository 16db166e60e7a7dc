"""What rows can be held in, as tasks are handed them and as they return them.

    form_of("polars", "DataFrame")       # Form.POLARS: by the module and the name of a class
    in_form(rows, Form.POLARS)           # a polars.DataFrame of what a pyarrow.Table has

Importing this module costs nothing: DAG files are parsed with it. A library is imported when a task is handed its class.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.frame_errors import UnfitForm, is_panic

if TYPE_CHECKING:
    import pyarrow as pa


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
            from airflow_snowpack.interim.pandas_rows import pandas_of_rows

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
