"""Limit the rows that a writer sends per second, for storage or a network that others share.

limit = RateLimit(50_000)
limit.wait(10_000)          # returns when so many more rows are within the rate
"""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_snowpack.builds.errors import InvalidBuild


class RateLimit:
    """The limit of one writer, counted from its first rows on.

    :param rows_per_second: ``None`` for no limit.
    :param monotonic: a clock in seconds.
    :param sleep: waits for a number of seconds.
    :raises InvalidBuild: the rate is not a positive number.
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
        self._start: float | None = None
        self._rows = 0

    def wait(self, rows: int) -> None:
        """Wait until the rate allows so many more rows."""
        if self._rate is None:
            return
        now = self._monotonic()
        if self._start is None:
            self._start = now
        self._rows += rows
        early = self._start + self._rows / self._rate - now
        if early > 0:
            self._sleep(early)
