"""A condition of a view as its parts: comparisons of columns with values, joined.

    Junction(True, (Comparison("delay", Op.GREATER, (Value(Kind.NUMBER, "60"),)), Comparison("origin", Op.NULL)))

The invariant: there is no NOT. It is pushed down to the comparisons and turned there, as Spark does it; with values that may be
null that changes nothing, for NOT (a < 1) and a >= 1 are null for the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class OnlySparkKnows(ValueError):
    """What a view means cannot be told for sure without Spark; the message says of what, as a part of a sentence."""


class Op(StrEnum):
    """How a column is compared. ``EQUAL`` holds with one of the values, ``NOT_EQUAL`` with none, as IN and NOT IN."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    LIKE = "LIKE"
    NOT_LIKE = "NOT LIKE"
    NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"
    NAN = "isnan"
    NOT_NAN = "NOT isnan"


class Kind(StrEnum):
    """What a value is written as."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"


@dataclass(frozen=True, slots=True)
class Value:
    """A literal.

    :param text: without quotes; ``true`` and ``false`` in small letters.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        match self.kind:
            case Kind.NUMBER | Kind.BOOLEAN:
                return self.text
            case Kind.TEXT:
                return f"'{self.text}'"
        return f"{self.kind} '{self.text}'"


TRUE = Value(Kind.BOOLEAN, "true")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One column, and what it is compared with. A column by itself is compared with :data:`TRUE`."""

    column: str
    op: Op
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Junction:
    """Parts that must hold every one, or of which one must. Without parts it is true, or false."""

    every: bool
    parts: tuple[Condition, ...] = ()


Condition = Comparison | Junction

OPPOSITES = [
    (Op.EQUAL, Op.NOT_EQUAL),
    (Op.LESS, Op.GREATER_EQUAL),
    (Op.GREATER, Op.LESS_EQUAL),
    (Op.LIKE, Op.NOT_LIKE),
    (Op.NULL, Op.NOT_NULL),
    (Op.NAN, Op.NOT_NAN),
]
OPPOSITE = {one: other for pair in OPPOSITES for one, other in (pair, pair[::-1])}


def negated(condition: Condition) -> Condition:
    """The condition that is true where this one is false, and null where this one is."""
    if isinstance(condition, Comparison):
        return replace(condition, op=OPPOSITE[condition.op])
    return Junction(not condition.every, tuple(negated(part) for part in condition.parts))
