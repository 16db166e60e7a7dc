"""Patterns of table names, and their specificity.

    >>> bool(Pattern.parse("analytics.*").matches("analytics.page_views"))
    True
    >>> Pattern.parse("analytics.page_*").specificity > Pattern.parse("analytics.*").specificity
    True

``*`` matches any characters within a level; ``**``, as a whole level, matches one level or more. The more specific of two
patterns has more levels without ``*``; then more characters other than ``*`` and dots; then fewer ``**``. So a table's name is
more specific than any other pattern that matches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

LEVEL = re.compile(r"[A-Za-z0-9_*-]+")
EVERYTHING = "**"
SOME_LEVELS = r"[^.]++(?:\.[^.]++)*?"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of ``database.table``, which ``matches`` compares with a whole name. Use :meth:`parse`."""

    text: str
    levels: tuple[str, ...]
    specificity: tuple[int, int, int]
    matches: Callable[[str], object] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: object) -> Pattern:
        """Parse a pattern.

        :raises ValueError: the text is not a pattern.
        """
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f'must be a pattern of table names such as "analytics.*", not {text!r:.60}')
        levels = tuple(text.strip().split("."))
        for level in levels:
            if not LEVEL.fullmatch(level) or (EVERYTHING in level and level != EVERYTHING):
                raise ValueError(
                    f"has {text!r:.60}: each level of a pattern has letters, digits, '_', '-' and '*', or is '**' alone"
                )
        if len(levels) == 1 and levels[0] != EVERYTHING:
            raise ValueError(f'has {text!r:.60}: name the database and the table, such as "{levels[0]}.*"; "**" is every table')
        literal = [level for level in levels if "*" not in level]
        characters = sum(len(level.replace("*", "")) for level in levels)
        specificity = (len(literal), characters, -levels.count(EVERYTHING))
        return cls(".".join(levels), levels, specificity, re.compile(_expression(levels)).fullmatch)

    @property
    def database(self) -> str | None:
        """The first level, if it has no ``*``: the only first level that matches."""
        return None if "*" in self.levels[0] else self.levels[0]

    @property
    def is_name(self) -> bool:
        """Whether it is the name of one table."""
        return "*" not in self.text


def _expression(levels: tuple[str, ...]) -> str:
    """Return a regular expression that matches in linear time: what follows a star is only tried at its first occurrence."""
    first, *others = r"\.".join(level if level == EVERYTHING else _level(level) for level in levels).split(EVERYTHING)
    inner, last = others[:-1], others[-1:]
    return "".join([first, *(f"(?>{SOME_LEVELS}{part})" for part in inner), *(SOME_LEVELS + part for part in last)])


def _level(level: str) -> str:
    first, *others = (re.escape(part) for part in level.split("*"))
    inner, last = others[:-1], others[-1:]
    return "".join([first, *(f"(?>[^.]*?{part})" for part in inner), *(f"[^.]*{part}" for part in last)])
