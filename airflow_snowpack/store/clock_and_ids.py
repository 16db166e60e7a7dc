"""The clock and the id maker. Both are always passed in, so that tests control them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

Clock = Callable[[], datetime]
"""Returns the current time as an aware datetime in UTC."""


def utc_now() -> datetime:
    return datetime.now(UTC)


IdMaker = Callable[[], str]


def new_id() -> str:
    """Return a new uuid4 in hex, 32 characters."""
    return uuid4().hex
