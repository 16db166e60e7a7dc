"""Skips the unread ends of Avro records, each with one match of a regular expression.

    tail = AvroTail(kinds)
    match = tail.learn(data, begin)       # a record that was read already; None until enough of them were
    found = match(data, begin)            # None for a record that is unlike those

The entries of a manifest have statistics of the same columns, and bounds of a few lengths. After some entries, a pattern with
their keys, counts and lengths therefore matches nearly all others; what it does not match is read as before. The invariant: a
match ends where reading ends. The pattern contains every count, and the length before all bytes, as they are in the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from airflow_snowpack.iceberg.avro_source import LENGTHS

FEWEST_ROWS = 2_000
"""In a file with fewer rows, the pattern costs more than it saves."""
FEWEST_LEARNED, MOST_LEARNED = 4, 256
"""How many unmatched records are learned from before the first pattern, and before the last one. Each time the number has
doubled, there is a new pattern.
"""
LONGEST = 32 * 1024
"""In bytes; about 200 columns. A longer pattern takes long to compile, and Python keeps the last 512 patterns."""
NUMBER = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
Match = Callable[[bytes, int], "re.Match[bytes] | None"]
Piece = bytes | dict[bytes, int]
"""A part of a pattern, or the lengths that bytes have had, by the number before them."""


class AvroTail:
    """The pattern of the ends of a file's records.

    :param kinds: the Avro types of the fields at the end; a fixed type is its definition, not its name.
    """

    def __init__(self, kinds: Sequence[Any]) -> None:
        self._kinds = kinds
        self._pieces: list[Piece] = []
        self._learned = 0
        self.match: Match | None = None

    def learn(self, data: bytes, begin: int) -> Match | None:
        """Add the record's end, known to begin and end within the data, to the pattern; return what matches the next ones."""
        if self._learned == MOST_LEARNED:
            return self.match
        pieces: list[Piece] = []
        for kind in self._kinds:
            begin = _take(kind, data, begin, pieces)
        self._pieces = _merged(self._pieces, pieces)
        self._learned += 1
        if self._learned >= FEWEST_LEARNED and self._learned.bit_count() == 1:
            pattern = b"".join(map(_pattern, self._pieces))
            self.match = re.compile(pattern, re.DOTALL).match if len(pattern) <= LONGEST else None
        return self.match


def _merged(known: list[Piece], pieces: list[Piece]) -> list[Piece]:
    """Return pieces that match what both match; only the new ones if they have other columns."""
    if [each for each in known if isinstance(each, bytes)] != [each for each in pieces if isinstance(each, bytes)]:
        return pieces
    pairs = zip(known, pieces, strict=True)
    return [{**old, **new} if isinstance(old, dict) and isinstance(new, dict) else new for old, new in pairs]


def _pattern(piece: Piece) -> bytes:
    if isinstance(piece, bytes):
        return piece
    return b"(?:%s)" % b"|".join(re.escape(before) + b".{%d}" % length for before, length in piece.items())


def _take(kind: Any, data: bytes, begin: int, pieces: list[Piece], *, is_item: bool = False) -> int:
    """Add the pieces of a value, and return where it ends.

    :param is_item: the value is an array's. A record is then a pair, whose key is the same in other records.
    """
    if isinstance(kind, list):
        branch, end = _number(data, begin)
        pieces.append(re.escape(data[begin:end]))
        return _take(kind[branch], data, end, pieces)
    name = kind if isinstance(kind, str) else kind["type"]
    match name:
        case "null":
            return begin
        case "int" | "long":
            pieces.append(NUMBER)
            return _number(data, begin)[1]
        case "string" | "bytes":
            length, end = _number(data, begin)
            pieces.append({data[begin:end]: length})
            return end + length
        case "array":
            return _take_array(kind["items"], data, begin, pieces)
        case "record":
            for place, field in enumerate(kind["fields"]):
                end = _take(field["type"], data, begin, pieces)
                if is_item and place == 0 and pieces[-1] is NUMBER:
                    pieces[-1] = re.escape(data[begin:end])
                begin = end
            return begin
        case _:
            width = kind["size"] if name == "fixed" else LENGTHS[name]
            pieces.append(b".{%d}" % width)
            return begin + width


def _take_array(items: Any, data: bytes, begin: int, pieces: list[Piece]) -> int:
    count, end = -1, begin
    while count:
        count, end = _number(data, begin)
        if count < 0:  # the size of the block follows
            count, end = -count, _number(data, end)[1]
        pieces.append(re.escape(data[begin:end]))
        for _ in range(count):
            end = _take(items, data, end, pieces, is_item=True)
        begin = end
    return end


def _number(data: bytes, begin: int) -> tuple[int, int]:
    """Return an Avro whole number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[begin]
        begin, value, shift = begin + 1, value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), begin
