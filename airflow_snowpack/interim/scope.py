"""Where the name of a table is known. A module of its own: DAG files name scopes, and need nothing else of the room's values."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """Where the name of a table is known."""

    RUN = "run"
    """In its own DAG run, whose end ends the name."""
    GLOBAL = "global"
    """Everywhere, until the name is given to another table or its time is over."""
