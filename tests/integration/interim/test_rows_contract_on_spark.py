"""The contract of interim tables with real Spark: what it reads is what others wrote, and what it wrote is what others read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from itertools import count
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from arrow_rows import SPARK_KINDS, MadeRows, tables, values_in
from effort import rounds
from hypothesis import Phase, given, settings

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.errors import UnfitForm, UnwritableFrame
from airflow_snowpack.interim.forms import Form, in_form
from airflow_snowpack.interim.frames.tables import read_as_arrow, read_on_spark, write_table
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

NUMBERS = count()
# Spark takes seconds for an example: one that fails is reported as it is, not made smaller by a hundred others.
ON_SPARK = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
WRITERS: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda rows: rows,
    "pandas": lambda rows: in_form(rows, Form.PANDAS),
    "Polars": pl.DataFrame,
}


def written(frame: Any, catalog: Catalog) -> TableRef:
    name = TableName("lake", "snowpack_interim", f"t{next(NUMBERS)}")
    done = write_table(frame, name, catalog, "0" * 32)
    return TableRef("1", str(name), done.snapshot_id, done.rows, Producer("d", "r", "t"))


@pytest.mark.parametrize("writer", WRITERS)
@settings(ON_SPARK, max_examples=rounds(2, soak=100))
@given(made=tables(SPARK_KINDS, columns=30))
def test_spark_reads_what_others_wrote(writer: str, made: MadeRows, spark: SparkSession, catalog: Catalog) -> None:
    frame = WRITERS[writer](made.rows)
    try:
        ref = written(frame, catalog)
    except UnwritableFrame:
        assert writer == "pandas", "whose objects may have no type in Arrow"
        return

    read = read_on_spark(ref, spark).toArrow()

    assert values_in(read, made.rows.schema) == values_in(frame, made.rows.schema)


@settings(ON_SPARK, max_examples=rounds(3, soak=200))
@given(made=tables(SPARK_KINDS, columns=30))
def test_everybody_reads_what_spark_wrote(made: MadeRows, spark: SparkSession, catalog: Catalog) -> None:
    # PySpark takes no lists that are cut out of longer ones.
    frame = spark.createDataFrame(made.rows.take(pa.array(range(made.rows.num_rows), pa.int64())))
    expected = values_in(frame.toArrow(), made.rows.schema)

    ref = written(frame, catalog)

    assert values_in(read_on_spark(ref, spark).toArrow(), made.rows.schema) == expected
    read = read_as_arrow(ref, catalog)
    for reader in (Form.ARROW, Form.PANDAS, Form.POLARS):
        assert values_in(in_form(read, reader), made.rows.schema) == expected, reader


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("value", [time(12), [time(12)], {"at": time(12)}], ids=["column", "list", "struct"])
def test_times_of_day_that_others_wrote_are_refused_for_spark_with_the_way_out(
    writer: str, value: object, spark: SparkSession, catalog: Catalog
) -> None:
    rows = pa.table({"id": [1, 2], "at": [value, value]})
    ref = written(WRITERS[writer](rows), catalog)

    for read in (ref, ref.select("id")):
        with pytest.raises(UnfitForm, match=r"a column has times of day, which Spark cannot read\. Annotate .* with pa\.Table"):
            read_on_spark(read, spark)
    assert read_as_arrow(ref, catalog)["id"].to_pylist() == [1, 2]
