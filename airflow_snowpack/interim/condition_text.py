"""Reads a condition of a view as far as Spark and Arrow surely understand the same by it, and nothing beyond.

    parse("delay > 60 AND NOT (origin IN ('JFK', 'LGA') OR `odd name` IS NULL)")

The grammar is a small part of Spark's: comparisons of a column with values, AND, OR, NOT, parentheses. The invariant: what Spark
would read in a way of its own is refused where it stands. Such are text in double quotes (for Spark a text, elsewhere a name),
backslashes and doubled quotes in a text, comments, ``${}``, and numbers with letters (``1.5D``, ``1e3``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from airflow_snowpack.interim.condition import TRUE, Comparison, Condition, Junction, Kind, OnlySparkKnows, Op, Value, negated

WRITTEN = {op.value: op for op in (Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL)}
WRITTEN |= {"==": Op.EQUAL, "<>": Op.NOT_EQUAL}
MIRRORED = {Op.LESS: Op.GREATER, Op.GREATER: Op.LESS, Op.LESS_EQUAL: Op.GREATER_EQUAL, Op.GREATER_EQUAL: Op.LESS_EQUAL}
TYPED = {kind.value: kind for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)}
# For Spark they are not always a column, unless they stand in backquotes.
WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "TRUE", "FALSE", "CASE", "CAST", "EXISTS", "INTERVAL"}
TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<text>'[^'\\]*')(?!')
    | (?P<quoted>`(?:[^`]|``)+`)(?!`)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?![\w.$]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?![\w.$]))
    | (?P<sign><=>|<>|!=|<=|>=|==|[-=<>(),+])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the text.

    :param kind: the name of its group in :data:`TOKEN`.
    :param at: where what is left begins, with this token.
    """

    kind: str
    text: str
    at: int

    def says(self, word: str) -> bool:
        """Whether it is this word or sign, in whatever case."""
        return self.kind in ("word", "sign") and self.text.upper() == word


def parse(text: str) -> Condition:
    """Read a condition.

    :raises OnlySparkKnows: it is more than comparisons of columns with values.
    """
    if "${" in text:
        raise OnlySparkKnows("Spark puts something else in the place of '${'")
    try:
        return _Parser(text).whole()
    except RecursionError:
        raise OnlySparkKnows("its parentheses are too deep") from None


def column_in(text: str) -> str | None:
    """The column that a text names, with or without backquotes; ``None`` where it is something else."""
    found = TOKEN.fullmatch(text)
    if found is None or found.lastgroup not in ("word", "quoted") or found[found.lastgroup].upper() in WORDS:
        return None
    return _unquoted(found[found.lastgroup])


def _unquoted(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        found = TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            _refuse(text, at)
        tokens.append(Token(found.lastgroup, found[found.lastgroup], at))
        at = found.end()
    return tokens


def _refuse(text: str, at: int) -> NoReturn:
    left = " ".join(text[at:].split())
    raise OnlySparkKnows(f"it cannot be understood from {left!r:.60} on" if left else "it ends too early")


class _Parser:
    """Goes once through the tokens, from what binds weakest (OR) to what binds strongest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)

    def whole(self) -> Condition:
        condition = self._any()
        self._take("end")
        return condition

    def _any(self) -> Condition:
        return self._joined("OR", self._all)

    def _all(self) -> Condition:
        return self._joined("AND", self._negation)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._passes(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word == "AND", tuple(parts))

    def _negation(self) -> Condition:
        if self._passes("NOT"):
            return negated(self._negation())
        if self._passes("("):
            condition = self._any()
            self._demand(")")
            return condition
        return self._comparison()

    def _comparison(self) -> Condition:
        if self._is_value():
            return self._with_value_first()
        if self._next.says("ISNAN") and self._after.says("("):
            return self._is_nan()
        column = self._column()
        if self._passes("IS"):
            is_null = Comparison(column, Op.NOT_NULL if self._passes("NOT") else Op.NULL)
            self._demand("NULL")
            return is_null
        if self._passes("NOT"):
            return negated(self._in_or_like(column) or self._fail())
        if op := self._operator():
            return Comparison(column, op, (self._value(),))
        return self._in_or_like(column) or Comparison(column, Op.EQUAL, (TRUE,))

    def _with_value_first(self) -> Condition:
        value = self._value()
        if op := self._operator():
            return Comparison(self._column(), MIRRORED.get(op, op), (value,))
        return Junction(value == TRUE) if value.kind is Kind.BOOLEAN else self._fail()

    def _is_nan(self) -> Condition:
        self._take("word")
        self._demand("(")
        column = self._column()
        self._demand(")")
        return Comparison(column, Op.NAN)

    def _in_or_like(self, column: str) -> Condition | None:
        if self._passes("IN"):
            return Comparison(column, Op.EQUAL, self._list())
        if self._passes("BETWEEN"):
            low = Comparison(column, Op.GREATER_EQUAL, (self._value(),))
            self._demand("AND")
            return Junction(True, (low, Comparison(column, Op.LESS_EQUAL, (self._value(),))))
        return Comparison(column, Op.LIKE, (self._value(),)) if self._passes("LIKE") else None

    def _list(self) -> tuple[Value, ...]:
        self._demand("(")
        values = [self._value()]
        while self._passes(","):
            values.append(self._value())
        self._demand(")")
        return tuple(values)

    def _is_value(self) -> bool:
        return (
            self._next.kind in ("text", "number")
            or any(self._next.says(word) for word in ("+", "-", "TRUE", "FALSE"))
            or (self._next.kind == "word" and self._next.text.upper() in TYPED and self._after.kind == "text")
        )

    def _value(self) -> Value:
        if not self._is_value():
            self._fail()
        match self._next.kind:
            case "text":
                return Value(Kind.TEXT, self._take("text")[1:-1])
            case "number":
                return Value(Kind.NUMBER, self._take("number"))
            case "sign":
                return Value(Kind.NUMBER, self._take("sign") + self._take("number"))
        word = self._take("word")
        if word.upper() in TYPED:
            return Value(TYPED[word.upper()], self._take("text")[1:-1])
        return Value(Kind.BOOLEAN, word.lower())

    def _operator(self) -> Op | None:
        op = WRITTEN.get(self._next.text) if self._next.kind == "sign" else None
        if op is not None:
            self._take("sign")
        return op

    def _column(self) -> str:
        if self._next.kind == "quoted":
            return _unquoted(self._take("quoted"))
        if self._next.text.upper() in WORDS:
            self._fail()
        return self._take("word")

    @property
    def _next(self) -> Token:
        return self._tokens[0]

    @property
    def _after(self) -> Token:
        return self._tokens[min(1, len(self._tokens) - 1)]

    def _take(self, kind: str) -> str:
        if self._next.kind != kind:
            self._fail()
        text = self._next.text
        if kind != "end":
            del self._tokens[0]
        return text

    def _passes(self, word: str) -> bool:
        """Go on, if this word or sign is next."""
        is_next = self._next.says(word)
        if is_next:
            del self._tokens[0]
        return is_next

    def _demand(self, word: str) -> None:
        if not self._passes(word):
            self._fail()

    def _fail(self) -> NoReturn:
        _refuse(self._text, self._next.at)
