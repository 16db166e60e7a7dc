"""Rows of Arrow come back as they were written: null for null, and every type that Iceberg can hold without loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.errors import UnreadableTable, UnwritableFrame
from airflow_snowpack.interim.forms import Form, in_form
from airflow_snowpack.interim.frames.tables import read_as_arrow, write_table
from airflow_snowpack.interim.names import Producer
from airflow_snowpack.interim.refs import TableRef

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

NAME = TableName("lake", "snowpack_interim", "t")
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
SKU = pa.struct({"sku": pa.string()})


@pytest.fixture
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return CatalogConfig.embedded(tmp_path_factory.mktemp("lake")).load()


@pytest.fixture
def written(catalog: Catalog) -> Callable[[Any], TableRef]:
    def write(frame: Any) -> TableRef:
        done = write_table(frame, NAME, catalog, "0" * 32)
        return TableRef("1", str(NAME), done.snapshot_id, done.rows, Producer("d", "r", "t"))

    return write


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([None, [], [{"sku": "x"}], [None, {"sku": None}]], pa.list_(SKU)),
        ([None, [], [{"sku": "x"}]], pa.large_list(SKU)),
        ([None, [], [("a", {"sku": "x"}), ("b", None)]], pa.map_(pa.string(), SKU)),
        ([None, [None, []], [[{"sku": None}], None]], pa.list_(pa.list_(SKU))),
        ([None, [("a", None), ("b", [])]], pa.map_(pa.string(), pa.list_(SKU))),
        ([None, {"items": None}, {"items": []}, {"items": [None]}], pa.struct({"items": pa.list_(SKU)})),
        ([None, {"by": None}, {"by": []}, {"by": [("a", None)]}], pa.struct({"by": pa.map_(pa.string(), SKU)})),
    ],
)
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(0, 1), slice(1, 3)])
def test_what_is_null_stays_null_in_lists_and_maps_of_structs(
    values: list[Any], kind: pa.DataType, part: slice, catalog: Catalog, written: Callable[[Any], TableRef]
) -> None:
    rows = pa.table({"id": range(len(values)), "c": pa.array(values, kind)})[part]

    read = read_as_arrow(written(rows), catalog)

    assert read.to_pylist() == rows.to_pylist()
    assert read.schema == rows.schema


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.uuid()), pa.uuid(), pa.list_(SKU), pa.map_(pa.string(), SKU), pa.timestamp("us", "Europe/Berlin")]
)
@pytest.mark.parametrize("form", [Form.ARROW, Form.PANDAS, Form.POLARS, Form.LAZY, Form.READER])
def test_a_table_without_rows_arrives_in_every_form(
    kind: pa.DataType, form: Form, catalog: Catalog, written: Callable[[Any], TableRef]
) -> None:
    empty = pa.table({"c": pa.chunked_array([], kind)})

    read = read_as_arrow(written(empty), catalog)

    assert (read.num_rows, read.schema) == (0, empty.schema)
    in_form(read, form)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.list_(pa.uuid())), pa.large_list(pa.list_(pa.uuid())), pa.list_(pa.map_(pa.string(), pa.uuid()))]
)
def test_rows_without_any_element_of_an_extension_type_are_kept(
    kind: pa.DataType, catalog: Catalog, written: Callable[[Any], TableRef]
) -> None:
    rows = pa.table({"id": [1, 2], "c": pa.nulls(2, kind)})

    assert read_as_arrow(written(rows), catalog).to_pylist() == rows.to_pylist()


def test_a_view_keeps_nulls_too(catalog: Catalog, written: Callable[[Any], TableRef]) -> None:
    rows = pa.table({"id": [1, 2, 3], "items": pa.array([None, [], [{"sku": "x"}]], pa.list_(SKU))})
    ref = written(rows)

    found = read_as_arrow(ref.order_by("id desc").select("items"), catalog)

    assert found.to_pylist() == [{"items": [{"sku": "x"}]}, {"items": []}, {"items": None}]
    assert read_as_arrow(ref.limit(0), catalog).to_pylist() == []
    assert read_as_arrow(ref.limit(1), catalog).to_pylist() == [{"id": 1, "items": None}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([time(5, 6, 7), None], pa.time32("s")),
        ([date(2026, 1, 2), None], pa.date64()),
        ([Decimal("1.50"), None], pa.decimal32(5, 2)),
        ([Decimal("12300"), None], pa.decimal128(5, -2)),
        ([[Decimal("12300"), None], None], pa.list_(pa.decimal128(5, -2))),
        ([UUID(int=7), None], pa.uuid()),
        ([[1, None], None], pa.list_(pa.int64(), 2)),
        ([b"ab", None], pa.binary(2)),
        ([None, {"a": 1}], pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        ([None, [None, {"a": 1}]], pa.list_(pa.struct([pa.field("a", pa.int64(), nullable=False)]))),
    ],
)
def test_types_that_iceberg_lacks_come_back_with_their_values(
    values: list[Any], kind: pa.DataType, catalog: Catalog, written: Callable[[Any], TableRef]
) -> None:
    rows = pa.table({"c": pa.array([value.bytes if isinstance(value, UUID) else value for value in values], kind)})

    assert read_as_arrow(written(rows), catalog)["c"].to_pylist() == values


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+02:00", "America/New_York", "Etc/UTC", "UTC"])
def test_moments_come_back_in_their_time_zone(zone: str, catalog: Catalog, written: Callable[[Any], TableRef]) -> None:
    at = pa.timestamp("us", zone)
    inside = pa.struct({"at": at, "local": pa.timestamp("us")})
    rows = pa.table(
        {
            "id": [1],
            "at": pa.array([NOON], at),
            "inside": pa.array([[{"at": NOON, "local": NOON.replace(tzinfo=None)}]], pa.list_(inside)),
            "by": pa.array([[("a", NOON)]], pa.map_(pa.string(), at)),
        }
    )
    ref = written(rows)

    assert read_as_arrow(ref, catalog).equals(rows)
    view = ref.order_by("at").select("by", "at")
    assert read_as_arrow(view, catalog).equals(rows.select(["by", "at"])), "found by its place in the table, not in the view"


def test_names_that_files_cannot_have_come_back(catalog: Catalog, written: Callable[[Any], TableRef]) -> None:
    rows = pa.table({"odd name": [1], "ü.x": pa.array([[{"1 a": 2}]]), "a-b": ["x"]})

    assert read_as_arrow(written(rows), catalog).equals(rows)


def test_rows_without_columns_and_columns_with_one_name_are_refused(written: Callable[[Any], TableRef]) -> None:
    with pytest.raises(UnwritableFrame, match="more than one column is called a"):
        written(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(UnwritableFrame, match="must not be null"):
        written(pa.table({"n": pa.array([None], pa.int64())}, schema=pa.schema([pa.field("n", pa.int64(), nullable=False)])))


def test_a_limited_view_does_not_read_its_files_to_the_end(catalog: Catalog, written: Callable[[Any], TableRef]) -> None:
    ref = written(pa.table({"n": np.random.default_rng(7).integers(0, 2**62, 2**20 + 100_000)}))  # a second row group
    [file] = catalog.load_table(NAME.identifier).scan().plan_files()
    damaged = Path(file.file.file_path.removeprefix("file://"))
    content = bytearray(damaged.read_bytes())
    content[-500_000:-300_000] = bytes(200_000)
    damaged.write_bytes(content)

    assert read_as_arrow(ref.limit(2), catalog).num_rows == 2
    with pytest.raises(OSError, match="decompression failed"):
        read_as_arrow(ref, catalog)


def test_a_table_that_was_changed_afterwards_is_refused(catalog: Catalog, written: Callable[[Any], TableRef]) -> None:
    ref = written(pa.table({"n": [1, 2]}))
    table = catalog.load_table(NAME.identifier)
    with table.update_schema() as change:
        change.add_column("more", LongType())
    table.append(pa.table({"n": [3], "more": [4]}))
    newest = table.current_snapshot()
    assert newest is not None

    assert read_as_arrow(ref, catalog).to_pylist() == [{"n": 1}, {"n": 2}]
    with pytest.raises(UnreadableTable, match="it has no column with the id 2"):
        read_as_arrow(replace(ref, snapshot_id=newest.snapshot_id), catalog)
