"""The tokens of a ``where`` predicate, and the reader that a parser moves along them.

reader = TokenReader("month = 3")       # :raises UnusableCondition: a character that starts no token

The invariant: Spark reads the same tokens. So outside of quotes, letters, digits and spaces are those of ASCII; a raw text ends
at its first quote; and comments are refused, because Spark nests them and ends some of them elsewhere.
"""

from __future__ import annotations

import re
from typing import NoReturn

TOKEN = re.compile(
    r"""(?P<space> [ \t\r\n]+ )
      | (?P<comment> -- | /\* )
      | (?P<text> [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
      | (?P<quoted> `(?:[^`]|``)+` )
      | (?P<number> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYFD])?(?![A-Za-z0-9_]) )
      | (?P<word> [A-Za-z0-9_]+ )
      | (?P<sign> <=> | <> | != | >= | <= | == | \|\| | :: | -> | [=<>+\-*/%&|^~!().,\[\]] )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)
ESCAPED = re.compile(r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<one>.))", re.DOTALL)
ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class UnusableCondition(ValueError):
    """The reason why Spark could not run a predicate."""


def _unescaped(match: re.Match[str]) -> str:
    """Return the character of an escape sequence. Spark keeps the backslash of a wildcard for the pattern."""
    if match["octal"]:
        return chr(int(match["octal"], 8))
    code = match["u"] or match["U"]
    if code:
        return chr(min(int(code, 16), 0x10FFFF))
    return ESCAPES.get(match["one"], match["one"])


class TokenReader:
    """A cursor over the tokens of a predicate.

    :raises UnusableCondition: a character of the predicate starts no token.
    """

    def __init__(self, condition: str) -> None:
        self._tokens = _tokens(condition)
        self._place = 0

    def _text(self) -> str:
        """Read a text literal; Spark joins several in a row."""
        parts = []
        while self._kind() == "text":
            token = self._token()
            quote = token[-1]
            parts.append(token[2:-1] if token[0] in "rR" else ESCAPED.sub(_unescaped, token[1:-1].replace(quote * 2, quote)))
            self._place += 1
        return "".join(parts)

    def _name(self) -> str:
        kind, token = self._kind(), self._token()
        self._place += 1
        return token[1:-1].replace("``", "`") if kind == "quoted" else token

    def _kind(self, ahead: int = 0) -> str | None:
        place = self._place + ahead
        return self._tokens[place][0] if place < len(self._tokens) else None

    def _token(self) -> str:
        return self._tokens[self._place][1] if self._place < len(self._tokens) else ""

    def _next(self, ahead: int = 0) -> str | None:
        """Return the next sign, or the next word in capitals."""
        place = self._place + ahead
        if place >= len(self._tokens) or self._tokens[place][0] not in ("sign", "word"):
            return None if place >= len(self._tokens) else ""
        return self._tokens[place][1].upper()

    def _take(self, wanted: str) -> bool:
        if self._next() != wanted:
            return False
        self._place += 1
        return True

    def _need(self, wanted: str, *, shown: bool = True) -> None:
        if not self._take(wanted):
            self._unexpected(wanted if shown else None)

    def _unexpected(self, wanted: str | None = None) -> NoReturn:
        missing = f", and {wanted} is expected" if wanted else ""
        if self._place >= len(self._tokens):
            raise UnusableCondition(f"it ends too early{missing}")
        _, token, place = self._tokens[self._place]
        raise UnusableCondition(f"{token[:40]!r} at character {place + 1} is not expected there{missing}")


def _tokens(condition: str) -> list[tuple[str, str, int]]:
    found, place = [], 0
    while place < len(condition):
        match = TOKEN.match(condition, place)
        if match is None:
            what = "a quote that is never closed" if condition[place] in "'\"`" else f"the character {condition[place]!r}"
            hint = "" if condition[place].isascii() else "; outside of quotes, a predicate has ASCII characters only"
            raise UnusableCondition(f"it has {what} at character {place + 1}{hint}")
        assert match.lastgroup is not None
        if match.lastgroup == "comment":
            raise UnusableCondition(f"it has a comment at character {place + 1}; remove it")
        if match.lastgroup != "space":
            found.append((match.lastgroup, match[0], place))
        place = match.end()
    return found
