"""Convert rows between dictionaries and Arrow batches.

    RowBatches(schema).of([{"tail": "N14228", "flights": 3}])            # a RecordBatch, or raises Misfit
    rows_of(batch)                                                       # and back

Invariant: **a value goes into its column unchanged, or not at all.** Unknown names are errors; a missing column is null if
allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_snowpack.arrow.values import NO_NULL, loss_among

REFUSALS = (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, LookupError)


class Misfit(ValueError):
    """What does not fit the schema in a row, with the row's number: ``id = 1.5 (a float), which does not fit int64: …``."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch; maps and structs become dictionaries."""
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


class RowBatches:
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = frozenset(schema.names)
        self._losses = [loss_among(field) for field in schema]

    def of(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Return the rows as a batch, or raise :class:`Misfit` for a row that is not a dictionary or does not fit the schema."""
        for number, row in enumerate(rows):
            self._check_names(number, row)
        columns = [self._column(place, [row.get(field.name) for row in rows]) for place, field in enumerate(self.schema)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _check_names(self, number: int, row: Any) -> None:
        if not isinstance(row, Mapping):
            raise Misfit(number, f"{_kind(row)}, and a row is a dictionary")
        if not self._names.issuperset(row):
            strange = ", ".join(repr(name) for name in row if name not in self._names)
            raise Misfit(number, f"{strange}, and the schema has only {', '.join(self.schema.names)}")

    def _column(self, place: int, values: list[Any]) -> pa.Array:
        try:
            column, problem = self._converted(place, values)
        except REFUSALS:
            column, problem = None, "a value does not fit"
        if problem is None:
            return column
        # Only after a failure, try each value alone.
        for number, value in enumerate(values):
            self._raise_misfit(place, number, value)
        raise Misfit(0, f"values of {self.schema.field(place).name} that do not fit together")

    def _converted(self, place: int, values: list[Any]) -> tuple[pa.Array, str | None]:
        """Return the column, and what is wrong with it."""
        field = self.schema.field(place)
        column = pa.array(values, field.type)
        if not field.nullable and column.null_count:
            return column, NO_NULL
        return column, self._losses[place](values)

    def _raise_misfit(self, place: int, number: int, value: Any) -> None:
        try:
            _, problem = self._converted(place, [value])
        except REFUSALS as error:
            problem = str(error)
        if problem is not None:
            field = self.schema.field(place)
            given = f"{field.name} = {value!r:.200} ({_kind(value)})"
            raise Misfit(number, f"{given}, which does not fit {field.type}: {problem}")


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
