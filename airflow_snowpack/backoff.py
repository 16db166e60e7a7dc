"""The pause before another attempt, which doubles with each one up to a limit.

>>> backoff(timedelta(seconds=5), 3, timedelta(minutes=5))
datetime.timedelta(seconds=40)
"""

from __future__ import annotations

from datetime import timedelta

MAX_DOUBLINGS = 20
"""Beyond that, the product would soon be no period any more."""


def backoff(first: timedelta, doublings: int, longest: timedelta) -> timedelta:
    """Return ``first * 2 ** doublings``, at most ``longest``."""
    return min(first * (1 << min(max(doublings, 0), MAX_DOUBLINGS)), longest)
