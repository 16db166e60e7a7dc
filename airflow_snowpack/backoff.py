"""The pause before the next attempt: it doubles with each attempt, up to a limit.

>>> backoff(timedelta(seconds=5), 3, timedelta(minutes=5))
datetime.timedelta(seconds=40)
"""

from __future__ import annotations

from datetime import timedelta

MAX_DOUBLINGS = 20
"""More doublings would overflow a ``timedelta``."""


def backoff(first: timedelta, doublings: int, longest: timedelta) -> timedelta:
    """Return ``first * 2 ** doublings``, at most ``longest``."""
    return min(first * (1 << min(max(doublings, 0), MAX_DOUBLINGS)), longest)
