"""Makes values of the bytes that Avro files have. Each is the key of its own partition, and of no other."""

from __future__ import annotations

from decimal import Decimal
from math import copysign, nan
from struct import Struct
from uuid import UUID

STRUCT_FLOAT, STRUCT_DOUBLE = Struct("<f"), Struct("<d")


class _NegativeZero(float):
    """-0.0, which is another partition to Iceberg than 0.0, and the same number to Python."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


NEGATIVE_ZERO = _NegativeZero(-0.0)


def decimal(unscaled: bytes, scale: int) -> Decimal:
    """Return a decimal of an unscaled number, whatever the precision."""
    sign, digits, _ = Decimal(int.from_bytes(unscaled, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -scale))  # scaleb rounds to 28 digits, and Iceberg has 38


def as_uuid(value: bytes) -> UUID:
    """Return a UUID of its 16 bytes."""
    return UUID(bytes=value)


def single(four_bytes: bytes) -> float:
    """Return a float of 32 bits."""
    return float(STRUCT_FLOAT.unpack(four_bytes)[0])


def double(eight_bytes: bytes) -> float:
    """Return a float of 64 bits. PyIceberg 0.12's compiled decoder rounds them to 32."""
    return float(STRUCT_DOUBLE.unpack(eight_bytes)[0])


def number(value: float) -> float:
    """Return one object for every NaN, as only the same NaN is found again among the keys of a dictionary, and one for -0.0."""
    if value:
        return value if value == value else nan
    return value if copysign(1.0, value) > 0 else NEGATIVE_ZERO
