"""A table that is read batch by batch has the rows and types that it has when it is read at once, and is never all in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import LongType

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.errors import UnreadableTable, UnreadableView
from airflow_snowpack.interim.frames.tables import read_as_arrow, read_as_batches, write_table
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

NAME = TableName("lake", "snowpack_interim", "batches")
SKU = pa.struct({"sku": pa.string()})
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "at": pa.array([1, None, 3], pa.timestamp("us", "Europe/Berlin")),
        "items": pa.array([None, [], [{"sku": "x"}]], pa.list_(SKU)),
        "by": pa.array([None, [], [("a", None)]], pa.map_(pa.string(), SKU)),
        "u": pa.array([b"0123456789abcdef", None, None], pa.uuid()),
        "odd name": ["a", None, "c"],
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return CatalogConfig.embedded(tmp_path / "lake").load()


@pytest.fixture
def written(catalog: Catalog) -> Callable[..., TableRef]:
    def write(rows: pa.Table, *more: pa.Table) -> TableRef:
        """Write a table; further rows become files of their own."""
        done = write_table(rows, NAME, catalog, "0" * 32)
        table = catalog.load_table(NAME.identifier)
        for each in more:
            table.append(each)
        snapshot = table.current_snapshot()
        return TableRef("1", str(NAME), snapshot.snapshot_id if snapshot else done.snapshot_id, None, Producer("d", "r", "t"))

    return write


VIEWS: list[Callable[[TableRef], Any]] = [
    lambda ref: ref,
    lambda ref: ref.select("by", "AT"),
    lambda ref: ref.limit(0),
    lambda ref: ref.limit(2),
    lambda ref: ref.limit(1).select("items"),
    lambda ref: ref.order_by("id desc").select("u", "id"),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_the_rows_are_those_that_are_read_at_once(
    catalog: Catalog, written: Callable[..., TableRef], view: Callable[[TableRef], Any], number: int
) -> None:
    ref = view(written(ROWS.slice(3 - number)))
    at_once, reader = read_as_arrow(ref, catalog), read_as_batches(ref, catalog)
    assert reader.schema.equals(at_once.schema)
    assert reader.read_all().to_pylist() == at_once.to_pylist()


def test_files_with_small_and_large_types_have_the_types_of_the_first(catalog: Catalog, written: Callable[..., TableRef]) -> None:
    small = pa.table({"t": ["a", None], "l": pa.array([["x"], None], pa.list_(pa.string()))})
    large = pa.table({"t": pa.array(["b"], pa.large_string()), "l": pa.array([["y"]], pa.large_list(pa.large_string()))})
    ref = written(small, large, small)

    rows = read_as_batches(ref, catalog).read_all()
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, read_as_arrow(ref, catalog).to_pylist()))
    assert rows.num_rows == 5
    for limit in range(6):
        assert read_as_batches(ref.limit(limit), catalog).read_all().num_rows == limit


def test_the_table_is_not_in_memory_as_a_whole(catalog: Catalog, written: Callable[..., TableRef]) -> None:
    # Arrow reads a file ahead and frees it in the background, so the table is far larger than its files.
    parts = [pa.table({"n": np.random.default_rng(part).integers(0, 2**62, 1_000_000)}) for part in range(12)]
    ref = written(*parts)
    size = sum(part.nbytes for part in parts)
    del parts
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in read_as_batches(ref, catalog):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 12_000_000
    assert most < size * 0.75


def test_a_file_that_cannot_be_read_is_reported_while_it_is_read(catalog: Catalog, written: Callable[..., TableRef]) -> None:
    ref = written(pa.table({"n": [1]}))
    table = catalog.load_table(NAME.identifier)
    with table.update_schema() as change:
        change.add_column("more", LongType())
    table.append(pa.table({"n": [3], "more": [4]}))
    newest = table.current_snapshot()
    assert newest is not None

    with pytest.raises(UnreadableTable, match="it has no column with the id 2"):
        read_as_batches(replace(ref, snapshot_id=newest.snapshot_id), catalog).read_all()


def test_a_view_that_takes_spark_is_refused_at_once(catalog: Catalog, written: Callable[..., TableRef]) -> None:
    with pytest.raises(UnreadableView):
        read_as_batches(written(ROWS).where("id > 1"), catalog)
