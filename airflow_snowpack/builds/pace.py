"""No more than so many rows a second, for a storage or a network that others need as well.

    pace = Pace(50_000)
    pace.wait(10_000)          # returns when that many rows may go on

The invariant: from the first call on, never more rows have gone on than the rate allows for the time that has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_snowpack.builds.errors import InvalidBuild


class Pace:
    """One writer's limit.

    :param rows_per_second: ``None`` for no limit.
    :param monotonic: a clock in seconds.
    :param sleep: how it waits, in seconds.
    :raises InvalidBuild: the rate is not positive.
    """

    def __init__(
        self,
        rows_per_second: float | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        number = isinstance(rows_per_second, (int, float)) and not isinstance(rows_per_second, bool)
        if rows_per_second is not None and not (number and rows_per_second > 0):
            raise InvalidBuild("rows_per_second", rows_per_second, "it must be a number above 0, or None for no limit")
        self._rate = rows_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._began: float | None = None
        self._gone = 0

    def wait(self, rows: int) -> None:
        """Let these rows go on as soon as the rate allows it."""
        if self._rate is None:
            return
        now = self._monotonic()
        if self._began is None:
            self._began = now
        self._gone += rows
        early = self._began + self._gone / self._rate - now
        if early > 0:
            self._sleep(early)
