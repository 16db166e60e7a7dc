"""Values of arguments: durations, times, JSON objects, ids and their beginnings. An unusable one is a :class:`UsageProblem`."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.worker.process import check_poll

T = TypeVar("T")
ID_LENGTH = 32
KEY_LENGTH = 64
SHORTEST_ID = 8
MATCHES_SHOWN = 10
HEXADECIMAL = re.compile("[0-9a-f]+")


def read_period(option: str, text: str) -> timedelta:
    """Return a duration such as ``30s`` or ``2h``."""
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise UsageProblem(f"{option} {problem}.") from problem


def read_poll(text: str) -> timedelta:
    """Return the value of ``--poll``, a pause between two reads, which is not zero."""
    try:
        return check_poll(read_period("--poll", text))
    except ValueError as problem:
        raise UsageProblem(f"--poll {problem}.") from None


def read_time(option: str, text: str | None, now: datetime) -> datetime | None:
    """Return a time in ISO 8601 (UTC unless it has an offset), or a duration before now."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - read_period(option, text)
        except (UsageProblem, OverflowError):
            raise UsageProblem(
                f"{option} {text[:60]!r} is neither a time nor a duration. "
                "Pass a time such as 2026-11-21T14:00 (UTC), or 2h for two hours ago."
            ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def read_object(option: str, text: str | None, example: str) -> dict[str, Any]:
    """Return a JSON object, such as the example; ``{}`` without a text."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{option} {text[:80]!r} is not valid JSON: {error}. Pass an object such as '{example}'.") from error
    if not isinstance(value, dict):
        raise UsageProblem(f"{option} {text[:80]!r} is not a JSON object. Pass one such as '{example}'.")
    return value


def find(
    get: Callable[[str], T], ids_beginning: Callable[..., Sequence[str]], given: str, what: str, length: int = ID_LENGTH
) -> T:
    """Return what has this id, or the only thing whose id begins with the text, which has at least 8 characters.

    :param get: returns what has a whole id; raises an error if there is nothing.
    :param ids_beginning: returns the ids that begin with a text, up to a ``limit``.
    :param what: the id for people, with its article.
    :param length: of a whole id.
    """
    wanted = given.strip().lower()
    if not HEXADECIMAL.fullmatch(wanted):
        return get(given)
    if len(wanted) >= length:
        return get(wanted)
    if len(wanted) < SHORTEST_ID:
        raise UsageProblem(f"{given!r} is too short for {what}. Pass at least its first {SHORTEST_ID} characters.")
    matches = ids_beginning(wanted, limit=MATCHES_SHOWN + 1)
    if len(matches) > 1:
        several = ", ".join(matches[:MATCHES_SHOWN]) + (" and more" if len(matches) > MATCHES_SHOWN else "")
        raise UsageProblem(f"{given!r} is the beginning of several {what.partition(' ')[2]}s: {several}. Pass more characters.")
    return get(matches[0] if matches else given)
