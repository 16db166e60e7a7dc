"""Which database errors are retried, and for how long.

Only whole transactions are repeated. A commit whose answer was lost may have happened, so everything that the store repeats is
written to recognise its own earlier effect (by job id or attempt id).
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

# Serialisation failure, deadlock, lock not available, too many connections, and the server going down or coming up.
CONTENTION = frozenset({"40001", "40P01", "55P03"})
TRANSIENT_SQLSTATES = CONTENTION | {"53300", "57P01", "57P02", "57P03"}
CONNECTION_CLASS = "08"
STATEMENT_CANCELLED = "57014"
DISK_FULL = "53100"
SQLITE_TRANSIENT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
# The file cannot be opened or is no database, or its disk is full, read-only or broken.
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
    """Return whether the same transaction may succeed a moment later."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in SQLITE_TRANSIENT
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return isinstance(error, OperationalError)  # psycopg gives no state when it could not connect
    return state in TRANSIENT_SQLSTATES or state.startswith(CONNECTION_CLASS)


def is_unusable(error: DBAPIError) -> bool:
    """Return whether the embedded file itself is unusable, which no retry within seconds fixes."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in SQLITE_UNUSABLE


def is_disk_full(error: DBAPIError) -> bool:
    """Return whether the database has no space left on its disk."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    is_full = code is not None and code & 0xFF == sqlite3.SQLITE_FULL
    return is_full or getattr(error.orig, "sqlstate", None) == DISK_FULL


def is_too_slow(error: DBAPIError) -> bool:
    """Return whether the database ended the statement because it took too long."""
    interrupted = getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
    return interrupted or getattr(error.orig, "sqlstate", None) == STATEMENT_CANCELLED


def is_away(error: DBAPIError) -> bool:
    """Return whether a transient error means that the database does not answer, and not that it was busy."""
    in_the_way = isinstance(error.orig, sqlite3.Error) or getattr(error.orig, "sqlstate", None) in CONTENTION
    return is_transient(error) and not in_the_way


def retrying(sleep: Callable[[float], None] = time.sleep, until: float = math.inf) -> tenacity.Retrying:
    """The policy: :data:`TRIES` tries, waiting 0.1 s at first and up to 2 s, a little at random; about 5 s in all.

    :param until: no try starts after this moment of the monotonic clock.
    """

    def is_over(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= TRIES or time.monotonic() + state.upcoming_sleep >= until

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        stop=is_over,
        wait=tenacity.wait_exponential_jitter(multiplier=0.1, max=2.0, jitter=0.2),
        sleep=sleep,
        reraise=True,
    )


def repeatable(
    step: Callable[[sa.Connection], T], own_effect: Callable[[sa.Connection], T | None]
) -> Callable[[sa.Connection], T]:
    """The step, such that a repeat of it first looks whether the try before went through although its answer was lost.

    :param own_effect: finds what only this very step can have written; nothing (falsy) when it is not there.
    """
    tries = 0

    def once(conn: sa.Connection) -> T:
        nonlocal tries
        tries += 1
        before = own_effect(conn) if tries > 1 else None
        return before or step(conn)

    return once
