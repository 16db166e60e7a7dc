"""The condition of a table, from its score."""

from __future__ import annotations

from enum import StrEnum

HEALTHY_FROM = 80
SICK_BELOW = 50


class Condition(StrEnum):
    """A table by its score: ``SICK`` below 50, ``FAIR`` below 80, or ``HEALTHY``.

    ``UNREADABLE``: its metadata could not be read. ``NOT_READ``: no health is stored.
    """

    UNREADABLE = "unreadable"
    SICK = "sick"
    FAIR = "fair"
    HEALTHY = "healthy"
    NOT_READ = "not_read"

    @classmethod
    def of(cls, score: int | None, problem: str | None = None) -> Condition:
        """Return the condition of a table with this score, or with this problem instead."""
        if score is None:
            return cls.NOT_READ if problem is None else cls.UNREADABLE
        return cls.SICK if score < SICK_BELOW else cls.FAIR if score < HEALTHY_FROM else cls.HEALTHY

    @property
    def first_step(self) -> str:
        """Return what to do about a table of this condition that was never maintained."""
        if self is Condition.UNREADABLE:
            return "Its metadata cannot be read. Fix the reason first."
        return "The table is healthy." if self is Condition.HEALTHY else "Start with a dry run."
