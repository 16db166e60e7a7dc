"""Identities of jobs and attempts."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

IdMaker = Callable[[], str]


def new_id() -> str:
    """A fresh uuid4 in hex, 32 characters."""
    return uuid4().hex
