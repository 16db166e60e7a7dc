"""Check a ``where`` predicate against a table's columns, without Spark.

    >>> check_condition("month = 3 AND carrier IN ('AA', 'UA')", schema, "lake")
    >>> check_condition("mnth = 3", schema, "lake")
    Traceback (most recent call last):
    …UnusableCondition: the table has no column 'mnth'; it has: month, carrier, delay

The parser covers the part of Spark's grammar that a predicate of a rewrite can use, with two invariants:

- Spark parses every accepted predicate in the same way, and only functions of :mod:`.condition_functions` are called.
- Every predicate within the bounds below that Spark can evaluate with these functions is accepted. Refused are text after its
  end, comments, subqueries, unknown columns, values that a column cannot be compared with, and results that are no truth value.

One exception: Spark takes a word after the end for an alias and runs ``p = 0 AND`` as ``p = 0``. That is refused, because the
rest is missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.literal import check_literal
from airflow_snowpack.maintenance.condition_functions import (
    ALLOWED,
    BARE_FUNCTIONS,
    BETWEEN_ARGUMENTS,
    OF_ICEBERG,
    OWN_SYNTAX,
    REFUSED_OPERATORS,
    SIDES,
    TYPES,
    UNITS,
    WITH_UNIT,
)
from airflow_snowpack.maintenance.condition_tokens import TokenReader, UnusableCondition
from airflow_snowpack.maintenance.condition_values import MOMENTS, NUMBERS, problem_of, problem_of_number

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from airflow_snowpack.maintenance.condition_values import Kind


COMPARABLE = (NUMBERS, MOMENTS, frozenset({"truth"}))
"""Kinds that Spark can compare with each other."""
HEXADECIMAL = re.compile(r"(?:[0-9A-Fa-f]{2})*")
COMPARISONS = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "||", "&", "|", "^", "DIV"})
TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X"})
OPERATORS = frozenset({"AND", "OR", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN"})
NOT_A_VALUE = OPERATORS | {"THEN", "WHEN", "ELSE", "END", "AS", "SELECT", "FROM", "WHERE", "DROP"}
METADATA_COLUMNS = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted"})
MOST_NESTED = 40
"""Nested parentheses, calls and ``CASE``. Spark's stack overflows somewhere between 400 and 800."""
MOST_CHAINED = 100
"""Operators in one part of the predicate, each nesting what precedes it. Spark's stack overflows below 400."""
MOST_CONDITIONS = 2_000
"""Comparisons; Spark plans a predicate of 5,000 in 8 s."""
MOST_WILDCARDS = 2
"""``%`` in a pattern: each further one multiplies the time to match a long text by its length."""
SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True)
class Value:
    """A part of the predicate, with the content of a text literal or the name of a column."""

    kind: Kind
    text: str | None = None
    column: str | None = None


def check_condition(condition: str, schema: Schema, catalog: str) -> None:
    """Check that Spark can evaluate the predicate on a table with this schema.

    :param catalog: the name of the table's catalog, the only one whose functions are Iceberg's; others may have user functions.
    :raises UnusableCondition: Spark cannot; the message has the reason.
    """
    try:
        check_literal(condition)
    except ValueError as problem:
        raise UnusableCondition(f"it {problem}") from None
    _Parser(condition, schema, catalog).check()


class _Parser(TokenReader):
    """A recursive descent parser with one method per level of precedence."""

    def __init__(self, condition: str, schema: Schema, catalog: str) -> None:
        super().__init__(condition)
        self._schema, self._catalog = schema, catalog
        self._depth = self._chained = self._conditions = 0

    def check(self) -> None:
        value = self._any_of()
        if self._place < len(self._tokens):
            self._unexpected()
        self._truth(value)

    def _any_of(self) -> Value:
        self._nest()
        value = self._all_of()
        while self._take("OR"):
            self._count_condition()
            self._truth(value)
            value = self._truth(self._all_of())
        self._depth -= 1
        return value

    def _all_of(self) -> Value:
        value = self._negation()
        while self._take("AND"):
            self._count_condition()
            self._truth(value)
            value = self._truth(self._negation())
        return value

    def _negation(self) -> Value:
        negated = False
        if self._depth == 1:
            self._chained = 0  # AND and OR nest nothing: Spark balances them
        while self._take("NOT") or self._take("!"):
            negated = True
            self._chain()
        value = self._comparison()
        return self._truth(value) if negated else value

    def _comparison(self) -> Value:
        """Parse a value and at most one of ``IS``, ``[NOT] IN``, ``BETWEEN`` and the pattern operators."""
        left = self._value()
        if self._take("IS"):
            self._take("NOT")
            if self._take("DISTINCT"):
                self._need("FROM")
                self._comparable(left, self._value())
            elif not any(self._take(word) for word in ("NULL", "TRUE", "FALSE", "UNKNOWN")):
                self._unexpected()
            return Value("truth")
        negated = self._take("NOT")
        if self._next() in REFUSED_OPERATORS:
            raise UnusableCondition(
                f"it has {self._next()}: matching a regular expression may take for ever, and Iceberg selects no files by it"
            )
        if self._take("IN"):
            self._need("(")
            for each in self._arguments():
                self._comparable(left, each)
        elif self._take("BETWEEN"):
            self._comparable(left, self._value())
            self._need("AND")
            self._comparable(left, self._value())
        elif self._take("LIKE") or self._take("ILIKE"):
            several = any(self._take(word) for word in ("ANY", "ALL", "SOME"))
            if several:
                self._need("(")
            for pattern in self._arguments() if several else [self._value()]:
                if pattern.text is None or pattern.text.count("%") > MOST_WILDCARDS:
                    raise UnusableCondition(f"a pattern must be a text with at most {MOST_WILDCARDS} %, such as 'a%'")
            if not several and self._take("ESCAPE"):
                if self._kind() != "text":
                    self._unexpected()
                self._text()
        elif negated:
            self._unexpected()
        else:
            return left
        return Value("truth")

    def _value(self) -> Value:
        left, compared = self._sum(), False
        while self._next() in COMPARISONS:
            self._place += 1
            self._comparable(left, self._sum())
            if compared:
                self._chain()
            left, compared = Value("truth"), True
        return left

    def _sum(self) -> Value:
        value = self._signed()
        while self._next() in ARITHMETIC:
            joins = self._next() == "||"
            self._place += 1
            self._chain()
            both = value.kind, self._signed().kind
            value = Value("number" if not joins and NUMBERS.issuperset(both) else "unknown")
        return value

    def _signed(self) -> Value:
        signed = False
        while self._next() in ("+", "-", "~"):
            if self._kind(1) != "number":  # otherwise it is a part of the number
                self._chain()
            self._place, signed = self._place + 1, True
        value = self._primary()
        while True:
            if self._take("["):
                self._any_of()
                self._need("]")
                value = Value("unknown")
            elif self._take("::"):
                value = self._cast(value)
            elif self._next() == "." and not signed:
                self._place += 1
                if self._kind() not in ("word", "quoted"):
                    self._unexpected()
                self._place += 1
                value = Value("unknown")
            else:
                break
            self._chain()
        return Value(value.kind if value.kind in NUMBERS else "unknown") if signed else value

    def _primary(self) -> Value:
        match self._kind():
            case "number":
                problem = problem_of_number(self._token())
                if problem is not None:
                    raise UnusableCondition(f"{self._token()[:50]} {problem}")
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
            return self._typed(word, self._text())
        if word == "INTERVAL" and self._kind(2 if after in ("+", "-") else 1) in ("text", "number"):
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
        if word in ("EXISTS", "SELECT"):
            raise UnusableCondition("it has a subquery, which a rewrite cannot evaluate")
        if word in NOT_A_VALUE:
            self._unexpected()
        name = self._name().lower()
        _check_function(name, ALLOWED)
        self._place += 1
        if word in ("CAST", "TRY_CAST"):
            value = self._any_of()
            self._need("AS")
            value = self._cast(value if word == "CAST" else Value("unknown"))
            self._need(")")
            return value
        if word in OWN_SYNTAX:
            self._nest()
            self._keyword_arguments(word)
            self._depth -= 1
            return Value("unknown")
        if self._take(")"):
            return Value("unknown")
        values = self._arguments()
        type_ = name.removeprefix("to_") if name.startswith("to_") else name
        return self._cast_to(type_, values[0]) if len(values) == 1 and type_ in TYPES else Value("unknown")

    def _keyword_arguments(self, word: str) -> None:
        """Parse arguments separated by words, such as ``year FROM at`` and ``BOTH ' ' FROM name``, to the closing parenthesis."""
        if word == "TRIM" and self._next() in SIDES:
            self._place += 1
            self._take("FROM")
        if word == "EXTRACT" or (word in WITH_UNIT and self._next() in UNITS and self._next(1) == ","):
            self._place += 1
            self._need("FROM" if word == "EXTRACT" else ",")
        self._sum()
        for each in BETWEEN_ARGUMENTS.get(word, ()):
            if self._take(each):
                self._sum()
        while self._take(","):
            self._sum()
        self._need(")")

    def _arguments(self) -> list[Value]:
        """Parse arguments separated by commas, to the closing parenthesis."""
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
        """Parse numbers with units, such as ``INTERVAL 1 YEAR -2 MONTHS``, or a text with or without a unit."""
        self._place += 1
        while (kind := self._kind(signed := self._next() in ("+", "-"))) in ("text", "number"):
            self._place += 1 + signed
            if self._next() in UNITS:
                self._place += 3 if self._next(1) == "TO" and self._next(2) in UNITS else 1
            elif kind == "number":
                self._unexpected("a unit")
        return Value("other")

    def _column(self) -> Value:
        names = [self._name()]
        while self._next() == "." and self._kind(1) in ("word", "quoted"):
            self._place += 1
            names.append(self._name())
        if self._take("("):  # a function of a catalog, such as lake.system.bucket(16, id)
            of_iceberg = names[0] == self._catalog and names[1].lower() == "system" if len(names) == 3 else False
            _check_function(".".join(names), {".".join(names)} if of_iceberg and names[2].lower() in OF_ICEBERG else ())
            self._arguments()
            return Value("unknown")
        kind = self._kind_of(names)
        return Value(kind, column=".".join(names))

    def _kind_of(self, names: list[str]) -> Kind:
        if names[0].lower() in METADATA_COLUMNS:
            return "unknown"
        # The table's name, with its database and catalog, may qualify a column.
        for start in range(len(names) if len(names) <= MOST_NESTED else 0):
            found = _find_kind(self._schema.as_struct(), names[start:])
            if found is not None:
                return found
        raise UnusableCondition(f"the table has no column {'.'.join(names)[:100]!r}; it has: {self._columns()}")

    def _is_column(self, word: str) -> bool:
        return any(each.name.upper() == word for each in self._schema.fields)

    def _columns(self) -> str:
        names = [each.name for each in self._schema.fields]
        more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
        return ", ".join(names[:SHOWN_COLUMNS]) + more

    def _comparable(self, left: Value, right: Value) -> None:
        for value, literal in ((left, right), (right, left)):
            problem = None if literal.text is None else problem_of(literal.text, value.kind)
            if problem is not None:
                what = f"the column {value.column!r} is" if value.column else "a value is"
                raise UnusableCondition(f"{what} compared with {literal.text!r:.100}, which {problem}")
        kinds = [next((kinds for kinds in COMPARABLE if value.kind in kinds), None) for value in (left, right)]
        if None not in kinds and kinds[0] is not kinds[1]:
            column = left if left.column else right
            raise UnusableCondition(f"{_shown(column)} is compared with {_shown(right if column is left else left)}")

    def _truth(self, value: Value) -> Value:
        if value.kind not in ("truth", "null", "unknown"):
            what = f"the column {value.column!r}" if value.column else "a value"
            raise UnusableCondition(f"{what} is not a condition, such as month = 3")
        return Value("truth")

    def _typed(self, word: str, text: str) -> Value:
        if word == "X":
            if not HEXADECIMAL.fullmatch(text):
                raise UnusableCondition(f"X{text!r:.100} is not a binary value, such as X'1F'")
            return Value("other")
        kind: Kind = "date" if word == "DATE" else "timestamp"
        problem = problem_of(text, kind)
        if problem is not None:
            raise UnusableCondition(f"{word} {text!r:.100} {problem}")
        return Value(kind)

    def _cast(self, value: Value) -> Value:
        """Parse the type that a value is cast to, such as ``DECIMAL(10, 2)``."""
        type_ = self._name().lower() if self._kind() == "word" else ""
        if type_ not in TYPES:
            raise UnusableCondition(f"the type {type_ or self._token()!r:.50} of a cast is none of {', '.join(TYPES)}")
        if type_ == "decimal" and self._take("("):
            while self._kind() == "number" or self._next() == ",":
                self._place += 1
            self._need(")")
        return self._cast_to(type_, value)

    def _cast_to(self, type_: str, value: Value) -> Value:
        kind: Kind = TYPES[type_]
        problem = None if value.text is None else problem_of(value.text, kind)
        if problem is not None:
            raise UnusableCondition(f"{value.text!r:.100} is cast to {type_}, and {problem}")
        return Value(kind)

    def _nest(self) -> None:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise UnusableCondition(f"it is nested more than {MOST_NESTED} levels deep")

    def _chain(self) -> None:
        self._chained += 1
        if self._chained > MOST_CHAINED:
            raise UnusableCondition(f"a part of it has more than {MOST_CHAINED} operators in a row")

    def _count_condition(self) -> None:
        self._conditions += 1
        if self._conditions >= MOST_CONDITIONS:
            raise UnusableCondition(f"it has more than {MOST_CONDITIONS:,} conditions")


def _check_function(name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        listed = f"{', '.join(sorted(ALLOWED))}, and in the catalog's 'system' {', '.join(sorted(OF_ICEBERG))}"
        raise UnusableCondition(f"the function {name[:100]!r} is not allowed in a predicate; allowed are {listed}")


def _shown(value: Value) -> str:
    what = {"truth": "true or false", "date": "a date", "timestamp": "a moment"}.get(value.kind, "a number")
    return f"the column {value.column!r}, which holds {what}," if value.column else what


def has_column(schema: Schema, name: str) -> bool:
    """Return whether the schema has this column or struct field, such as ``place.city``."""
    return _find_kind(schema.as_struct(), name.split(".")) is not None


def _find_kind(type_: IcebergType, names: list[str]) -> Kind | None:
    """Return the kind of a type or of a field in it; ``None`` if there is no such field."""
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
    from pyiceberg import types

    if isinstance(type_, types.BooleanType):
        return "truth"
    if isinstance(type_, types.IntegerType | types.LongType):
        return "integer"
    if isinstance(type_, types.FloatType | types.DoubleType | types.DecimalType):
        return "number"
    if isinstance(type_, types.DateType):
        return "date"
    if isinstance(type_, types.TimestampType | types.TimestamptzType):
        return "timestamp"
    # Spark casts a text that is used as a condition to a truth value.
    return "unknown" if isinstance(type_, types.StringType) else "other"
