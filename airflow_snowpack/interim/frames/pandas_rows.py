"""Convert pandas rows to Arrow and back, without the usual losses: indexes, nulls and large numbers.

    rows = rows_of_pandas(df)          # the labels of df.describe() are its first column, called "index"
    df = pandas_of_rows(rows)          # whole numbers with nulls are Int64, not float64

Invariant: each value has exactly one counterpart. In a column of numpy's ``float64`` or of objects, NaN is how pandas spells
null, and becomes null. A column with real NaNs arrives as ``double[pyarrow]``, which distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute, types

from airflow_snowpack.arrow.values import loss_among
from airflow_snowpack.interim.errors import UnwritableFrame

# The dtypes of pandas whose values Arrow keeps, the kinds of numpy's, and what a column of objects may contain.
DTYPES = (
    *(pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype, pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype),
    *(pd.Float32Dtype, pd.Float64Dtype, pd.BooleanDtype, pd.StringDtype, pd.DatetimeTZDtype, pd.ArrowDtype),
)
KINDS = "biufmMO"
OBJECTS = (bool, int, float, str, bytes, bytearray, Decimal, date, time, timedelta, UUID, np.generic)
ADVICE = (
    "Convert the column to one type that Arrow has; dictionaries need the same keys in each row, and sets become lists by list()"
)
# The errors of Arrow and pandas for objects without a common type, or with a type that Arrow lacks.
NO_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)


def rows_of_pandas(frame: pd.DataFrame) -> pa.Table:
    """Return the rows as Arrow. An index becomes columns, as with ``reset_index()``, unless it only numbers the rows from 0.

    :raises UnwritableFrame: a column has no type in Arrow or would change by it, an index has a column's name, a column's name is
        not text, or there are rows without columns.
    """
    index = frame.index
    if not (isinstance(index, pd.RangeIndex) and index.name is None and index.start == 0 and index.step == 1):
        try:
            frame = frame.reset_index()
        except ValueError as problem:
            raise UnwritableFrame(f"the index cannot become a column: {problem}", "Rename it, or drop it") from problem
    if len(frame) and not len(frame.columns):
        raise UnwritableFrame("they have no columns")
    names = list(frame.columns)
    if (other := next((name for name in names if not isinstance(name, str)), None)) is not None:
        raise UnwritableFrame(f"the name of the column {other!r} is not text", "Rename it: df.columns = df.columns.map(str)")
    columns = []
    for place, name in enumerate(names):
        values = frame.iloc[:, place]
        try:
            columns.append(_column(values))
        except NO_ARROW as problem:
            raise UnwritableFrame(problem, ADVICE, column=f"{name} ({values.dtype})") from problem
    return pa.table(columns, names=names)


def _column(values: pd.Series[Any]) -> Any:
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        _column(pd.Series(dtype.categories))  # Arrow converts them like any other column
    elif not (isinstance(dtype, DTYPES) or (isinstance(dtype, np.dtype) and dtype.kind in KINDS)):
        raise TypeError("pandas' dtype has no counterpart")
    if not pd.api.types.is_object_dtype(dtype):
        return pa.array(values, from_pandas=True)
    given = values.to_numpy()
    strange = next((problem for problem in map(_unsupported, given) if problem is not None), None)
    if strange is not None:
        raise TypeError(strange)
    missing = values.isna().to_numpy()
    column = pa.array(given, mask=missing, from_pandas=False)
    # Arrow turns timestamps beside dates into dates.
    problem = loss_among(pa.field("", column.type))(given[~missing])
    problem = problem or next((f"Its field {field!r} would be added" for field in _added(given[~missing], column.type)), None)
    if problem is not None:
        raise pa.ArrowInvalid(f"as {column.type}, a value would change. {problem}")
    return column


def _unsupported(value: Any) -> str | None:
    """Return why a value in a column of objects, or one inside of it, has no counterpart in Arrow."""
    if isinstance(value, dict | list | tuple | np.ndarray):
        if isinstance(value, np.ndarray) and value.dtype != object:
            return None
        inside = value.values() if isinstance(value, dict) else value
        return next((problem for problem in map(_unsupported, inside) if problem is not None), None)
    if isinstance(value, Decimal) and not value.is_finite():
        return f"a decimal is {value}, which only floating point numbers can be"
    if value is None or value is pd.NA or isinstance(value, OBJECTS):
        return None
    return f"a value is a {type(value).__name__}"


def _added(values: Iterable[Any], kind: Any) -> Iterator[str]:
    """Yield the fields that Arrow adds to dictionaries because others in the column have them."""
    if not types.is_nested(kind):
        return
    for value in (each for each in values if each is not None):
        if not types.is_struct(kind):
            yield from _added(value, kind.value_type)
            continue
        for field in kind:
            yield from _added([value[field.name]], field.type) if field.name in value else [field.name]


def pandas_of_rows(rows: pa.Table) -> pd.DataFrame:
    """Return the rows as a DataFrame, each column in a dtype that fits its values.

    That is a numpy dtype if one fits, ``Int64`` or ``boolean`` for a column with nulls, and ``double[pyarrow]`` for one with NaN.
    Lists of numbers become numpy arrays, all other nested values lists and dictionaries.
    """
    names = [str(place) for place in range(rows.num_columns)]  # a view may have two columns with the same name
    numbered = rows.rename_columns(names)
    exactly = {name: _exact_conversion(column) for name, column in zip(names, rows.columns, strict=True)}
    frame: pd.DataFrame = numbered.select([name for name in names if exactly[name] is None]).to_pandas()
    for name, convert in exactly.items():
        if convert is not None:
            frame[name] = convert(numbered.column(name))
    frame = frame[names]
    frame.columns = pd.Index(rows.column_names)
    return frame


def _exact_conversion(column: Any) -> Callable[[Any], pd.Series[Any]] | None:
    """Return how to convert the column; ``None`` if Arrow's own conversion loses nothing."""
    kind = column.type
    if types.is_integer(kind) and column.null_count:
        return lambda each: _as_dtype(each, pd.Int32Dtype() if kind.bit_width == 32 else pd.Int64Dtype())
    if types.is_boolean(kind) and column.null_count:
        return lambda each: _as_dtype(each, pd.BooleanDtype())
    if types.is_floating(kind) and compute.any(compute.is_nan(column)).as_py():
        return lambda each: _as_dtype(each, pd.ArrowDtype(kind))
    if isinstance(kind, pa.BaseExtensionType) or (types.is_nested(kind) and not _of_numbers(column)):
        return _as_objects
    return None


def _as_dtype(column: Any, dtype: Any) -> pd.Series[Any]:
    made: pd.Series[Any] = column.to_pandas(types_mapper=lambda _: dtype)
    return made


def _of_numbers(column: Any) -> bool:
    """Return whether these are lists of only numbers or booleans."""
    kind = column.type
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    inner = kind.value_type
    numbers = types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)
    return bool(numbers and not compute.list_flatten(column).null_count)


def _as_objects(column: Any) -> pd.Series[Any]:
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_pylist()
    return pd.Series(values, dtype=object)
