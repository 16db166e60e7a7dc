"""Check a ``where`` predicate against a table's columns, without Spark.

    >>> check_condition("month = 3 AND carrier IN ('AA', 'UA')", schema)
    >>> check_condition("mnth = 3", schema)
    Traceback (most recent call last):
    …UnusableCondition: the table has no column 'mnth'; it has: month, carrier, delay

It reads the part of Spark's grammar that a predicate of a rewrite can have. The invariant: what Spark runs is accepted. What is
refused has text after its end, a subquery, an unknown column, a text compared with a column of numbers, or no truth value.
Function calls are left to Spark, apart from the columns in their arguments. One exception: Spark takes a word after the end
for an alias, and runs ``p = 0 AND`` as ``p = 0``; that is refused, because the rest is missing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

from airflow_snowpack.maintenance.condition_tokens import TokenReader, UnusableCondition

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType


Kind = Literal["truth", "number", "text", "null", "other", "unknown"]

DATE_TEXT = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*", re.DOTALL)
COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||", "&", "|", "^", "DIV"})
TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"})
SPECIAL_MOMENTS = (["epoch"], ["now"], ["today"], ["tomorrow"], ["yesterday"])
BARE_FUNCTIONS = frozenset(
    {"CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER", "USER"}
)
"""Functions that are called without parentheses."""
OF_MOMENTS = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATEDIFF", "DATE_ADD", "DATE_DIFF"})
OWN_SYNTAX = OF_MOMENTS | {"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY"}
"""Functions whose arguments are not a list of values."""
OPERATORS = frozenset({"AND", "OR", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN"})
NOT_A_VALUE = OPERATORS | {"THEN", "WHEN", "ELSE", "END", "AS", "SELECT", "FROM", "WHERE", "DROP"}
METADATA_COLUMNS = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted"})
MOST_NESTED = 40
"""A deeper predicate, such as a program writes, is left to Spark."""
SHOWN_COLUMNS = 20


class _TooDeepError(Exception):
    """The predicate is nested deeper than Python's stack should follow."""


@dataclass(frozen=True, slots=True)
class Value:
    """A part of the predicate.

    :param text: the content of a text literal.
    :param column: the name, when it is a column.
    """

    kind: Kind
    text: str | None = None
    column: str | None = None


def check_condition(condition: str, schema: Schema) -> None:
    """Check that Spark can evaluate the predicate on a table with this schema.

    :raises UnusableCondition: it cannot, and why.
    """
    if "${" in condition:
        return  # Spark puts one of its settings there, which is not known here
    with suppress(_TooDeepError):
        _Parser(condition, schema).check()


class _Parser(TokenReader):
    """Recursive descent, one method for each level of precedence."""

    def __init__(self, condition: str, schema: Schema) -> None:
        super().__init__(condition)
        self._schema = schema
        self._depth = 0

    def check(self) -> None:
        value = self._any_of()
        if self._place < len(self._tokens):
            self._unexpected()
        self._truth(value)

    def _any_of(self) -> Value:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _TooDeepError
        value = self._all_of()
        while self._take("OR"):
            self._truth(value)
            value = self._truth(self._all_of())
        self._depth -= 1
        return value

    def _all_of(self) -> Value:
        value = self._negation()
        while self._take("AND"):
            self._truth(value)
            value = self._truth(self._negation())
        return value

    def _negation(self) -> Value:
        negated = False
        while self._take("NOT") or self._take("!"):
            negated = True
        value = self._comparison()
        return self._truth(value) if negated else value

    def _comparison(self) -> Value:
        left = self._sum()
        while True:
            if self._next() in COMPARISONS:
                self._place += 1
                self._comparable(left, self._sum())
            elif self._take("IS"):
                self._take("NOT")
                if self._take("DISTINCT"):
                    self._need("FROM")
                    self._comparable(left, self._sum())
                elif not any(self._take(word) for word in ("NULL", "TRUE", "FALSE", "UNKNOWN")):
                    self._unexpected()
            elif not self._membership(left):
                return left
            left = Value("truth")

    def _membership(self, left: Value) -> bool:
        """``[NOT] IN``, ``BETWEEN`` and the ways to match a pattern."""
        begin = self._place
        self._take("NOT")
        if self._take("IN"):
            self._need("(")
            for each in self._arguments():
                self._comparable(left, each)
        elif self._take("BETWEEN"):
            self._comparable(left, self._sum())
            self._need("AND")
            self._comparable(left, self._sum())
        elif any(self._take(word) for word in ("LIKE", "ILIKE", "RLIKE", "REGEXP")):
            if not any(self._take(word) for word in ("ANY", "ALL", "SOME")):
                self._sum()
            elif self._take("("):
                self._arguments()
            if self._take("ESCAPE"):
                self._sum()
        else:
            self._place = begin
            return False
        return True

    def _sum(self) -> Value:
        value = self._signed()
        while self._next() in ARITHMETIC:
            value = Value("unknown" if self._next() == "||" else "number")
            self._place += 1
            self._signed()
        return value

    def _signed(self) -> Value:
        sign = False
        while self._next() in ("+", "-", "~"):
            self._place, sign = self._place + 1, True
        value = self._primary()
        while True:
            if self._take("["):
                self._any_of()
                self._need("]")
            elif self._take("::"):
                self._skip_type()
            elif self._next() == "." and not sign:
                self._place += 1
                if self._kind() not in ("word", "quoted"):
                    self._unexpected()
                self._place += 1
            else:
                return Value("number") if sign else value
            value = Value("unknown")

    def _primary(self) -> Value:
        match self._kind():
            case "number":
                self._place += 1
                return Value("number")
            case "text":
                return Value("text", self._text())
            case "quoted":
                return self._column()
            case "word":
                return self._named(self._token().upper())
        self._need("(", shown=False)
        values = self._arguments()
        return values[0] if len(values) == 1 else Value("unknown")

    def _named(self, word: str) -> Value:
        after = self._next(1)
        if after == "(":
            return self._call(word)
        if word in ("TRUE", "FALSE", "NULL"):
            self._place += 1
            return Value("null" if word == "NULL" else "truth")
        if word in TYPED and self._kind(1) == "text":
            self._place += 1
            self._check_typed(word, self._text())
            return Value("other")
        if word == "INTERVAL" and (self._kind(1) in ("text", "number") or after == "-"):
            return self._interval()
        if word == "CASE" and not self._is_column(word):
            return self._case()
        if word in BARE_FUNCTIONS and not self._is_column(word):
            self._place += 1
            return Value("unknown")
        if word in NOT_A_VALUE and not self._is_column(word):
            self._unexpected()
        return self._column()

    def _call(self, word: str) -> Value:
        self._place += 2
        if word in ("EXISTS", "SELECT"):
            raise UnusableCondition("it has a subquery, which a rewrite cannot evaluate")
        if word in NOT_A_VALUE:
            self._place -= 2
            self._unexpected()
        if word in OWN_SYNTAX:
            self._skip_to_parenthesis()
        elif word in ("CAST", "TRY_CAST"):
            self._any_of()
            self._need("AS")
            self._skip_to_parenthesis()
        elif not self._take(")"):
            self._take("DISTINCT")
            self._arguments()
        return Value("unknown")

    def _arguments(self) -> list[Value]:
        """Values with commas between them, to the closing parenthesis."""
        if self._next() in ("SELECT", "WITH"):
            raise UnusableCondition("it has a subquery, which a rewrite cannot evaluate")
        values = [self._any_of()]
        while self._take(","):
            values.append(self._any_of())
        self._need(")")
        return values

    def _case(self) -> Value:
        self._place += 1
        if self._next() != "WHEN":
            self._any_of()
        while self._take("WHEN"):
            self._any_of()
            self._need("THEN")
            self._any_of()
        if self._take("ELSE"):
            self._any_of()
        self._need("END")
        return Value("unknown")

    def _interval(self) -> Value:
        self._place += 1
        while self._kind() in ("text", "number") or self._next() == "-":
            self._take("-")
            self._place += 1
            if self._kind() == "word" and self._next() not in NOT_A_VALUE:
                self._place += 1
            if self._take("TO"):
                self._place += 1
        return Value("other")

    def _column(self) -> Value:
        names = [self._name()]
        while self._next() == "." and self._kind(1) in ("word", "quoted"):
            self._place += 1
            names.append(self._name())
        if self._take("("):  # a function of a catalog, such as lake.system.bucket(16, id)
            if not self._take(")"):
                self._arguments()
            return Value("unknown")
        kind = self._kind_of(names)
        return Value(kind, column=".".join(names))

    def _kind_of(self, names: list[str]) -> Kind:
        if names[0].lower() in METADATA_COLUMNS:
            return "unknown"
        # A column may follow the table's own name, with its database and catalog.
        for start in range(len(names)):
            found = _find_kind(self._schema.as_struct(), names[start:])
            if found is not None:
                return found
        raise UnusableCondition(f"the table has no column {'.'.join(names)!r}; it has: {self._columns()}")

    def _is_column(self, word: str) -> bool:
        return any(each.name.upper() == word for each in self._schema.fields)

    def _columns(self) -> str:
        names = [each.name for each in self._schema.fields]
        more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
        return ", ".join(names[:SHOWN_COLUMNS]) + more

    def _comparable(self, left: Value, right: Value) -> None:
        for column, literal in ((left, right), (right, left)):
            if (
                column.column is not None
                and column.kind == "number"
                and literal.text is not None
                and not _is_number(literal.text)
            ):
                raise UnusableCondition(f"the column {column.column!r} holds numbers and is compared with {literal.text!r}")

    def _truth(self, value: Value) -> Value:
        if value.kind in ("number", "text", "other"):
            what = f"the column {value.column!r}" if value.column else "a value"
            raise UnusableCondition(f"{what} is not a condition, such as month = 3")
        return Value("truth")

    def _check_typed(self, word: str, text: str) -> None:
        if word == "X" or text.lower().split()[:1] in SPECIAL_MOMENTS:
            return
        match = DATE_TEXT.fullmatch(text)
        try:
            if match is not None:
                date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
            elif not any(character.isdigit() for character in text):
                raise ValueError(text)
        except ValueError:
            raise UnusableCondition(f"{word} {text!r} is not a moment, such as {word} '2026-01-31'") from None

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _skip_type(self) -> None:
        """A type behind ``::``, such as ``DECIMAL(10, 2)``."""
        if self._kind() != "word":
            self._unexpected()
        self._place += 1
        if self._take("("):
            self._skip_to_parenthesis()

    def _skip_to_parenthesis(self) -> None:
        depth = 1
        while depth:
            token = self._next()
            if token is None:
                self._unexpected()
            depth += {"(": 1, ")": -1}.get(token, 0)
            self._place += 1


def _is_number(text: str) -> bool:
    try:
        float(text.strip().rstrip("dDfF") or "nothing")
    except ValueError:
        return text.strip().lower() in ("nan", "infinity", "-infinity")
    return True


def has_column(schema: Schema, name: str) -> bool:
    """Whether the schema has this column, or this field of a struct: ``place.city``."""
    return _find_kind(schema.as_struct(), name.split(".")) is not None


def _find_kind(type_: IcebergType, names: list[str]) -> Kind | None:
    """The kind of a type or of a field in it; ``None`` when there is no such field."""
    from pyiceberg import types

    if not names:
        return _kind(type_)
    if isinstance(type_, types.ListType):
        return "unknown" if _find_kind(type_.element_type, names) is not None else None
    if not isinstance(type_, types.StructType):
        return "unknown" if isinstance(type_, types.MapType) else None
    field = next((each for each in type_.fields if each.name.lower() == names[0].lower()), None)
    return None if field is None else _find_kind(field.field_type, names[1:])


def _kind(type_: IcebergType) -> Kind:
    from pyiceberg.types import BooleanType, DecimalType, DoubleType, FloatType, IntegerType, LongType, StringType

    if isinstance(type_, BooleanType):
        return "truth"
    if isinstance(type_, IntegerType | LongType | FloatType | DoubleType | DecimalType):
        return "number"
    # Spark casts a text to a truth value when it is used as a condition.
    return "unknown" if isinstance(type_, StringType) else "other"
