"""The texts with which the shipped Iceberg jar refuses something, read from its byte code.

    >>> thrown_texts(jar, "ValidationException")
    {('MergingSnapshotProducer', 'Cannot commit, missing data files: %s'), …}

A text is the last constant of words before the call of an exception's constructor or of its ``check``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from struct import unpack_from
from zipfile import ZipFile

ICEBERG = "org/apache/iceberg/"
WORDS = re.compile(r"\w+.* .*\w")

UTF8, STRING = 1, 8
SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5, 18: 5, 19: 3, 20: 3}
"""Bytes of an entry of the constant pool, by its tag."""
LONG_CONSTANTS = (5, 6)
"""Tags of entries that take two places in the pool."""

LDC, LDC_W, TABLE_SWITCH, LOOKUP_SWITCH, WIDE, INVOKE_SPECIAL, INVOKE_STATIC = 0x12, 0x13, 0xAA, 0xAB, 0xC4, 0xB7, 0xB8
LENGTHS = {
    **dict.fromkeys((0x10, LDC, *range(0x15, 0x1A), *range(0x36, 0x3B), 0xA9, 0xBC), 2),
    **dict.fromkeys((0x11, LDC_W, 0x14, 0x84, *range(0x99, 0xA9), *range(0xB2, 0xB9), 0xBB, 0xBD, 0xC0, 0xC1, 0xC6, 0xC7), 3),
    0xC5: 4,
    **dict.fromkeys((0xB9, 0xBA, 0xC8, 0xC9), 5),
}
"""Bytes of an instruction that has more than one."""


def thrown_texts(jar: Path, exception: str) -> set[tuple[str, str]]:
    """Return the class that throws and the text, for each place where Iceberg throws this exception or a subclass of it.

    :param exception: a simple name, such as ``ValidationException``.
    """
    with ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if name.startswith(ICEBERG) and "/shaded/" not in name]
        contents = [archive.read(name) for name in names if name.endswith(".class")]
    users = [_ClassFile(content) for content in contents if exception.encode() in content]
    family = {exception} | {user.name for user in users if user.parent == exception}
    found = set()
    for content in contents:
        if any(member.encode() in content for member in family):
            thrower = _ClassFile(content)
            found |= {(thrower.name, text) for text in thrower.thrown(family)}
    return found


class _ClassFile:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._pool: dict[int, tuple[int, int]] = {}  # tag and place
        self._end = self._read_pool()

    @property
    def name(self) -> str:
        """Return the name of the class without that of its package."""
        return self._class_at(self._end + 2)

    @property
    def parent(self) -> str:
        return self._class_at(self._end + 4)

    def thrown(self, exceptions: Collection[str]) -> Iterator[str]:
        for code in self._codes():
            text = ""
            for opcode, place in _instructions(code):
                if opcode in (LDC, LDC_W):
                    constant = code[place + 1] if opcode == LDC else unpack_from(">H", code, place + 1)[0]
                    if self._pool[constant][0] == STRING and WORDS.search(words := self._referred(constant)):
                        text = words
                elif opcode in (INVOKE_SPECIAL, INVOKE_STATIC):
                    of_class, method = self._method(unpack_from(">H", code, place + 1)[0])
                    if of_class.rpartition("/")[2] in exceptions and method in ("<init>", "check"):
                        yield text

    def _read_pool(self) -> int:
        (count,) = unpack_from(">H", self._content, 8)
        number, place = 1, 10
        while number < count:
            tag = self._content[place]
            self._pool[number] = tag, place
            place += 3 + unpack_from(">H", self._content, place + 1)[0] if tag == UTF8 else SIZES[tag]
            number += 2 if tag in LONG_CONSTANTS else 1
        return place

    def _class_at(self, place: int) -> str:
        return self._referred(unpack_from(">H", self._content, place)[0]).rpartition("/")[2]

    def _utf8(self, number: int) -> str:
        place = self._pool[number][1]
        (length,) = unpack_from(">H", self._content, place + 1)
        return self._content[place + 3 : place + 3 + length].decode(errors="replace")

    def _referred(self, number: int) -> str:
        """Return the text of an entry that refers to one: of a string or a class."""
        return self._utf8(unpack_from(">H", self._content, self._pool[number][1] + 1)[0])

    def _method(self, number: int) -> tuple[str, str]:
        of_class, name_and_type = unpack_from(">HH", self._content, self._pool[number][1] + 1)
        return self._referred(of_class), self._referred(name_and_type)

    def _codes(self) -> Iterator[bytes]:
        """Yield the byte code of each method."""
        place = self._end + 6
        place += 2 + 2 * unpack_from(">H", self._content, place)[0]
        for of_methods in (False, True):
            (count,) = unpack_from(">H", self._content, place)
            place += 2
            for _ in range(count):
                (attributes,) = unpack_from(">H", self._content, place + 6)
                place += 8
                for _ in range(attributes):
                    name, length = unpack_from(">HI", self._content, place)
                    if of_methods and self._utf8(name) == "Code":
                        (size,) = unpack_from(">I", self._content, place + 10)
                        yield self._content[place + 14 : place + 14 + size]
                    place += 6 + length


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    place = 0
    while place < len(code):
        opcode = code[place]
        yield opcode, place
        place += _length(code, place, opcode)


def _length(code: bytes, place: int, opcode: int) -> int:
    if opcode == WIDE:
        return 6 if code[place + 1] == 0x84 else 4
    if opcode not in (TABLE_SWITCH, LOOKUP_SWITCH):
        return LENGTHS.get(opcode, 1)
    padding = 3 - place % 4
    at = place + 1 + padding
    if opcode == TABLE_SWITCH:
        low, high = unpack_from(">ii", code, at + 4)
        return int(1 + padding + 12 + 4 * (high - low + 1))
    (pairs,) = unpack_from(">i", code, at + 4)
    return int(1 + padding + 8 + 8 * pairs)
