"""Logs a problem that recurs in a loop: one line at once, then one every 30 seconds, and one when it is over.

problem = Recurring(log)
try:
    step()
except StoreError as error:
    problem.failed(error, "heartbeat_failed: job %s", job_id)
else:
    problem.passed()
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from logging import Logger

from airflow_snowpack.errors import SnowpackError, error_text

LOG_INTERVAL = timedelta(seconds=30)


class Recurring:
    """The recurring problem of one loop. Errors of the package are logged in one line, others with their stack trace.

    :param every: the time between two lines.
    :param monotonic: seconds.
    """

    def __init__(self, log: Logger, *, every: timedelta = LOG_INTERVAL, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._every_s = every.total_seconds()
        self._monotonic = monotonic
        self._what = ""
        self._failures = 0
        self._unlogged = 0
        self._began = self._logged_at = 0.0

    def failed(self, error: BaseException, message: str, *arguments: object) -> None:
        """Record a failure, and log it with this message unless one was logged less than ``every`` ago."""
        now, self._what = self._monotonic(), message % arguments
        if not self._failures:
            self._began = now
        elif now - self._logged_at < self._every_s:
            self._failures, self._unlogged = self._failures + 1, self._unlogged + 1
            return
        more = f" ({self._unlogged} more failures since the last line)" if self._unlogged else ""
        self._failures, self._unlogged, self._logged_at = self._failures + 1, 0, now
        text = " ".join(f"{type(error).__name__}: {error_text(error)}".split())
        trace = None if isinstance(error, SnowpackError) else error
        self._log.warning("%s: %s%s", self._what, text, more, exc_info=trace)

    def passed(self) -> None:
        """Record a success; the first one after failures is logged."""
        if self._failures:
            period = timedelta(seconds=round(self._monotonic() - self._began))
            times = "1 failure" if self._failures == 1 else f"{self._failures} failures"
            self._log.info("recovered after %s in %s: %s", times, period, self._what)
            self._failures = self._unlogged = 0
