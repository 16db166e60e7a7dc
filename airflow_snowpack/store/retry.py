"""Which database errors are retried, and for how long.

Only whole transactions are repeated. A commit whose answer was lost may have succeeded, so everything that the store repeats
recognises its earlier effect (by job id or attempt id).
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
import tenacity
from sqlalchemy.exc import DBAPIError, OperationalError

T = TypeVar("T")

# Serialization failure, deadlock, lock not available, too many connections, and server shutdown or start-up.
CONTENTION = frozenset({"40001", "40P01", "55P03"})
TRANSIENT_SQLSTATES = CONTENTION | {"53300", "57P01", "57P02", "57P03"}
CONNECTION_CLASS = "08"
STATEMENT_CANCELLED = "57014"
DISK_FULL = "53100"
SQLITE_TRANSIENT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The file cannot be opened or is no database, or its disk is full, read-only or failing.
SQLITE_UNUSABLE = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
    }
)

TRIES = 6


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed when repeated."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    code, state = _codes(error)
    if isinstance(error.orig, sqlite3.Error):
        return code in SQLITE_TRANSIENT
    if state is None:
        return isinstance(error, OperationalError)  # psycopg sets no SQLSTATE when it could not connect
    return state in TRANSIENT_SQLSTATES or state.startswith(CONNECTION_CLASS)


def is_unusable(error: DBAPIError) -> bool:
    """Return whether the embedded file itself is unusable, which retries within seconds do not fix."""
    return _codes(error)[0] in SQLITE_UNUSABLE


def is_disk_full(error: DBAPIError) -> bool:
    return _codes(error) in ((sqlite3.SQLITE_FULL, None), (None, DISK_FULL))


def is_too_slow(error: DBAPIError) -> bool:
    """Return whether the database ended the statement because it took too long."""
    return _codes(error) in ((sqlite3.SQLITE_INTERRUPT, None), (None, STATEMENT_CANCELLED))


def is_away(error: DBAPIError) -> bool:
    """Return whether a transient error means that the database does not answer, rather than that it is busy."""
    in_the_way = isinstance(error.orig, sqlite3.Error) or _codes(error)[1] in CONTENTION
    return is_transient(error) and not in_the_way


def _codes(error: DBAPIError) -> tuple[int | None, str | None]:
    """Return SQLite's primary result code and Postgres's SQLSTATE, each ``None`` if the driver set none."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF, getattr(error.orig, "sqlstate", None)


def retrying(sleep: Callable[[float], None] = time.sleep, until: float = math.inf) -> tenacity.Retrying:
    """Return the retry policy: :data:`TRIES` tries with jittered waits from 0.1 s to 2 s, about 5 s in all.

    :param until: no try starts after this time of the monotonic clock.
    """

    def is_over(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= TRIES or time.monotonic() + state.upcoming_sleep >= until

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        stop=is_over,
        wait=tenacity.wait_exponential(multiplier=0.1, max=1.8) + tenacity.wait_random(0, 0.2),
        sleep=sleep,
        reraise=True,
    )


def repeatable(
    step: Callable[[sa.Connection], T], own_effect: Callable[[sa.Connection], T | None]
) -> Callable[[sa.Connection], T]:
    """Return the step with a check that, on a repeat, returns the effect of a try whose answer was lost.

    :param own_effect: finds what only this step can have written; falsy if there is nothing.
    """
    tries = 0

    def once(conn: sa.Connection) -> T:
        nonlocal tries
        tries += 1
        before = own_effect(conn) if tries > 1 else None
        return before or step(conn)

    return once
