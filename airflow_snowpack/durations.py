"""Durations as people write them, and as JSON stores them.

    >>> parse_duration("5d"), parse_duration("PT36H"), parse_duration(timedelta(hours=1))
    (datetime.timedelta(days=5), datetime.timedelta(days=1, seconds=43200), datetime.timedelta(seconds=3600))
    >>> format_duration(timedelta(days=1, hours=12))
    'P1DT12H'

The invariant: ``parse_duration(format_duration(d)) == d`` for every duration that is not negative. Months and years are refused
because their length varies, and a bare number because it has no unit.
"""

from __future__ import annotations

import re
from datetime import timedelta

# Compiled on first use: every parse of a DAG file loads its modules again.
SHORT = r"(?:(?P<weeks>[0-9]+)w)?(?:(?P<days>[0-9]+)d)?(?:(?P<hours>[0-9]+)h)?(?:(?P<minutes>[0-9]+)m)?(?:(?P<seconds>[0-9]+)s)?"
ISO_8601 = (
    r"P(?:(?P<weeks>[0-9]+)W)?(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:\.[0-9]{1,6})?)S)?)?"
)


def parse_duration(value: object) -> timedelta:
    """Parse ``"5d"``, ``"1d12h"``, ``"30m"``, ``"P5D"`` or ``"PT30M"``; return a ``timedelta`` as it is.

    :raises ValueError: it is none of these, or negative; the message names what was expected.
    """
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(f"is negative: {value}")
        return value
    if isinstance(value, str):
        text = value.strip()
        match = re.fullmatch(SHORT, text.replace(" ", "").lower()) or re.fullmatch(ISO_8601, text)
        parts = {unit: float(amount) for unit, amount in match.groupdict().items() if amount} if match else {}
        if parts:
            try:
                return timedelta(**parts)
            except OverflowError:
                raise ValueError(f"is too long: {text[:60]!r}") from None
    raise ValueError(f'must be a duration such as "5d", "30m", "1d12h" or the ISO 8601 "P5D", not {str(value)[:60]!r}')


def format_duration(value: timedelta) -> str:
    """Return ISO 8601 text in days, hours, minutes and seconds."""
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    whole = f"{seconds}.{value.microseconds:06d}" if value.microseconds else f"{seconds}"
    days = f"{value.days}D" if value.days else ""
    time = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{whole}S" if float(whole) else "")
    return f"P{days}T{time}" if time else f"P{days or '0D'}"
