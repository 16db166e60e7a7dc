"""Sizes as people write them.

>>> parse_bytes("10 GiB"), parse_bytes("1.5kB"), parse_bytes(512)
(10737418240, 1500, 512)
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
"""The largest integer that a column of either database can store."""
MAX_LENGTH = 50
SIZE = r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]*)\s*"


def parse_bytes(value: object) -> int:
    """Parse a number of bytes from ``"100GB"``, ``"1.5 TiB"`` or a number; raise ``ValueError`` if it is not at least one."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = re.fullmatch(SIZE, value) if isinstance(value, str) and len(value) <= MAX_LENGTH else None
        if match is None or match["unit"].upper() not in BY_UPPER:
            raise ValueError('it must be a size such as "100GB", "512MiB" or a number of bytes')
        size = int(Decimal(match["number"]) * BY_UPPER[match["unit"].upper()])
    if not 1 <= size <= LARGEST:
        raise ValueError("it must be at least one byte, and less than 8 EiB")
    return size
