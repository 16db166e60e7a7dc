"""What a trigger waits for before it may fire: until Airflow has heard that the task has left for the triggerer.

    settling = Settling()          # when the trigger begins
    await settling.rest()          # before the first look that may fire

Airflow hears from its executor that a task has left some seconds after it has (six were seen), and takes that for the end of
whatever runs under the task's name by then: a task that was woken before is failed, and tried again if it has tries left. So the
invariant: **no trigger that wakes a task fires sooner than ``[snowpack] resume_delay`` after it began.**
``docs/decisions/0010`` has what was seen.
"""

from __future__ import annotations

import asyncio
import time

from airflow_snowpack.settings import resume_delay


class Settling:
    """The first seconds of a trigger: ``[snowpack] resume_delay``, from its construction on."""

    def __init__(self) -> None:
        self._over_at = time.monotonic() + resume_delay().total_seconds()

    @property
    def is_over(self) -> bool:
        """Whether the trigger may fire."""
        return time.monotonic() >= self._over_at

    async def rest(self) -> None:
        """Wait for as long as it may not."""
        await asyncio.sleep(max(0.0, self._over_at - time.monotonic()))
