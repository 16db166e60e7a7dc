r"""Arguments as literals in the text of a statement, for servers that take no parameters.

    >>> with_literals("SELECT :name", {"name": "O'Neil"})
    "SELECT 'O\\u0027Neil'"

The invariant: a value stays one literal, whatever it contains. Of a string only letters, digits and a few harmless signs are
written as they are, everything else by its code, so that no quote, backslash or dollar sign of a value is in the text. The
session must have ``spark.sql.parser.escapedStringLiterals`` off.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Comments, quoted names and quoted strings may contain what looks like a marker.
MARKER = re.compile(r"/\*.*?\*/|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|:(?P<name>\w+)", re.DOTALL)
LONG_MARKER = re.compile(r"CAST\(:(?P<name>\w+) AS BIGINT\)")
NOT_PLAIN = re.compile(r"[^A-Za-z0-9 _./,=<>()-]")


def with_literals(sql: str, args: Mapping[str, Any]) -> str:
    """Return the statement with a literal instead of each named marker.

    :raises KeyError: a marker has no argument.
    :raises TypeError: an argument has another type than text, number, boolean or aware datetime.
    """
    return MARKER.sub(lambda match: literal(args[match["name"]]) if match["name"] else match[0], sql)


def with_constants(sql: str, args: Mapping[str, Any]) -> str:
    """Return a CALL as Iceberg reads it before Spark 4.1, with constants as arguments: no markers, and no casts to BIGINT."""
    return with_literals(LONG_MARKER.sub(lambda match: f"{args[match['name']]}L", sql), args)


def literal(value: object) -> str:
    """Return a value as Spark's SQL writes it; raises like :func:`with_literals`."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value!r}D"
        case str():
            return f"'{NOT_PLAIN.sub(_escaped, value)}'"
        case datetime() if value.tzinfo is not None:
            return f"TIMESTAMP_LTZ '{value.astimezone(UTC).isoformat(sep=' ')}'"
        case _:
            raise TypeError(f"{value!r} cannot be an argument of a statement.")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
