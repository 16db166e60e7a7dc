"""The clock and the id maker: always passed in, so that tests control them and the domain never asks the machine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

Clock = Callable[[], datetime]
"""Returns the present moment as an aware datetime in UTC."""


def utc_now() -> datetime:
    """The machine's clock."""
    return datetime.now(UTC)


IdMaker = Callable[[], str]


def new_id() -> str:
    """A fresh uuid4 in hex, 32 characters."""
    return uuid4().hex
