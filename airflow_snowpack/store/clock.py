"""The clock of the store: always passed in, so that tests move it and nothing in the domain asks the machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present moment as an aware datetime in UTC."""


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)
