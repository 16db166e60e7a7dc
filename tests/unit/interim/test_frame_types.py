"""Rows of Arrow in types that Iceberg has: nothing is bent on the way, and what cannot be kept is told in a sentence."""

from __future__ import annotations

from datetime import datetime, time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.interim.frame_errors import UnwritableFrame
from airflow_snowpack.interim.frames import as_arrow
from airflow_snowpack.interim.writing import write_table

if TYPE_CHECKING:
    from pathlib import Path

DAY = datetime(2026, 1, 1)  # noqa: DTZ001 - a local time
OF_NANOSECONDS = pa.timestamp("ns")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([255], pa.uint8()), pa.int32()),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64()),
        (pa.array([2**63 - 1], pa.uint64()), pa.int64()),
        (pa.array([[DAY], None], pa.list_(OF_NANOSECONDS)), pa.list_(pa.timestamp("us"))),
        (pa.array([{"n": 1}], pa.struct([("n", pa.uint32())])), pa.struct([("n", pa.int64())])),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint64())), pa.map_(pa.string(), pa.int64())),
        (pa.array([time(5)], pa.time64("ns")), pa.time64("us")),
    ],
)
def test_types_that_iceberg_lacks_become_types_that_hold_as_much(column: pa.Array, kind: pa.DataType) -> None:
    rows = as_arrow(pa.table({"c": column, "other": pa.array(["x"] * len(column))}))

    assert rows.schema.types == [kind, pa.string()]
    assert rows["c"].to_pylist() == column.to_pylist()


def test_types_that_iceberg_has_stay_as_they_are() -> None:
    rows = pa.table({"n": [1], "at": pa.array([DAY], pa.timestamp("us")), "legs": [[{"to": "EWR"}]]})
    assert as_arrow(rows).equals(rows)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"u": pa.array([2**63], pa.uint64())}, "the column u: Integer value 9223372036854775808 not in range"),
        ({"u": pa.array([[2**63]], pa.list_(pa.uint64()))}, "the column u: "),
        ({"at": pa.array([[1]], pa.list_(OF_NANOSECONDS))}, "the column at: .* would lose data"),
        ({"": [1]}, "a column, or a field of one, has no name"),
        ({"s": [[{"": 1}]]}, "a column, or a field of one, has no name"),
        ({"at": pa.array([2**62], pa.timestamp("s"))}, "out of bounds timestamp"),  # which is seen when it is written
    ],
)
def test_what_cannot_be_kept_is_told_in_a_sentence_and_makes_no_table(tmp_path: Path, rows: dict[str, Any], told: str) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    name = TableName("lake", "snowpack_interim", "t")

    with pytest.raises(UnwritableFrame, match=f"These rows cannot become a table: .*{told}"):
        write_table(pa.table(rows), name, catalog, "0" * 32)
    assert not catalog.table_exists(name.identifier)
