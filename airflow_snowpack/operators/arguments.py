"""Parse arguments that Airflow has rendered: a template turns a list into text unless the DAG renders native objects.

    read_names("actions", '["expire_snapshots"]')                        # also "['expire_snapshots']" and "expire_snapshots"
    read_object("options", '{"expire_snapshots": {"retain_last": 5}}')
    read_moment("as_of", "2026-01-01T00:00:00+00:00")
    read_number("num_shards", "8")

This restores the types; the domain checks the values.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_snowpack.errors import Kind, SnowpackError


class UnreadableArgument(SnowpackError, kind=Kind.INVALID):
    """Invalid argument."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"The argument {name} = {str(value)[:200]!r} cannot be read. Give {expected}.")


class UnusableArgument(SnowpackError, kind=Kind.INVALID):
    """The argument has no effect.

    :param why: the rest of the message, after the argument's name and value.
    """

    def __init__(self, name: str, value: object, why: str, way_out: str) -> None:
        super().__init__(f"The argument {name} = {str(value)[:200]!r} {why}. {way_out}.")


def read_names(name: str, value: object) -> list[str]:
    """Parse names from a list, a JSON array, the text of a Python list, or text separated by commas."""
    if isinstance(value, str):
        value = (
            _parse(value) if value.strip().startswith(("[", "(")) else [part.strip() for part in value.split(",") if part.strip()]
        )
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value):
        return [str(item) for item in value]
    raise UnreadableArgument(name, value, "a list of names, a JSON array, or names separated by commas")


def read_values(name: str, value: object) -> list[str | int]:
    """Parse texts or integers, from the same forms as :func:`read_names`."""
    if isinstance(value, str) and value.strip().startswith(("[", "(")):
        value = _parse(value)
    if isinstance(value, Sequence) and not isinstance(value, str) and all(type(item) in (str, int) for item in value):
        return list(value)
    return list(read_names(name, value))


def read_object(name: str, value: object) -> dict[str, Any]:
    """Parse a dictionary from a mapping, a JSON object or the text of a Python dictionary; ``None`` is an empty one."""
    if isinstance(value, str):
        value = _parse(value) if value.strip() else {}
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    raise UnreadableArgument(name, value, "a dictionary or a JSON object")


def read_flag(name: str, value: object) -> bool:
    """Parse a boolean, or its text."""
    if isinstance(value, bool):
        return value
    known = {"true": True, "1": True, "false": False, "0": False, "none": False, "": False}
    text = str(value).strip().lower()
    if text not in known:
        raise UnreadableArgument(name, value, "True or False")
    return known[text]


def read_text(value: object) -> str | None:
    """Return a text; ``None`` for what a template without a value renders."""
    text = str(value).strip() if value is not None else ""
    return text if text and text != "None" else None


def read_moment(name: str, value: object) -> datetime | None:
    """Parse a time in UTC from a ``datetime`` or ISO 8601 text; ``None`` for no value.

    :raises UnreadableArgument: it is not a time, or has no time zone.
    """
    text = value.isoformat() if isinstance(value, datetime) else read_text(value)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UnreadableArgument(name, value, "a time with its time zone, such as 2026-01-01T00:00:00+00:00")
    return moment.astimezone(UTC)


def read_number(name: str, value: object) -> int | None:
    """Parse an integer, or its text; ``None`` for no value. Raise :class:`UnreadableArgument` if it is not an integer."""
    text = read_text(value)
    if text is None:
        return None
    if isinstance(value, bool) or not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise UnreadableArgument(name, value, "a whole number")
    return int(text)


def read_period(name: str, value: object) -> timedelta:
    """Parse a duration from a ``timedelta`` or text such as ``1d``; raise :class:`UnreadableArgument` if it is not a duration."""
    from airflow_snowpack.durations import parse_duration

    try:
        return parse_duration(value)
    except ValueError as problem:
        raise UnreadableArgument(name, value, "a duration such as 1d or PT12H") from problem


def _parse(text: str) -> object:
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two: nested too deeply
            continue
    return text
