"""The priority of a job: waiting jobs with the highest priority run first. Schedules have the same range."""

from __future__ import annotations

from airflow_snowpack.jobs.errors import InvalidPriority

PRIORITIES = range(-1000, 1001)
DEFAULT_PRIORITY = 0


def check_priority(priority: int) -> int:
    """:raises InvalidPriority: it is not a whole number between -1000 and 1000."""
    # True and 1.0 equal 1, and the database would store either.
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in PRIORITIES:
        raise InvalidPriority(priority, PRIORITIES[0], PRIORITIES[-1])
    return priority
