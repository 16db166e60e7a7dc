"""Rows of every Arrow type, nullness and nesting, and what Arrow, pandas and Polars say that they hold.

@given(tables())
def test_...(made: MadeRows): ...        # made.rows; made.is_storable: Iceberg has room for every value

values_in(frame, rows.schema)            # column by column, alike for each library
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import compute, types

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "+05:30")


@dataclass(frozen=True)
class Kind:
    """A type, and values of it.

    :ivar is_storable: Iceberg has room for all of these values.
    """

    type: pa.DataType
    values: st.SearchStrategy[Any]
    is_storable: bool = True


@dataclass(frozen=True)
class MadeRows:
    """Rows, and whether each of their values can be kept."""

    rows: pa.Table
    is_storable: bool


def _integers(bits: int, *, signed: bool, room: int | None = None) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    high = min(high, room or high)
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


def _moments(unit: str, zone: str | None) -> st.SearchStrategy[Any]:
    step = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1)}.get(unit, timedelta(microseconds=1))
    low, high = datetime(1700, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    moments = st.integers((low - EPOCH) // step, (high - EPOCH) // step).map(lambda number: EPOCH + number * step)
    return moments if zone else moments.map(lambda moment: moment.replace(tzinfo=None))


def _decimals(precision: int, scale: int, digits: int | None = None) -> st.SearchStrategy[Decimal]:
    most = 10 ** max((digits or precision) + min(scale, 0), 0) - 1
    exact = Context(prec=80)
    if scale < 0:
        return st.integers(-most, most).map(lambda number: Decimal(number * 10**-scale))
    return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-scale, exact))


def _plain_leaves() -> list[Kind]:
    whole = [Kind(getattr(pa, f"int{bits}")(), _integers(bits, signed=True)) for bits in (8, 16, 32, 64)]
    whole += [Kind(getattr(pa, f"uint{bits}")(), _integers(bits, signed=False, room=2**63 - 1)) for bits in (8, 16, 32, 64)]
    text, raw = st.text(max_size=8), st.binary(max_size=8)
    others = [
        Kind(pa.bool_(), st.booleans()),
        Kind(pa.float16(), st.floats(width=16)),
        Kind(pa.float32(), st.floats(width=32)),
        Kind(pa.float64(), st.floats()),
        *(Kind(kind, text) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(Kind(kind, raw) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
        Kind(pa.binary(3), st.binary(min_size=3, max_size=3)),
        Kind(pa.date32(), st.dates()),
        Kind(pa.date64(), st.dates()),
        Kind(pa.uuid(), st.uuids().map(lambda value: value.bytes)),
    ]
    return whole + others


def _leaves() -> st.SearchStrategy[Kind]:
    times = [Kind(pa.time64(unit), st.times()) for unit in ("us", "ns")]
    times += [Kind(pa.time32("s"), st.times().map(lambda value: value.replace(microsecond=0)))]
    times += [Kind(pa.time32("ms"), st.times().map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)))]
    unfit = [
        Kind(pa.uint64(), _integers(64, signed=False), False),
        Kind(pa.duration("s"), st.integers(0, 9).map(lambda number: timedelta(seconds=number)), False),
        Kind(pa.month_day_nano_interval(), st.just((1, 2, 3)), False),
        Kind(pa.null(), st.none(), False),
        Kind(pa.struct([]), st.just({}), False),
        Kind(pa.decimal256(60, 4), _decimals(60, 4), False),
        Kind(pa.decimal128(38, -3), _decimals(38, -3), False),
        # Numbers that are no whole microseconds or days: Arrow takes them as they are.
        Kind(pa.timestamp("ns"), st.integers(-(2**60), 2**60), False),
        Kind(pa.timestamp("us"), st.integers(-(2**63) + 1, 2**63 - 1), False),
        Kind(pa.timestamp("s", "UTC"), st.integers(-(2**63) + 1, 2**63 - 1), False),
        Kind(pa.time64("ns"), st.integers(0, 86_399_999_999_999), False),
        Kind(pa.date32(), st.integers(-(2**31), 2**31 - 1), False),
    ]
    moments = st.builds(
        lambda unit, zone: Kind(pa.timestamp(unit, zone), _moments(unit, zone)),
        st.sampled_from(["s", "ms", "us", "ns"]),
        st.sampled_from([None, *ZONES]),
    )
    return st.one_of(st.sampled_from(_plain_leaves() + times), moments, _decimal_kinds(), _encoded(), st.sampled_from(unfit))


@st.composite
def _decimal_kinds(draw: st.DrawFn) -> Kind:
    make, most = draw(st.sampled_from([(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)]))
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(-min(3, 38 - min(precision, 38)), min(precision, 38)))
    fits = min(precision, 38)
    return Kind(make(precision, scale), _decimals(precision, scale, fits), precision <= 38 or scale >= 0)


@st.composite
def _encoded(draw: st.DrawFn) -> Kind:
    value = draw(st.sampled_from([kind for kind in _plain_leaves() if kind.type in (pa.string(), pa.int64(), pa.float64())]))
    return Kind(pa.dictionary(draw(st.sampled_from([pa.int8(), pa.int32()])), value.type), value.values)


def _or_null(kind: Kind) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), kind.values)


NAMES = st.sampled_from(["a", "b", "odd name", "ü", "1st", "x.y"])
KEYS = [pa.string(), pa.int64(), pa.int32(), pa.large_string(), pa.date32()]


@st.composite
def _nested(draw: st.DrawFn, inner: st.SearchStrategy[Kind], *, of_spark: bool = False) -> Kind:
    match draw(st.sampled_from(["list", "struct", "map"] if of_spark else ["list", "fixed", "struct", "map"])):
        case "list":
            kind = draw(inner)
            make = pa.list_ if of_spark else draw(st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view]))
            return Kind(make(kind.type), st.lists(_or_null(kind), max_size=3), kind.is_storable)
        case "fixed":
            kind = draw(inner)
            is_plain = "extension" not in str(kind.type)  # Arrow flattens no others
            return Kind(pa.list_(kind.type, 2), st.lists(_or_null(kind), min_size=2, max_size=2), kind.is_storable and is_plain)
        case "struct":
            names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
            kinds = {name: draw(inner) for name in names}
            values = st.fixed_dictionaries({name: _or_null(kind) for name, kind in kinds.items()})
            made = pa.struct([pa.field(name, kind.type) for name, kind in kinds.items()])
            return Kind(made, values, all(kind.is_storable for kind in kinds.values()))
    key = draw(st.sampled_from([kind for kind in _plain_leaves() if kind.type in (KEYS[:3] if of_spark else KEYS)]))
    item = draw(inner)
    pairs = st.lists(st.tuples(key.values, _or_null(item)), max_size=3, unique_by=lambda pair: pair[0])
    return Kind(pa.map_(key.type, item.type), pairs, item.is_storable)


def _leaves_of_spark() -> st.SearchStrategy[Kind]:
    """Types that Spark has as well."""
    known = (
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    )
    plain = [kind for kind in _plain_leaves() if kind.type in known]
    moments = [Kind(pa.timestamp("us", zone), _moments("us", zone)) for zone in (None, "UTC")]
    decimals = [Kind(pa.decimal128(*size), _decimals(*size)) for size in ((1, 0), (9, 2), (18, 18), (38, 10))]
    return st.sampled_from(plain + moments + decimals)


KINDS = st.recursive(_leaves(), _nested, max_leaves=4)
SPARK_KINDS = st.recursive(_leaves_of_spark(), lambda inner: _nested(inner, of_spark=True), max_leaves=4)


@st.composite
def tables(draw: st.DrawFn, kinds: st.SearchStrategy[Kind] = KINDS, *, columns: int = 3) -> MadeRows:
    """Rows of a few columns, in chunks, and cut out of a longer array."""
    count = draw(st.integers(0, 5))
    made, storable = {}, True
    for place in range(draw(st.integers(1, columns))):
        kind = draw(kinds)
        values = draw(st.lists(_or_null(kind), min_size=count, max_size=count))
        before = draw(st.integers(0, 2))
        made[f"c{place}"] = _array([*values[:before], *values], kind.type)[len(values[:before]) :]
        storable = storable and kind.is_storable
    rows = pa.table(made)
    cut = draw(st.integers(0, count))
    return MadeRows(pa.concat_tables([rows[:cut], rows[cut:]]) if draw(st.booleans()) else rows, storable)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Also of the types that ``pa.array`` makes nothing of when they are inside of others."""
    if types.is_struct(kind):
        children = [_array([None if row is None else row[field.name] for row in values], field.type) for field in kind]
        missing = pa.array([row is None for row in values], pa.bool_())
        if not children:
            return pa.array(values, kind)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=missing)
    if types.is_map(kind):
        pairs = [pair for row in values if row is not None for pair in row]
        keys, items = _array([key for key, _ in pairs], kind.key_type), _array([item for _, item in pairs], kind.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        elements = _array([element for row in values if row is not None for element in row], kind.value_type)
        large = types.is_large_list(kind) or types.is_large_list_view(kind)
        counts = pa.int64() if large else pa.int32()
        if types.is_list_view(kind) or types.is_large_list_view(kind):
            view = pa.LargeListViewArray if large else pa.ListViewArray
            sizes = pa.array([len(row or ()) for row in values], counts)
            missing = pa.array([row is None for row in values], pa.bool_())
            begins = _offsets(values, counts)[: len(values)].fill_null(0)
            return view.from_arrays(begins, sizes, elements, type=kind, mask=missing)
        return (pa.LargeListArray if large else pa.ListArray).from_arrays(_offsets(values, counts), elements, type=kind)
    if types.is_fixed_size_list(kind):
        size = kind.list_size
        flat = [element for row in values for element in (row if row is not None else [None] * size)]
        missing = pa.array([row is None for row in values], pa.bool_())
        return pa.FixedSizeListArray.from_arrays(_array(flat, kind.value_type), type=kind, mask=missing)
    if types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _offsets(values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    """A list that begins nowhere is null."""
    offsets: list[int | None] = []
    end = 0
    for row in values:
        offsets.append(None if row is None else end)
        end += len(row or ())
    return pa.array([*offsets, end], kind or pa.int32())


def values_in(frame: Any, schema: pa.Schema) -> list[list[Any]]:
    """The values of each column, alike for all libraries.

    :param schema: the types of the rows that the frame was made of, to tell a map from a struct.
    """
    if isinstance(frame, pa.Table):
        columns = [_decoded(column).to_pylist() for column in frame.columns]
    elif isinstance(frame, pl.DataFrame):
        columns = [frame.to_series(place).to_list() for place in range(frame.width)]
    else:
        assert isinstance(frame, pd.DataFrame)
        columns = [_of_pandas(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return [[_alike(value, field.type) for value in column] for column, field in zip(columns, schema, strict=True)]


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return (
        pa.chunked_array([compute.run_end_decode(each) for each in column.chunks])
        if types.is_run_end_encoded(column.type)
        else column
    )


def _of_pandas(column: pd.Series[Any]) -> list[Any]:
    """In dtypes of numpy, and in text, NaN is how null is written."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return pa.array(column).to_pylist()  # type: ignore[no-any-return]
    return [None if is_missing else value for value, is_missing in zip(column.tolist(), _missing(column), strict=True)]


def _missing(column: pd.Series[Any]) -> list[bool]:
    return [isinstance(missing, bool | np.bool_) and bool(missing) for missing in column.isna().tolist()]


def _alike(value: Any, kind: Any) -> Any:
    """One Python value for what libraries give in several classes."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _alike(value, kind.value_type)
    if types.is_struct(kind):
        return {field.name: _alike(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else [_pair(pair) for pair in value]
        return [(_alike(key, kind.key_type), _alike(item, kind.item_type)) for key, item in pairs]
    if types.is_nested(kind):
        return [_alike(element, kind.value_type) for element in value]
    return _alike_leaf(value, kind)


def _pair(pair: Any) -> tuple[Any, Any]:
    return tuple(pair.values()) if isinstance(pair, dict) else pair


def _alike_leaf(value: Any, kind: Any) -> Any:
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else pd.Timestamp(value)
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        # Objects of pandas may have whole numbers beside others; -0.0 is told from 0.0.
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False) if not value.nanosecond else value
    if isinstance(value, datetime) and types.is_timestamp(kind):
        return value.astimezone(UTC) if value.tzinfo else value
    if isinstance(value, datetime) and types.is_date(kind):
        return value.date()
    if isinstance(value, UUID):
        return value.bytes
    return value


__all__ = ["KINDS", "Kind", "MadeRows", "date", "tables", "time", "values_in"]
