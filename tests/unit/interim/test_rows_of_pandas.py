"""Rows of pandas become a table and come back: nulls do not make floats of whole numbers, and no index is lost."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from airflow_snowpack.interim.errors import UnfitForm, UnwritableFrame
from airflow_snowpack.interim.forms import Form, as_arrow, in_form
from airflow_snowpack.interim.frames.iceberg_types import in_iceberg_types

LARGE = 2**53 + 1  # no float64
NAN = float("nan")


def arrived(rows: pa.Table) -> pd.DataFrame:
    frame = in_form(rows, Form.PANDAS)
    assert isinstance(frame, pd.DataFrame)
    return frame


def test_whole_numbers_and_truths_with_nulls_arrive_as_such() -> None:
    rows = pa.table(
        {
            "n": pa.array([LARGE, None], pa.int64()),
            "small": pa.array([7, None], pa.int32()),
            "all": [LARGE, 1],
            "b": [True, None],
            "yes": [True, False],
        }
    )
    frame = arrived(rows)

    assert frame.dtypes.astype(str).to_dict() == {"n": "Int64", "small": "Int32", "all": "int64", "b": "boolean", "yes": "bool"}
    assert frame["n"].tolist() == [LARGE, pd.NA]
    assert frame["b"].tolist() == [True, pd.NA]
    assert as_arrow(frame).to_pylist() == rows.to_pylist()


def test_not_a_number_and_null_stay_two_things() -> None:
    rows = pa.table({"x": [1.5, None, NAN], "no_nan": [1.5, None, 2.0], "no_null": [1.5, NAN, 2.0]})
    frame = arrived(rows)

    assert frame.dtypes.astype(str).tolist() == ["double[pyarrow]", "float64", "double[pyarrow]"]
    assert frame["x"].isna().tolist() == [False, True, False]
    assert repr(as_arrow(frame).to_pylist()) == repr(rows.to_pylist())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[LARGE, None], None, []], pa.list_(pa.int64())),
        ([[True, None]], pa.list_(pa.bool_())),
        ([{"n": LARGE}, {"n": None}, None], pa.struct({"n": pa.int64()})),
        ([[{"n": LARGE}, {"n": None}, None], None, []], pa.list_(pa.struct({"n": pa.int64()}))),
        ([[("a", LARGE), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        ([[[LARGE], None]], pa.list_(pa.list_(pa.int64()))),
        ([[datetime(2026, 1, 1, tzinfo=UTC), None]], pa.list_(pa.timestamp("us", "UTC"))),
        ([date(1, 1, 1), None], pa.date32()),
        ([time(1, 2, 3, 4), None], pa.time64("us")),
        ([Decimal("1.50"), None], pa.decimal128(38, 2)),
        ([b"", None], pa.binary()),
        ([UUID(int=1).bytes, None], pa.uuid()),
    ],
)
def test_values_of_other_types_arrive_as_they_are(values: list[Any], kind: pa.DataType) -> None:
    rows = pa.table({"c": pa.array(values, kind)})

    assert [None if value is None else value for value in arrived(rows)["c"].tolist()] == rows["c"].to_pylist()


def test_lists_of_numbers_without_nulls_arrive_as_arrays_of_numpy() -> None:
    frame = arrived(pa.table({"vector": [[1.0, 2.0], [3.0, 4.0]]}))

    assert isinstance(frame["vector"][0], np.ndarray)
    assert np.stack(frame["vector"].to_list()).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_columns_keep_their_order_their_names_and_can_be_changed() -> None:
    frame = arrived(pa.table([[[{"a": 1}]], [1], [None]], names=["a", "b", "a"], schema=None).slice(0, 1).cast(TWICE))

    assert frame.columns.tolist() == ["a", "b", "a"]
    frame.iloc[0, 1] = 7
    assert frame["b"].tolist() == [7]
    assert arrived(pa.table({"n": pa.array([], pa.int64()), "s": pa.array([], pa.list_(pa.string()))})).shape == (0, 2)


TWICE = pa.schema([("a", pa.list_(pa.struct({"a": pa.int64()}))), ("b", pa.int64()), ("a", pa.int64())])


def test_an_index_becomes_columns_as_with_reset_index_unless_it_only_numbers_the_rows() -> None:
    frame = pd.DataFrame({"delay": [1, 2, 3]})

    assert as_arrow(frame).column_names == ["delay"]
    assert as_arrow(frame.describe()).to_pydict()["index"][:2] == ["count", "mean"]
    assert as_arrow(frame[frame.delay > 1]).to_pydict() == {"index": [1, 2], "delay": [2, 3]}
    assert as_arrow(frame[frame.delay > 1].reset_index(drop=True)).column_names == ["delay"]
    assert as_arrow(frame.rename_axis("row")).column_names == ["row", "delay"]
    both = frame.set_index([pd.Index(["a", "b", "c"], name="plane"), [1, 2, 3]])
    assert as_arrow(both).column_names == ["plane", "level_1", "delay"]


def test_an_index_that_is_called_like_a_column_is_refused() -> None:
    with pytest.raises(UnwritableFrame, match="the index cannot become a column: cannot insert delay, already exists"):
        as_arrow(pd.DataFrame({"delay": [1]}).rename_axis("delay"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([date(2026, 1, 1), datetime(2026, 1, 1, 5)], "Its time of day would be cut off"),  # noqa: DTZ001
        ([["a", b"b"]], "It is bytes and not text"),
        (["a", b"\xd8"], "It is text and not bytes"),
        ([2**64], "Python int too large"),
        ([LARGE, 0.5], "outside of the range exactly representable"),
        ([1, "a"], r"the column c \(object\): "),
        ([1j], "a value is a complex"),
        ([pd.Period("2026", "M")], "a value is a Period"),
        ([pd.Timedelta("1s")], "the column c: Iceberg has no type for duration"),
        ([{"x": 1}, {}], "Its field 'x' would be added.*the same keys in each row"),
        ([{"k1": 1}, {"k2": 2}], "Its field 'k2' would be added"),
        ([[{"x": {"a": 1}}, {"x": {"b": 1}}]], "Its field 'b' would be added"),
        ([{1, 2}], r"a value is a set\. .*sets become lists by list\(\)"),
        ([{"tags": [{1}]}], "a value is a set"),
        ([frozenset()], "a value is a frozenset"),
        ([range(2)], "a value is a range"),
        ([Decimal("NaN")], "a decimal is NaN"),
        ([[Decimal("1.5"), Decimal("-Infinity")]], "a decimal is -Infinity"),
        ([None, None], "it has only nulls and no type"),
    ],
)
def test_objects_that_a_column_would_change_are_refused(values: list[Any], expected: str) -> None:
    with pytest.raises(UnwritableFrame, match=expected):
        in_iceberg_types(as_arrow(pd.DataFrame({"c": pd.Series(values, dtype=object)})))


def test_nan_is_null_in_a_column_of_pandas_and_a_number_inside_of_its_values() -> None:
    frame = pd.DataFrame({"x": [1.0, NAN], "s": ["a", NAN], "v": [np.array([NAN]), [1.0, None]]})

    assert repr(as_arrow(frame).to_pydict()) == repr({"x": [1.0, None], "s": ["a", None], "v": [[NAN], [1.0, None]]})


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([date(2026, 1, 1), datetime(2026, 1, 1, 5)], dtype="category"),  # noqa: DTZ001
        pd.Series(pd.interval_range(0, 2)),
        pd.Series(pd.period_range("2026", periods=2, freq="M")),
        pd.Series(pd.arrays.SparseArray([0, 1])),
        pd.Series([1j]),
    ],
)
def test_a_dtype_that_is_not_on_the_list_is_refused_with_its_name(series: pd.Series[Any]) -> None:
    name = str(series.dtype).partition("[")[0]
    with pytest.raises(UnwritableFrame, match=rf"(?s)the column c \({name}.*Convert the column to one type that Arrow has"):
        as_arrow(pd.DataFrame({"c": series}))


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series(["a", None], dtype="category"),
        pd.Series(["a", None], dtype="string"),
        pd.Series([LARGE, None], dtype="int64[pyarrow]"),
        pd.Series([datetime(2026, 1, 1, tzinfo=UTC), None]).dt.tz_convert("Europe/Berlin"),
        pd.Series([datetime(2026, 1, 1, tzinfo=UTC), None]).dt.as_unit("s"),
    ],
)
def test_columns_with_dtypes_of_pandas_are_written(series: pd.Series[Any]) -> None:
    rows = in_iceberg_types(as_arrow(pd.DataFrame({"c": series})))

    assert rows["c"].to_pylist() == [None if value is pd.NA or value is pd.NaT or value != value else value for value in series]


def test_rows_that_pandas_cannot_hold_are_refused() -> None:
    with pytest.raises(UnfitForm, match=r"cannot be converted to pandas\.DataFrame: .* Annotate the parameter with pa.Table"):
        arrived(pa.table({"day": pa.array([10_000_000], pa.int32()).cast(pa.date32())}))


def test_rows_of_pandas_without_columns_are_refused() -> None:
    with pytest.raises(UnwritableFrame, match="they have no columns"):
        as_arrow(pd.DataFrame(index=range(5)))
    assert as_arrow(pd.DataFrame()).num_rows == 0


@pytest.mark.parametrize("name", [2026, ("delay", "mean"), None])
def test_names_of_columns_that_would_become_text_are_refused(name: Any) -> None:
    with pytest.raises(UnwritableFrame, match=r"the name of the column .* is not text\. Rename it: df.columns = "):
        as_arrow(pd.DataFrame([[1, 2]], columns=pd.Index(["a", name], tupleize_cols=False)))
