"""What a command's exit code means: one table for all commands, the one that ``docs/cli.md`` shows.

The invariant: a code tells a script what to do next. 5 and 6 may be over at the next try, 1, 2 and 4 are not, and 3 is about the
job and not about the command.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind

if TYPE_CHECKING:
    from airflow_snowpack.errors import SnowpackError


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    JOB_FAILED = 3
    NOT_FOUND = 4
    TRY_LATER = 5
    UNREACHABLE = 6
    TIMEOUT = 124
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """For people, as the page on the command line has it."""
        return MEANINGS[self]


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.REFUSED: "refused or failed; the same command again ends the same way",
    ExitCode.USAGE: "an argument that cannot be used, or a question that nobody was there to answer (give `--yes`)",
    ExitCode.JOB_FAILED: "the job that was watched failed or was cancelled",
    ExitCode.NOT_FOUND: "there is no such job, table, schedule, dataset or run",
    ExitCode.TRY_LATER: "the table or the dataset is held, drain mode is on, or the store needed too long: try again later",
    ExitCode.UNREACHABLE: "the store, the catalog, Airflow or the storage of builds does not answer: try again later",
    ExitCode.TIMEOUT: "the time of `--timeout` was up; the job goes on",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}


CODES = {
    Kind.INVALID: ExitCode.USAGE,
    Kind.NOT_FOUND: ExitCode.NOT_FOUND,
    Kind.CONFLICT: ExitCode.TRY_LATER,
    Kind.REFUSED: ExitCode.REFUSED,
    Kind.FORBIDDEN: ExitCode.REFUSED,
    Kind.UNAVAILABLE: ExitCode.UNREACHABLE,
    Kind.DAMAGED: ExitCode.REFUSED,
    Kind.MISCONFIGURED: ExitCode.REFUSED,
    Kind.FAILED: ExitCode.REFUSED,
}


def code_of(problem: SnowpackError) -> ExitCode:
    """Return the exit code of a command that ends with this error."""
    from airflow_snowpack.jobs.errors import DrainModeOn
    from airflow_snowpack.store.errors import StoreTooSlow

    # The store answers, and does not accept or finish the command for now.
    return ExitCode.TRY_LATER if isinstance(problem, DrainModeOn | StoreTooSlow) else CODES[problem.kind]


def common_code(codes: list[ExitCode]) -> ExitCode:
    """The one code of several: theirs when they agree, apart from those that went well; otherwise refused."""
    bad = {code for code in codes if code is not ExitCode.DONE}
    if not bad:
        return ExitCode.DONE
    return bad.pop() if len(bad) == 1 else ExitCode.REFUSED
