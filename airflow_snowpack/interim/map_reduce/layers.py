"""The layers of a reduction: the rows each reads, its partitions, and the rows it returns.

    >>> layers = Layers.plan(1000, fan_in=10, most_partitions=8)
    >>> str(layers)
    '1000 → 100 → 10 → 1'
    >>> layers.layers[0]
    Layer(number=0, rows_in=1000, partitions=8, rows_out=100)

Invariant: a layer makes exactly one row of each ``fan_in`` rows, and of the remaining rows. Its ``rows_out``, which are
``rows_in`` divided by ``fan_in`` and rounded up, are the next layer's ``rows_in``. The last layer returns one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from airflow_snowpack.interim.map_reduce.errors import InvalidReduction

EMPTY = "reduce() of empty sequence with no initial value"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer.

    :param number: from 0, which reads the table.
    :param partitions: the number of Spark tasks; each calls the function for some of the groups, one after another.
    :param rows_out: also the number of calls of the function.
    """

    number: int
    rows_in: int
    partitions: int
    rows_out: int

    def __str__(self) -> str:
        return f"layer {self.number}: {self.rows_in} rows in, {self.partitions} partitions, {self.rows_out} rows out"

    def to_json(self) -> dict[str, int]:
        """Return the layer as JSON, for a report."""
        return {"layer": self.number, "rows_in": self.rows_in, "partitions": self.partitions, "rows_out": self.rows_out}


@dataclass(frozen=True, slots=True)
class Layers:
    """The plan of a reduction; a task that reads other rows than planned fails. ``fan_in`` is the maximum of rows per call."""

    rows: int
    fan_in: int
    layers: tuple[Layer, ...]

    @classmethod
    def plan(cls, rows: int, fan_in: int, most_partitions: int) -> Self:
        """Return the layers for a table.

        :param most_partitions: the maximum of tasks per layer; a layer has no more than it has groups.
        :raises TypeError: there are no rows, and so no result.
        :raises InvalidReduction: ``fan_in`` is below 2, or ``most_partitions`` below 1.
        """
        check_fan_in(fan_in)
        if not _is_whole(most_partitions) or most_partitions < 1:
            raise InvalidReduction("partitions", most_partitions, "a layer needs a task; pass 1 or more, or leave it out")
        if rows == 0:
            raise TypeError(EMPTY)
        layers: list[Layer] = []
        rows_in = rows
        while rows_in > 1:
            rows_out = groups_of(rows_in, fan_in)
            layers.append(Layer(len(layers), rows_in, min(rows_out, most_partitions), rows_out))
            rows_in = rows_out
        return cls(rows, fan_in, tuple(layers))

    def __str__(self) -> str:
        return " → ".join(str(rows) for rows in (self.rows, *(layer.rows_out for layer in self.layers)))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, for an XCom."""
        return {"rows": self.rows, "fan_in": self.fan_in, "layers": [layer.to_json() for layer in self.layers]}


def groups_of(rows: int, fan_in: int) -> int:
    """Return the number of groups, by integers, because logarithms and divisions are inexact for large numbers."""
    return (rows + fan_in - 1) // fan_in


def check_fan_in(fan_in: int) -> None:
    """Raise :class:`InvalidReduction` unless it is an integer of at least 2: each layer must reduce the number of rows."""
    if not _is_whole(fan_in) or fan_in < 2:
        raise InvalidReduction("fan_in", fan_in, "a group needs 2 rows or more; pass a whole number from 2")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
