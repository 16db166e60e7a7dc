"""Support for Airflow's "test connection": a time limit, and messages without secrets.

    call_with_timeout(lambda: catalog.list_namespaces(), "The catalog")     # NoAnswer after ten seconds

Airflow runs the test in a thread of its API server, and PyIceberg has no time-out for REST catalogs.
"""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

TIMEOUT = timedelta(seconds=10)
OPTION = re.compile(r"\[([a-z_]+)\] ([a-z_]+)")
MARKUP = re.compile(r"\[([a-zA-Z#/@][^\[\]]*)\]")


class NoAnswer(SnowpackError, kind=Kind.UNAVAILABLE):
    """No answer in time."""

    def __init__(self, what: str, timeout: timedelta) -> None:
        super().__init__(
            f"{what} did not answer within {timeout.total_seconds():.0f} seconds. Check the address and the network."
        )


def call_with_timeout(call: Callable[[], T], what: str, timeout: timedelta = TIMEOUT) -> T:
    """Make a call that may hang. A call that hangs stays behind in a daemon thread.

    :param what: names the called service in messages.
    :raises NoAnswer: the call took longer than the time-out.
    """
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as failure:  # noqa: BLE001 - raised again below, in the calling thread
            failures.append(failure)

    thread = threading.Thread(target=run, name="snowpack-test-connection", daemon=True)
    thread.start()
    thread.join(timeout.total_seconds())
    if failures:
        raise failures[0]
    if not answers:
        raise NoAnswer(what, timeout)
    return answers[0]


def message_of(problem: Exception) -> str:
    """Return the message of the package's own errors; class and first line of others."""
    if isinstance(problem, SnowpackError):
        return str(problem)
    first = (str(problem).splitlines() or [""])[0]
    return f"{type(problem).__name__}: {first}"


def public_message(problem: Exception, secrets: Iterable[str | None] = ()) -> str:
    """Return the message of a connection test, without secrets and without Rich markup.

    `airflow connections test` prints it as Rich markup, which drops ``[snowpack]`` and fails on ``[/path]``. Airflow's UI shows
    the same message unchanged, so brackets are replaced, not escaped.
    """
    return MARKUP.sub(r"(\1)", OPTION.sub(r"\1.\2", redacted(message_of(problem), secrets)))
