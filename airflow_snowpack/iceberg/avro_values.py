"""Converts the bytes of Avro files to values, each of which is the key of its own partition and of no other."""

from __future__ import annotations

from decimal import Decimal
from math import copysign, nan
from struct import Struct
from uuid import UUID

STRUCT_FLOAT, STRUCT_DOUBLE = Struct("<f"), Struct("<d")


class _NegativeZero(float):
    """-0.0, which to Iceberg is another partition than 0.0, and to Python the same number."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


NEGATIVE_ZERO = _NegativeZero(-0.0)


def decimal(unscaled: bytes, scale: int) -> Decimal:
    """Return a decimal from its unscaled bytes, at any precision."""
    sign, digits, _ = Decimal(int.from_bytes(unscaled, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))  # scaleb rounds to 28 digits; Iceberg has 38


def as_uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


def single(four_bytes: bytes) -> float:
    """Return a 32-bit float."""
    return float(STRUCT_FLOAT.unpack(four_bytes)[0])


def double(eight_bytes: bytes) -> float:
    """Return a 64-bit float, which PyIceberg 0.12's compiled decoder rounds to 32 bits."""
    return float(STRUCT_DOUBLE.unpack(eight_bytes)[0])


def number(value: float) -> float:
    """Return one object for every NaN, which a dictionary finds only by identity, and one for -0.0."""
    if value:
        return value if value == value else nan
    return value if copysign(1.0, value) > 0 else NEGATIVE_ZERO
