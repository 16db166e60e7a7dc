"""Refuses variables in text that reaches Spark's SQL.

    >>> check_literal("month = 3")
    >>> check_literal("note = '${env:AIRFLOW_CONN_CRM}'")
    Traceback (most recent call last):
    ValueError: has '${', with which Spark names a setting or a variable of its process; write the value itself

Substitution is off in every session of the package. A variable is refused all the same: its author expects its value there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

VARIABLE = "${"


def check_literal(value: object) -> None:
    """Check that no text in a value, at any depth of lists and maps, names a variable for Spark to substitute.

    :raises ValueError: a text does; the message is the predicate of a sentence.
    """
    if isinstance(value, str):
        if VARIABLE in value:
            raise ValueError(
                f"has {VARIABLE!r}, with which Spark names a setting or a variable of its process; write the value itself"
            )
    elif isinstance(value, Mapping):
        check_literal([*value.keys(), *value.values()])
    elif isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        for each in value:
            check_literal(each)
