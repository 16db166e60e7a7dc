"""Errors of the functions that users map or reduce rows with.

The invariant: an error that a Spark task raised fits on one line, since it comes back as a line of the task's traceback.
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

MOST_OF_A_ROW = 500
MOST_OF_A_CAUSE = 1000


class FunctionError(InterimError, kind=Kind.FAILED):
    """Base class of the errors of functions that map or reduce rows."""


class UnusableFunction(FunctionError, kind=Kind.INVALID):
    """The function cannot be sent to Spark."""

    def __init__(self, name: str, problem: object) -> None:
        super().__init__(
            f"The function {name} cannot be sent to Spark: {_one_line(problem, MOST_OF_A_CAUSE)}. What it uses of its "
            "surroundings travels along; make connections, locks and sessions inside of it."
        )


class InvalidColumns(FunctionError, kind=Kind.INVALID):
    """Invalid columns."""

    def __init__(self, what: object, problem: str) -> None:
        super().__init__(f"The columns {what!s:.500} are not usable: {problem.rstrip('.')}.")


class InvalidReduction(FunctionError, kind=Kind.INVALID):
    """Invalid reduction.

    :ivar field: the parameter that is to blame.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class WrongRows(FunctionError, kind=Kind.FAILED):
    """Spark read other rows than were counted."""

    @classmethod
    def at(cls, where: str, planned: object, found: object) -> WrongRows:
        """:param where: the part of the reduction that met them."""
        return cls(
            f"Spark did not give the reduction each row exactly once: {where} should have {planned}, and has {found}. "
            "Nothing came of it; run it again."
        )


class FunctionFailed(FunctionError, kind=Kind.FAILED):
    """The function failed on a row.

    :ivar function: its name.
    :ivar partition: the number of Spark's partition.
    :ivar place: where in the partition: ``row 17``, ``batch 2 (rows from 20000)``, or the rows of a group in a layer.
    :ivar cause: the error's class and message, or what was wrong with what it gave.
    """

    _TOLD = re.compile(r"The function (?P<function>.+?) failed in partition (?P<partition>\d+) at (?P<place>.+?): (?P<cause>.*)")

    def __init__(self, told: str) -> None:
        super().__init__(told)
        found = self._TOLD.match(told)
        assert found is not None, told
        self.function, self.place = found["function"], found["place"]
        self.partition = int(found["partition"])
        self.cause = found["cause"]

    @classmethod
    def at(cls, function: str, partition: int, place: str, cause: object, met: object = None) -> FunctionFailed:
        """:param met: the row that it had, shown as far as a line allows."""
        shown = "" if met is None else f"; it had {_one_line(repr(met), MOST_OF_A_ROW)}"
        told = f"{_one_line(cause, MOST_OF_A_CAUSE)}{shown}"
        return cls(f"The function {_one_line(function, 200)} failed in partition {partition} at {place}: {told}")


def cause_of(error: BaseException) -> str:
    """An error's class and message, as a cause."""
    said = str(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def function_failure(error: BaseException) -> FunctionError | None:
    """The error that one of these functions raised in a Spark task, found in what Spark says of it; ``None`` for any other."""
    seen: BaseException | None = error
    for _ in range(20):
        if seen is None:
            return None
        if isinstance(seen, FunctionError):
            return seen
        found = RAISED.search(str(seen))
        if found:
            ours = KINDS[found["kind"]](found["told"].rstrip())
            if found["note"]:
                ours.add_note(found["note"])
            return ours
        seen = seen.__cause__
    return None


def _one_line(value: object, most: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[:most]}…"


KINDS: dict[str, type[WrongRows] | type[FunctionFailed]] = {"WrongRows": WrongRows, "FunctionFailed": FunctionFailed}
# After it stands its note, the traceback of the user's code; and after that, or at once, a line that Java wrote, or none.
RAISED = re.compile(
    rf"{re.escape(__name__)}\.(?P<kind>{'|'.join(KINDS)}): (?P<told>.+)(?:\n(?P<note>Traceback[\s\S]+?)(?=\n\n|\Z))?"
)
