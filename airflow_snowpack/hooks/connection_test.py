"""What "test connection" needs: an end to the wait, and no secret in what it says.

    call_with_timeout(lambda: catalog.list_namespaces(), "The catalog")     # NoAnswer after ten seconds

Airflow runs the test in a thread of its API server, and PyIceberg waits for a REST catalog without end.
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

PATIENCE = timedelta(seconds=10)
OPTION = re.compile(r"\[([a-z_]+)\] ([a-z_]+)")
MARKUP = re.compile(r"\[([a-zA-Z#/@][^\[\]]*)\]")


class NoAnswer(SnowpackError, kind=Kind.UNAVAILABLE):
    """No answer in time."""

    def __init__(self, who: str, patience: timedelta) -> None:
        super().__init__(
            f"{who} did not answer within {patience.total_seconds():.0f} seconds. "
            "Check the address, and that the way there is open."
        )


def call_with_timeout(question: Callable[[], T], who: str, patience: timedelta = PATIENCE) -> T:
    """Ask something that may hang. A question that hangs is left to a thread that nobody waits for, not even at the end.

    :raises NoAnswer: it took too long.
    """
    answers: list[T] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as failure:  # noqa: BLE001 - raised again below, in the thread that asked
            failures.append(failure)

    asking = threading.Thread(target=ask, name="snowpack-test-connection", daemon=True)
    asking.start()
    asking.join(patience.total_seconds())
    if failures:
        raise failures[0]
    if not answers:
        raise NoAnswer(who, patience)
    return answers[0]


def message_of(problem: Exception) -> str:
    """What our own errors say; of others the kind and the first line."""
    if isinstance(problem, SnowpackError):
        return str(problem)
    first = (str(problem).splitlines() or [""])[0]
    return f"{type(problem).__name__}: {first}"


def public_message(problem: Exception, secrets: Iterable[str | None] = ()) -> str:
    """Return what a connection test reports about a problem: without secrets, and without Rich markup.

    `airflow connections test` prints the message as Rich markup, which drops ``[snowpack]`` and fails on ``[/path]``. Airflow's
    UI shows the same message as it is, so brackets are replaced and not escaped.
    """
    return MARKUP.sub(r"(\1)", OPTION.sub(r"\1.\2", redacted(message_of(problem), secrets)))
