"""The order of a table's rows, which a reduction counts and groups them by.

    keys = sort_keys(df, ["day", "delay desc"])              # then by the other columns, from left to right

The invariant: the order follows from the rows alone. By the terms that are given, then by all other columns in ascending order
with nulls first; so rows that are still equal are the same row, and it does not matter how Spark has divided and read them. Only
columns that have no order (maps, variants, and what holds them) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.function_errors import InvalidReduction

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TERM = re.compile(r"(?P<name>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE)


def sort_keys(df: DataFrame, order_by: Sequence[str] | str) -> list[Column]:
    """What to sort by.

    :param order_by: column names, each with ``asc`` or ``desc``, and ``nulls first`` or ``nulls last``, as SQL has it.
    :raises InvalidReduction: it names no column of the table, or one that has no order; or no column has one.
    """
    sortable = {field.name: _has_order(field.dataType) for field in df.schema}
    given = [_read(term, sortable) for term in ([order_by] if isinstance(order_by, str) else order_by)]
    named = {key.name for key in given}
    rest = [_Key(name) for name, has_order in sortable.items() if has_order and name not in named]
    if not given and not rest:
        raise InvalidReduction("table", ", ".join(sortable), "none of its columns has an order; add one that has")
    return [key.column() for key in (*given, *rest)]


@dataclass(frozen=True, slots=True)
class _Key:
    """One term of an order."""

    name: str
    down: bool = False
    nulls_first: bool = True

    def column(self) -> Column:
        from pyspark.sql.functions import col

        column = col("`" + self.name.replace("`", "``") + "`")
        if self.down:
            return column.desc_nulls_first() if self.nulls_first else column.desc_nulls_last()
        return column.asc_nulls_first() if self.nulls_first else column.asc_nulls_last()


def _read(term: str, sortable: dict[str, bool]) -> _Key:
    found = TERM.fullmatch(term.strip())
    name = "" if found is None else found["name"].strip("`")
    # As Spark itself finds a column: however it is written.
    known = next((each for each in sortable if each.lower() == name.lower()), None)
    if found is None or known is None:
        raise InvalidReduction("order_by", term, f"the table has only the columns {', '.join(sortable)}")
    if not sortable[known]:
        raise InvalidReduction("order_by", term, "values of its type have no order")
    down = (found["direction"] or "").lower() == "desc"
    nulls = (found["nulls"] or "").lower()
    return _Key(known, down, nulls == "first" if nulls else not down)


def _has_order(kind: Any) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return all(_has_order(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _has_order(kind.elementType)
    # A geometry or a variant is atomic, and has none.
    without = (types.VariantType, types.SpatialType)
    return isinstance(kind, types.AtomicType) and not isinstance(kind, without)
