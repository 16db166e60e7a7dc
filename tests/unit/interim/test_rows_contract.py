"""The contract of interim tables: rows of any type, nullness and nesting are read as they were written, or refused with a reason.

Arrow, pandas and Polars are each the writer and the reader; Spark is in ``integration/interim/test_rows_contract_on_spark.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from arrow_rows import MadeRows, tables, values_in
from effort import rounds
from hypothesis import given, reject, settings

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.errors import UnfitForm, UnwritableFrame
from airflow_snowpack.interim.forms import Form, in_form
from airflow_snowpack.interim.frames.tables import read_as_arrow, write_table
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NUMBERS = count()
READERS = (Form.ARROW, Form.PANDAS, Form.POLARS)


HOME = TemporaryDirectory(prefix="snowpack-contract-")


@cache
def catalog() -> Catalog:
    return CatalogConfig.embedded(Path(HOME.name)).load()


def read_back(frame: Any) -> pa.Table:
    name = TableName("lake", "snowpack_interim", f"t{next(NUMBERS)}")
    written = write_table(frame, name, catalog(), "0" * 32)
    return read_as_arrow(TableRef("1", str(name), written.snapshot_id, written.rows, Producer("d", "r", "t")), catalog())


def in_arrow(rows: pa.Table) -> Any:
    return rows


def in_pandas(rows: pa.Table) -> Any:
    return rows.to_pandas()


def in_pandas_of_arrow(rows: pa.Table) -> Any:
    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def in_polars(rows: pa.Table) -> Any:
    return pl.DataFrame(rows)


@pytest.mark.parametrize("writer", [in_arrow, in_pandas, in_pandas_of_arrow, in_polars])
@settings(max_examples=rounds(25, soak=5_000))
@given(made=tables())
def test_rows_are_read_as_they_were_written_or_refused(writer: Callable[[pa.Table], Any], made: MadeRows) -> None:
    try:
        frame = writer(made.rows)
        expected = values_in(frame, made.rows.schema)
    except BaseException as unable:  # the library itself cannot hold these rows, which no task of it could return
        if isinstance(unable, KeyboardInterrupt):
            raise
        reject()
    try:
        read = read_back(frame)
    except UnwritableFrame:
        assert not (made.is_storable and writer is in_arrow), "Iceberg has room for these"
        return
    for reader in READERS:
        try:
            got = in_form(read, reader)
        except UnfitForm:
            assert reader is not Form.ARROW
            continue
        assert values_in(got, made.rows.schema) == expected, reader
