"""Errors of the functions with which users map or reduce rows.

Invariant: an error that a Spark task raises fits on one line, because it comes back as a line of the task's traceback.
:func:`function_failure` turns that line into the error again, with the traceback of the user's code as its note. A map is lazy:
its error is raised where the rows are read.

    try:
        df.write…
    except Exception as error:
        raise function_failure(error) or error
"""

from __future__ import annotations

import re

from airflow_snowpack.errors import Kind
from airflow_snowpack.interim.errors import InterimError

MAX_ROW_LENGTH = 500
MAX_CAUSE_LENGTH = 1000


class FunctionError(InterimError, kind=Kind.FAILED):
    """Base class of the errors of functions that map or reduce rows."""


class UnusableFunction(FunctionError, kind=Kind.INVALID):
    """The function cannot be sent to Spark."""

    def __init__(self, name: str, problem: object) -> None:
        super().__init__(
            f"The function {name} cannot be sent to Spark: {_one_line(problem, MAX_CAUSE_LENGTH)}. Everything that "
            "it refers to is pickled with it; create connections, locks and sessions inside the function."
        )


class InvalidColumns(FunctionError, kind=Kind.INVALID):
    """Invalid columns."""

    def __init__(self, what: object, problem: str) -> None:
        super().__init__(f"The columns {what!s:.500} are not usable: {problem.rstrip('.')}.")


class InvalidReduction(FunctionError, kind=Kind.INVALID):
    """Invalid reduction."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class WrongRows(FunctionError, kind=Kind.FAILED):
    """Spark read other rows than were counted."""

    @classmethod
    def at(cls, where: str, planned: object, found: object) -> WrongRows:
        """Return the error of a part of a reduction, ``where``, that read other rows than planned."""
        return cls(
            f"Spark did not pass each row to the reduction exactly once: {where} should have {planned}, and has {found}. "
            "The reduction has no result; run it again."
        )


class FunctionFailed(FunctionError, kind=Kind.FAILED):
    """The function failed on a row."""

    @classmethod
    def at(cls, function: str, partition: int, place: str, cause: object, row: object = None) -> FunctionFailed:
        """Return the error of a function.

        :param function: its name.
        :param partition: the number of Spark's partition.
        :param place: in the partition: ``row 17``, ``batch 2, after 20000 rows``, or the rows of a group in a layer.
        :param cause: the error's class and message, or what is wrong with the returned value.
        :param row: the function's input, shown as far as it fits.
        """
        shown = "" if row is None else f"; its input was {_one_line(repr(row), MAX_ROW_LENGTH)}"
        detail = f"{_one_line(cause, MAX_CAUSE_LENGTH)}{shown}"
        return cls(f"The function {_one_line(function, 200)} failed in partition {partition} at {place}: {detail}")


def cause_of(error: BaseException) -> str:
    message = str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def function_failure(error: BaseException) -> FunctionError | None:
    """Return the error of this room that a Spark task raised, from Spark's report of it; ``None`` for any other error."""
    seen: BaseException | None = error
    for _ in range(20):
        if seen is None:
            return None
        if isinstance(seen, FunctionError):
            return seen
        found = RAISED.search(str(seen))
        if found:
            ours = KINDS[found["kind"]](found["message"].rstrip())
            if found["note"]:
                ours.add_note(found["note"])
            return ours
        seen = seen.__cause__
    return None


def _one_line(value: object, most: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


KINDS: dict[str, type[WrongRows] | type[FunctionFailed]] = {"WrongRows": WrongRows, "FunctionFailed": FunctionFailed}
# The note, the traceback of the user's code, follows; and after it, or immediately, a line of Java's, or nothing.
RAISED = re.compile(
    rf"{re.escape(__name__)}\.(?P<kind>{'|'.join(KINDS)}): (?P<message>.+)(?:\n(?P<note>Traceback[\s\S]+?)(?=\n\n|\Z))?"
)
