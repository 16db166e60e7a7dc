"""Errors of entries and runners."""

from __future__ import annotations

import signal

from airflow_snowpack.errors import Kind, SnowpackError

PYTHON = "python3"
"""The interpreter of functions in an image. Images of distributions have no ``python``, and virtual environments have both."""


class EntryError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of entries."""


class InvalidEntry(EntryError, kind=Kind.INVALID):
    """Invalid declaration of an entry."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} = {value!r:.200} is not usable: {problem.rstrip('.')}.")


class EntryNotStarted(EntryError, kind=Kind.MISCONFIGURED):
    """The entry could not be started."""

    def __init__(self, program: str, problem: str) -> None:
        advice = " Pass the path of the image's interpreter to the task: python='/…'." if program == PYTHON else ""
        super().__init__(f"The program {program!r:.200} could not be started: {problem.rstrip('.')}.{advice}")


class FunctionNotFound(EntryError, kind=Kind.MISCONFIGURED):
    """The function of a module entry was not found where the entry runs."""

    def __init__(self, function: str, problem: str) -> None:
        super().__init__(
            f"The function {function!r} was not found where the entry runs: {problem.rstrip('.')}. Install its module in the "
            "image, or in the worker's environment for the runner 'subprocess'."
        )


class EntryFailed(EntryError, kind=Kind.FAILED):
    """The entry ended with an error.

    :ivar exit_code: negative if a signal ended it.
    """

    def __init__(self, exit_code: int, advice: str = "Its output in the task log shows the reason.") -> None:
        self.exit_code = exit_code
        super().__init__(f"The entry ended {ending(exit_code)}. {advice}")


class EntryRaised(EntryError, kind=Kind.FAILED):
    """The function of a module entry raised an error.

    :ivar error_class: the full name of the class, such as ``builtins.ValueError``.
    :ivar error_text: the text of the error.
    """

    def __init__(self, function: str, error_class: str, error_text: str) -> None:
        self.error_class, self.error_text = error_class, error_text
        name = error_class.removeprefix("builtins.")
        super().__init__(f"The function {function!r} raised {name}: {error_text:.1000}. The task log shows the traceback.")


class EntryCancelled(EntryError, kind=Kind.FAILED):
    """The entry was stopped with its task."""

    def __init__(self) -> None:
        super().__init__("The entry was stopped, since its task was cancelled, killed or ran out of time.")


class UnusableInput(EntryError, kind=Kind.INVALID):
    """An argument or a table cannot be passed to the entry."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"This cannot be passed to the entry: {problem.rstrip('.')}.")


class LibraryMissing(EntryError, kind=Kind.MISCONFIGURED):
    """A library is not installed where the entry runs."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The entry has tables, and {problem.rstrip('.')}. Install it in the image.")


class UnusableResult(EntryError, kind=Kind.INVALID):
    """The result of a module entry cannot be passed to the task."""

    def __init__(self, function: str, problem: str) -> None:
        super().__init__(
            f"The result of {function!r} cannot be passed to the task: {problem.rstrip('.')}. Return JSON values, tables of "
            "Arrow, pandas or Polars, or lists and dictionaries of these."
        )


class ResultMissing(EntryError, kind=Kind.FAILED):
    """The entry ended without a result, or with an unreadable one."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The entry ended successfully without a usable result: {problem.rstrip('.')}.")


class OutputMissing(EntryError, kind=Kind.FAILED):
    """A declared output was not written."""

    def __init__(self, name: str, found: list[str]) -> None:
        there = f"It contains {', '.join(found[:10])}" if found else "It is empty"
        super().__init__(
            f"The entry has not written its output {name!r}: neither the file outputs/{name}.parquet nor Parquet files in "
            f"outputs/{name}/ exist. {there}. The placeholder {{outputs}} in the command is the path of that folder."
        )


class UnusableOutputFile(EntryError, kind=Kind.INVALID):
    """An output cannot be read as Parquet."""

    def __init__(self, path: str, problem: object) -> None:
        reason = (str(problem).splitlines() or [""])[0].rstrip(".")
        super().__init__(f"The output file {path} cannot be used: {reason}. Write regular Parquet files with one schema.")


class ExchangeFolderUnusable(EntryError, kind=Kind.MISCONFIGURED):
    """The folder that tasks and entries share cannot be used."""

    def __init__(self, folder: object, problem: object) -> None:
        super().__init__(
            f"The folder {str(folder)!r} for the exchange with entries cannot be used: {problem}. Set [snowpack] runner_folder "
            "to a folder that the worker can write to."
        )


def ending(exit_code: int) -> str:
    """Describe how a process ended: ``with exit code 3``, ``by the signal SIGKILL``, ``with exit code 137 (SIGKILL)``."""
    if exit_code < 0:
        return f"by the signal {_signal(-exit_code)}"
    # A container, like a shell, reports a signal as 128 plus its number.
    return f"with exit code {exit_code}" + (f" ({_signal(exit_code - 128)})" if 128 < exit_code <= 128 + 31 else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
