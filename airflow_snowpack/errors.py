"""The root of every error that this package raises, and what kind of problem each one is.

    class TableLocked(JobError, kind=Kind.CONFLICT):
        \"""The table is locked.\"""

A class names its kind; a class without one cannot be defined. The HTTP status (``api/problems.py``), the exit code
(``exit_code.py``) and whether Airflow retries the task (``operators/base.py``) follow from the kind.

The first line of a class's docstring is the title of its problem document. A message has the value, the rule and the way out.
``docs/errors.md`` lists all classes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar


class Kind(Enum):
    """What went wrong, from the caller's point of view."""

    INVALID = "The arguments cannot be used. Correct them."
    NOT_FOUND = "The object does not exist or was deleted."
    CONFLICT = "Another process uses the object right now. Try again later."
    REFUSED = "The state of the object does not allow it, and a repetition does not change that."
    FORBIDDEN = "The user is not authenticated or lacks the permission."
    UNAVAILABLE = "A service that is needed does not answer, or accepts no work right now. Try again later."
    DAMAGED = "Stored data is incomplete, or is not what was written."
    MISCONFIGURED = "A setting, a connection or the environment cannot be used. An operator has to correct it."
    FAILED = "The work failed, in a way that waiting alone does not fix. Another attempt, or another host, may succeed."


class SnowpackError(Exception):
    """Base class of every error that the package raises on purpose.

    :cvar kind: what kind of problem the error is.
    """

    kind: ClassVar[Kind] = Kind.FAILED

    def __init_subclass__(cls, *, kind: Kind, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.kind = kind


def error_text(error: BaseException) -> str:
    """Return the text of an exception, also if its class is of other code and fails to show it."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - another package's ``__str__`` may raise anything
        return f"its text cannot be shown ({type(failure).__name__})"
