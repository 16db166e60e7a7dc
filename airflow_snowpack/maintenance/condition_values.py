"""Which texts Spark can cast to the type of a column, and so compare with it.

    >>> problem_of("2026-13-45", "date")
    "is not a date, such as '2026-01-31'"
    >>> problem_of("2026-01-31", "date") is None
    True

Spark refuses any other text before it reads a row, when it folds the comparison.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import Literal
from zoneinfo import ZoneInfo

Kind = Literal["truth", "integer", "number", "date", "timestamp", "text", "null", "other", "unknown"]

NUMBERS = frozenset({"integer", "number"})
MOMENTS = frozenset({"date", "timestamp"})
SPECIAL = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})
DAY = r"[+-]?(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
DATE = re.compile(rf"{DAY}(?:[ T].*)?)?)?", re.DOTALL)
TIME = r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.[0-9]*)?(?P<zone>.*))?)?"
TIMESTAMP = re.compile(rf"{DAY}(?:[ T]{TIME})?)?)?")
TIME_OF_TODAY = re.compile(rf"(?:T|(?=[0-9]{{1,2}}:)){TIME}")
OFFSET = re.compile(r"(?:Z|UTC?|GMT)?|(?:UTC?|GMT)?[+-][0-9]{1,2}(?::?[0-9]{1,2}(?::?[0-9]{2})?)?")
JAVA_ZONES = re.compile("A[CEGR]T|AST|B[ES]T|C[ANSA]T|CTT|E[AC]T|EST|HST|I[ES]T|JST|M[IS]T|N[ES]T|P[LNRS]T|SST|VST")
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"(?ai)[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?[df]?|nan|inf|infinity)")
TRUTHS = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
TRIMMED = "".join(map(chr, (*range(33), 127)))
"""What Spark strips from a value: no space beyond ASCII."""
LARGEST = 2**63
SUFFIXES = {"L": 2**63, "S": 2**15, "Y": 2**7}
MOST_DIGITS = 38


def problem_of(text: str, kind: Kind) -> str | None:
    """Return why Spark cannot cast a text to this kind of value; ``None`` if it can, or if that is unknown."""
    text = text.strip(TRIMMED)
    match kind:
        case "integer" if not INTEGER.fullmatch(text) or not -LARGEST <= _number(text) < LARGEST:
            return "is not a whole number of 64 bits"
        case "number" if not NUMBER.fullmatch(text):
            return "is not a number"
        case "truth" if text.lower() not in TRUTHS:
            return "is neither true nor false"
        case "date" if not _is_special(text) and not _is_day(DATE.fullmatch(text)):
            return "is not a date, such as '2026-01-31'"
        case "timestamp" if not _is_special(text) and not _is_moment(text):
            return "is not a moment, such as '2026-01-31 10:00:00'"
    return None


def problem_of_number(literal: str) -> str | None:
    """Return why Spark cannot read a number in a predicate; ``None`` if it can."""
    literal = literal.upper()
    digits = literal.removesuffix("BD") if literal.endswith("BD") else literal.rstrip("LSYFD")
    suffix = literal[len(digits) :]
    if suffix in SUFFIXES:
        fits = INTEGER.fullmatch(digits) is not None and _number(digits) <= SUFFIXES[suffix]
    elif suffix in ("F", "D") or (not suffix and "E" in digits):
        fits = float(digits) != float("inf")
    else:
        fits = "E" in digits or len(digits.replace(".", "")) <= MOST_DIGITS
    return None if fits else "is not a number that Spark can read"


def _number(text: str) -> int:
    """Return the integer; one with too many digits becomes larger than every limit."""
    digits = text.lstrip("+-").lstrip("0")
    value = int(digits or "0") if len(digits) <= MOST_DIGITS else LARGEST * 2
    return -value if text.startswith("-") else value


def _is_special(text: str) -> bool:
    word, _, zone = text.partition(" ")
    return word.lower() in SPECIAL and _is_zone(zone) and not (zone and word.lower() == "now")


def _is_day(match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    # The calendar repeats after 400 years, and Python has no year 0.
    year, month, day = int(match["year"]) % 400 + 2000, int(match["month"] or 1), int(match["day"] or 1)
    with suppress(ValueError):
        date(year, month, day)
        return True
    return False


def _is_moment(text: str) -> bool:
    match = TIME_OF_TODAY.fullmatch(text)
    if match is None:
        match = TIMESTAMP.fullmatch(text)
        if match is None or len(match["year"]) > 6 or not _is_day(match):
            return False
    return (
        int(match["hour"] or 0) < 24
        and max(int(match["minute"] or 0), int(match["second"] or 0)) < 60
        and _is_zone(match["zone"])
    )


def _is_zone(text: str | None) -> bool:
    zone = (text or "").strip()
    if OFFSET.fullmatch(zone) or JAVA_ZONES.fullmatch(zone):
        return True
    with suppress(KeyError, ValueError, OSError):  # no such zone, and no name of one
        ZoneInfo(zone)
        return True
    return False
