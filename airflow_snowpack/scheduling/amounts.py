"""Amounts as people write them: ``"100GB"``, ``"1.5 TiB"``, ``5``.

>>> parse_bytes("100GB"), parse_bytes("1.5KiB")
(100000000000, 1536)
>>> say_bytes(41_000_000_000)
'41 GB'
"""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"": 1, "B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGTPE", start=1)
    for infix, base in (("", 1000), ("i", 1024))
}
BY_UPPER = {unit.upper(): size for unit, size in UNITS.items()}
LARGEST = 2**63 - 1
"""What a column of either database holds."""
SIZE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*")


def parse_bytes(value: object) -> int:
    """A number of bytes.

    :raises ValueError: it is none, or smaller than one; the text says what was expected.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None or match["unit"].upper() not in BY_UPPER:
            raise ValueError('it must be a size such as "100GB", "512MiB" or a number of bytes')
        size = int(Decimal(match["number"]) * BY_UPPER[match["unit"].upper()])
    if not 1 <= size <= LARGEST:
        raise ValueError("it must be at least one byte, and less than 8 EiB")
    return size


def parse_count(value: object) -> int:
    """:raises ValueError: it is no whole number of 1 or more, or larger than :data:`LARGEST`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise ValueError("it must be a whole number, 1 or more")
    return value


def say_bytes(size: int) -> str:
    """The size in the largest decimal unit that it fills."""
    for letter, power in zip("EPTGMK", range(6, 0, -1), strict=True):
        if size >= 1000**power:
            return f"{size / 1000**power:.3g} {letter}B"
    return f"{size} B"
