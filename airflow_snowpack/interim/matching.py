"""Which rows of an Arrow table a condition holds for: as in Spark, or no answer.

    matching = Matching(parse("delay > 60"), schema)                        # refuses what the types do not settle
    matching.rows(scan.filter(matching.pushed()).to_arrow())

Logic has three values, NaN is greater than every number, and -0.0 equals 0.0. The invariant: where Spark's own answer depends on
how the rows lie in files, there is none here. Spark passes over files by the lowest and highest values that Iceberg has noted of
them; NaN is not among these, and -0.0 counts as less than 0.0. So of a NaN Spark finds ``x > 5`` only in a file that also has a
number above 5, and of a -0.0 ``x = 0`` only in one that also has a 0.0 or more. Where that matters a condition is looked at in
both ways (``sure``: such rows are not found), and refused if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_snowpack.interim.comparable import Comparable, comparable, is_number, is_text
from airflow_snowpack.interim.condition import Condition, Junction, OnlySparkKnows, Op

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQUAL: pc.equal,
    Op.NOT_EQUAL: pc.not_equal,
    Op.LESS: pc.less,
    Op.LESS_EQUAL: pc.less_equal,
    Op.GREATER: pc.greater,
    Op.GREATER_EQUAL: pc.greater_equal,
}
ABOVE = (Op.GREATER, Op.GREATER_EQUAL)
AT_ZERO = (Op.EQUAL, Op.GREATER_EQUAL)
# The names of PyIceberg's expressions.
PUSHED = {
    Op.EQUAL: "In",
    Op.LESS: "LessThan",
    Op.LESS_EQUAL: "LessThanOrEqual",
    Op.GREATER: "GreaterThan",
    Op.GREATER_EQUAL: "GreaterThanOrEqual",
}


class Matching:
    """A condition on the columns of one table.

    :raises OnlySparkKnows: a column is not there, or its type and a value are not surely compared as in Spark.
    """

    def __init__(self, condition: Condition, schema: pa.Schema) -> None:
        self._root = _bound(condition, schema)
        self._comparisons = list(_comparisons(self._root))

    @property
    def columns(self) -> list[str]:
        """What has to be read for it."""
        return list(dict.fromkeys(each.column for each in self._comparisons))

    def pushed(self) -> BooleanExpression:
        """What PyIceberg may leave out while it reads: it gives all rows that match, and maybe others."""
        return _pushed(self._root)

    def rows(self, rows: pa.Table) -> pa.Table:
        """Those for which it is true: neither false nor null.

        :raises OnlySparkKnows: it depends on the files which rows Spark finds.
        """
        found = _kept(rows, self._root, sure=False)
        doubtful = sorted({each.column for each in self._comparisons if _is_doubtful(each)})
        if doubtful and _kept(rows, self._root, sure=True).num_rows != found.num_rows:
            raise OnlySparkKnows(
                f"there is NaN or -0.0 in {doubtful}, and which of these rows Spark finds depends on how they lie in files"
                " (NOT isnan(...) leaves NaN out)"
            )
        return found


@dataclass(frozen=True, slots=True)
class _Joined:
    every: bool
    parts: tuple[_Bound, ...]


_Bound = Comparable | _Joined


def _bound(condition: Condition, schema: pa.Schema) -> _Bound:
    if isinstance(condition, Junction):
        return _Joined(condition.every, tuple(_bound(part, schema) for part in condition.parts))
    return comparable(condition, schema)


def _comparisons(part: _Bound) -> Iterator[Comparable]:
    if isinstance(part, Comparable):
        yield part
    else:
        for each in part.parts:
            yield from _comparisons(each)


def _kept(rows: pa.Table, root: _Bound, *, sure: bool) -> pa.Table:
    mask = _mask(rows, root, sure)
    if isinstance(mask, pa.Scalar):  # nothing but true and false
        return rows if mask.as_py() else rows.slice(0, 0)
    return rows.filter(mask)


def _mask(rows: pa.Table, part: _Bound, sure: bool) -> Any:
    """True, false or null for each row; or one of these for all."""
    if isinstance(part, _Joined):
        join = pc.and_kleene if part.every else pc.or_kleene
        return reduce(join, (_mask(rows, each, sure) for each in part.parts), pa.scalar(part.every))
    column = rows.column(part.column)
    match part.op:
        case Op.NULL:
            return pc.is_null(column)
        case Op.NOT_NULL:
            return pc.is_valid(column)
        case Op.NAN:
            return _is_nan(column)
        case Op.NOT_NAN:
            return pc.invert(_is_nan(column))
        case Op.LIKE:
            return pc.match_like(column, part.values[0].as_py())
        case Op.NOT_LIKE:
            return pc.invert(pc.match_like(column, part.values[0].as_py()))
    return _compared(part, column, sure)


def _compared(part: Comparable, column: pa.ChunkedArray, sure: bool) -> Any:
    if is_number(part.kind):
        column = pc.cast(column, part.kind)
    each = (COMPARE[part.op](column, value) for value in part.values)
    found = reduce(pc.and_kleene if part.op is Op.NOT_EQUAL else pc.or_kleene, each)
    if _is_doubtful(part) and not sure and part.op in ABOVE:
        found = pc.or_kleene(found, _is_nan(column))
    if _is_doubtful(part) and sure and part.op in AT_ZERO and _has_zero(part):
        found = pc.and_kleene(found, pc.invert(_is_minus_zero(column)))
    return found


def _is_doubtful(part: Comparable) -> bool:
    return types.is_floating(part.kind) and (part.op in ABOVE or (part.op in AT_ZERO and _has_zero(part)))


def _has_zero(part: Comparable) -> bool:
    return any(value.as_py() == 0 for value in part.values)


def _is_nan(column: pa.ChunkedArray) -> Any:
    """As in Spark: null is not NaN."""
    return pc.fill_null(pc.is_nan(column), False)


def _is_minus_zero(column: pa.ChunkedArray) -> Any:
    return pc.and_(pc.equal(column, 0.0), pc.less(pc.divide(1.0, column), 0.0))


def _pushed(part: _Bound) -> BooleanExpression:
    """Only what surely means the same to PyIceberg; all rows, where nothing does."""
    from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, Or

    if isinstance(part, Comparable):
        return _pushed_comparison(part)
    start: BooleanExpression = AlwaysTrue() if part.every else AlwaysFalse()
    return reduce(And if part.every else Or, (_pushed(each) for each in part.parts), start)


def _pushed_comparison(part: Comparable) -> BooleanExpression:
    from pyiceberg import expressions

    # For PyIceberg a dot leads into a struct.
    is_known = types.is_integer(part.kind) or is_text(part.kind) or types.is_date(part.kind)
    if part.op not in PUSHED or not is_known or "." in part.column:
        return expressions.AlwaysTrue()
    values = [value.as_py() for value in part.values]
    if types.is_date(part.kind):
        values = [value.isoformat() for value in values]
    make: Callable[..., BooleanExpression] = getattr(expressions, PUSHED[part.op])
    return make(part.column, values if part.op is Op.EQUAL else values[0])
