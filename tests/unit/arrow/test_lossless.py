"""A value goes into its column as it is, or not at all: of whichever class it is, as a row's value and as a column of a batch."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import types

from airflow_snowpack.arrow.casting import DoesNotFit, cast
from airflow_snowpack.arrow.rows import Misfit, RowBatches, rows_of
from airflow_snowpack.arrow.values import loss_among

WHOLE, SINGLE, DOUBLE = pa.int64(), pa.float32(), pa.float64()
MOMENT, LOCAL, DAY, SPAN = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.duration("us")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_IN_ATHENS = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
LOCAL_NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - that is what it is
PANDAS_NOON = pd.Timestamp("2026-01-01 12:00")
NANOSECOND = pd.Timestamp("2026-01-01 12:00:00.000000001")
LEG = pa.struct([pa.field("miles", WHOLE, nullable=False), ("to", pa.string())])


def kept(value: Any, kind: pa.DataType) -> Any:
    """What comes back of a value that a function gave."""
    (row,) = rows_of(RowBatches(pa.schema([("c", kind)])).of([{"c": value}]))
    return row["c"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1.5, WHOLE, "fraction"),
        (np.float64(1.5), WHOLE, "fraction"),
        (np.float32(1.5), pa.int32(), "fraction"),
        (Decimal("1.5"), WHOLE, "fraction"),
        (Fraction(3, 2), WHOLE, "fraction"),
        ([1.5], pa.list_(WHOLE), "fraction"),
        ([1, np.float64(1.5)], pa.list_(WHOLE), "fraction"),
        (np.array([1.5]), pa.list_(WHOLE), "fraction"),
        (pd.Series([1.5]), pa.list_(WHOLE), "fraction"),
        ({"a": np.float64(1.5)}, pa.map_(pa.string(), WHOLE), "fraction"),
        ([{"miles": Decimal("0.5")}], pa.list_(LEG), "fraction"),
        (np.bool_(True), WHOLE, "not a number"),
        (np.timedelta64(1, "ns"), WHOLE, "not a number"),
        (np.array([NANOSECOND], "datetime64[ns]"), pa.list_(WHOLE), "not a number"),
        (1e300, SINGLE, "too large"),
        ([0.5, np.float64(1e300)], pa.list_(SINGLE), "too large"),
        (np.longdouble("0.1"), DOUBLE, "last digits"),
        (LOCAL_NOON, DAY, "time of day"),
        (PANDAS_NOON, DAY, "time of day"),
        ([pd.NaT], pa.list_(DAY), "time of day"),
        (5, DAY, "not a date"),
        (LOCAL_NOON, MOMENT, "no time zone"),
        (PANDAS_NOON, MOMENT, "no time zone"),
        (NOON_IN_ATHENS, LOCAL, "time zone would be cut off"),
        ([NOON], pa.list_(LOCAL), "time zone would be cut off"),
        (NANOSECOND, LOCAL, "nanoseconds"),
        (NANOSECOND.tz_localize("UTC"), MOMENT, "nanoseconds"),
        (np.array([NANOSECOND], "datetime64[ns]"), pa.list_(LOCAL), r"unit is that of datetime64\[ns\]; convert it to us"),
        (1357034400, MOMENT, "not a date and time"),
        (1357034400.5, LOCAL, "not a date and time"),
        (pd.Timedelta(1, "ns"), SPAN, "nanoseconds"),
        (np.array([1], "timedelta64[ns]"), pa.list_(SPAN), "convert it to us"),
        (90, SPAN, "not a duration"),
        (5, pa.time64("ns"), "not a time of day"),
        (time(5, tzinfo=UTC), pa.time64("ns"), "time zone would be cut off"),
        ("EWR", pa.list_(pa.string()), "text and not a list"),
        (bytearray(b"EWR"), pa.list_(WHOLE), "text and not a list"),
        ({1, 2}, pa.list_(WHOLE), "a set and not a list"),
        ([{"a"}], pa.list_(pa.list_(pa.string())), "a set and not a list"),
        ("", pa.map_(pa.string(), WHOLE), "text"),
        ({"miles": 1, "from": "EWR"}, LEG, "field 'from' would be cut off"),
        ({"to": "EWR"}, LEG, "'miles' must not be null"),
        ({"to": "EWR", "miles": None}, LEG, "must not be null"),
        ([1, None], pa.list_(pa.field("element", WHOLE, nullable=False)), "must not be null"),
        ([0.5, None], pa.list_(pa.field("element", SINGLE, nullable=False)), "must not be null"),
        (pd.Series([1], index=[5]), pa.list_(WHOLE), "does not fit .*: 0"),  # a KeyError: Arrow asks for its first
    ],
)
def test_a_value_that_would_not_come_back_is_refused_and_named(value: Any, kind: pa.DataType, expected: str) -> None:
    with pytest.raises(Misfit, match=rf"(?s)c = .*{expected}") as refused:
        RowBatches(pa.schema([("c", kind)])).of([{"c": None}, {"c": value}])
    assert refused.value.number == 1


@pytest.mark.parametrize(
    ("value", "kind", "back"),
    [
        (2.0, WHOLE, 2),
        (np.float64(2), WHOLE, 2),
        (np.int32(2), WHOLE, 2),
        (Decimal("2.00"), pa.int8(), 2),
        (pa.scalar(2), WHOLE, 2),
        (np.array([1, 2]), pa.list_(WHOLE), [1, 2]),
        (pa.array([1, None]), pa.list_(WHOLE), [1, None]),
        (np.array([1.0]), pa.list_(WHOLE), [1]),
        (np.float32(0.1), DOUBLE, float(np.float32(0.1))),
        (math.inf, SINGLE, math.inf),
        ([math.inf, -math.inf, None, 1], pa.list_(SINGLE), [math.inf, -math.inf, None, 1.0]),
        (np.float64(0.5), pa.float64(), 0.5),
        (Decimal("1.5"), pa.decimal128(9, 2), Decimal("1.50")),
        (np.bool_(True), pa.bool_(), True),
        (date(2026, 1, 1), DAY, date(2026, 1, 1)),
        (NOON_IN_ATHENS, MOMENT, NOON),
        (PANDAS_NOON.tz_localize("UTC"), MOMENT, NOON),
        (LOCAL_NOON, LOCAL, LOCAL_NOON),
        (PANDAS_NOON, LOCAL, LOCAL_NOON),
        (np.datetime64("2026-01-01T12:00", "us"), LOCAL, LOCAL_NOON),
        (np.array([LOCAL_NOON], "datetime64[us]"), pa.list_(LOCAL), [LOCAL_NOON]),
        (timedelta(microseconds=1), SPAN, timedelta(microseconds=1)),
        (time(5), pa.time64("ns"), time(5)),
        ([("a", 2.0)], pa.map_(pa.string(), WHOLE), {"a": 2}),
        ({"miles": 2.0}, LEG, {"miles": 2, "to": None}),
        ((), pa.list_(WHOLE), []),
    ],
)
def test_a_value_that_comes_back_unchanged_is_accepted_whatever_its_class(value: Any, kind: pa.DataType, back: Any) -> None:
    assert kept(value, kind) == back


def test_what_is_not_a_number_stays_that() -> None:
    assert all(math.isnan(kept(value, kind)) for value in (math.nan, np.float32("nan")) for kind in (SINGLE, DOUBLE))
    assert math.isnan(kept([math.nan, np.float64(1)], pa.list_(SINGLE))[0])


def test_single_precision_rounds() -> None:
    assert kept(0.1, SINGLE) == float(np.float32(0.1)) != 0.1


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1.5]), WHOLE, "truncated"),
        (pa.array([1.005]), pa.decimal128(9, 2), "lose data"),
        (pa.array([Decimal("12345678901234567.89")]), DOUBLE, "lose data"),
        (pa.array([1e300]), SINGLE, "lose data"),
        (pa.array([5]), pa.bool_(), "lose data"),
        (pa.array(["01"]), WHOLE, "lose data"),
        (pa.array([LOCAL_NOON]), DAY, "lose data"),
        (pa.array([LOCAL_NOON]), MOMENT, "time zone"),
        (pa.array([NOON]), LOCAL, "time zone"),
        (pa.array([NANOSECOND], pa.timestamp("ns")), LOCAL, "lose data"),
        (pa.array([5]), LOCAL, "int64 is not a date or time"),
        (pa.array([[LOCAL_NOON]]), pa.list_(DAY), "lose data"),
        (pa.array([[("a", LOCAL_NOON)]], pa.map_(pa.string(), LOCAL)), pa.map_(pa.string(), DAY), "lose data"),
        (pa.array([{"miles": 1, "from": "EWR"}]), LEG, "from would be cut off"),
        (pa.array([{"miles": None}], pa.struct([("miles", WHOLE)])), LEG, "miles must not be null"),
        (pa.array([[1, None]]), pa.list_(pa.field("element", WHOLE, nullable=False)), "element must not be null"),
    ],
)
def test_a_column_that_would_not_come_back_is_refused(values: pa.Array, kind: pa.DataType, expected: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=expected):
        cast(values, pa.field("c", kind), by_name=True)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.0, None, 3.0]), WHOLE),
        (pa.array([1, 2], pa.uint64()), pa.int8()),
        (pa.array([None]), LEG),
        (pa.array([NOON_IN_ATHENS], pa.timestamp("s", "Europe/Athens")), MOMENT),
        (pa.array(["EWR", None]).dictionary_encode(), pa.string()),
        (pa.array([math.inf, -1.0]), SINGLE),
        (pa.array([[0.5, 1.0], None, [2.0]]).slice(1), pa.list_(SINGLE)),
        (pa.array([[("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), WHOLE)).slice(1), pa.map_(pa.string(), pa.int8())),
        (pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(SINGLE, 2)).slice(1), pa.list_(pa.field("item", DOUBLE), 2)),
        (pa.array([{"to": "EWR", "miles": 1}, None], pa.struct([("to", pa.string()), ("miles", pa.int8())])), LEG),
    ],
)
def test_a_column_that_comes_back_is_cast(values: pa.Array, kind: pa.DataType) -> None:
    made = cast(values, pa.field("c", kind), by_name=True)
    assert made.type == kind
    assert made.to_pylist() == values.to_pylist()


@pytest.mark.parametrize(
    "kind",
    [pa.dictionary(pa.int32(), WHOLE), pa.dictionary(pa.int8(), WHOLE), pa.struct([("in", pa.dictionary(pa.int32(), WHOLE))])],
)
def test_a_dictionary_of_numbers_stays_one(kind: pa.DataType) -> None:
    """Arrow itself encodes only text and bytes."""
    codes = pa.array([7, None, 7], WHOLE).dictionary_encode()
    values = codes if types.is_dictionary(kind) else pa.StructArray.from_arrays([codes], ["in"])
    made = cast(values.slice(1), pa.field("c", kind))
    assert made.type == kind
    assert made.to_pylist() == values.to_pylist()[1:]


def test_a_null_among_the_values_of_a_dictionary_is_one() -> None:
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([7, None], WHOLE))
    with pytest.raises(DoesNotFit, match="must not be null"):
        cast(codes, pa.field("c", codes.type, nullable=False))


def test_the_beginnings_of_days_are_dates() -> None:
    day = date(2026, 1, 1)
    assert cast(pa.array([day]).cast(LOCAL), pa.field("c", DAY)).to_pylist() == [day]


def test_columns_of_single_precision_round_also_inside_of_lists() -> None:
    made = cast(pa.array([[0.1, math.nan]]), pa.field("c", pa.list_(SINGLE)))
    assert made.to_pylist()[0][0] == np.float32(0.1)


def test_what_arrow_would_not_have_refused_is_an_error_of_arrows() -> None:
    with pytest.raises(DoesNotFit):
        cast(pa.array([5]), pa.field("c", pa.bool_()))


def test_a_null_list_stays_null_and_an_empty_one_empty() -> None:
    """Arrow's own cast of a nested array loses the nulls of some slices."""
    values = pa.array([[[LOCAL_NOON]], None, [], [None, []]], pa.list_(pa.list_(pa.timestamp("ns")))).slice(1)
    made = cast(values, pa.field("c", pa.list_(pa.list_(LOCAL))))
    assert made.to_pylist() == [None, [], [None, []]]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.string(), b"x", "It is bytes and not text; decode it"),
        (pa.large_string(), bytearray(b"x"), "It is bytes and not text; decode it"),
        (pa.binary(), "x", "It is text and not bytes; encode it"),
    ],
)
def test_text_and_bytes_are_two_things(kind: pa.DataType, value: Any, expected: str) -> None:
    assert loss_among(pa.field("c", kind))([value]) == expected
    assert loss_among(pa.field("c", pa.list_(kind)))([[value]]) == expected
