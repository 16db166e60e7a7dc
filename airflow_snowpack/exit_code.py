"""The exit codes of all commands, as ``docs/cli.md`` lists them.

The invariant: a code decides what a script does next. After 5 and 6 the same command may succeed later, after 1, 2 and 4 it will
not; 3 reports the job, not the command.
"""

from __future__ import annotations

from enum import IntEnum

from airflow_snowpack.errors import Kind, SnowpackError


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
        """The meaning, for people and for the documentation."""
        return MEANINGS[self]


MEANINGS = {
    ExitCode.DONE: "success",
    ExitCode.REFUSED: "refused or failed; repeating the command does not help",
    ExitCode.USAGE: "invalid arguments, or a prompt without a terminal (pass `--yes`)",
    ExitCode.JOB_FAILED: "the watched job failed or was cancelled",
    ExitCode.NOT_FOUND: "no such job, table, schedule, dataset, run or image",
    ExitCode.TRY_LATER: "the table or dataset is locked, drain mode is on, or the store took too long: try again later",
    ExitCode.UNREACHABLE: "the store, catalog, Airflow or storage of builds does not answer, or the store needs an upgrade",
    ExitCode.TIMEOUT: "`--timeout` has elapsed; the job continues",
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

    # The store answers, but does not accept or finish the command now.
    return ExitCode.TRY_LATER if isinstance(problem, DrainModeOn | StoreTooSlow) else CODES[problem.kind]


def common_code(codes: list[ExitCode]) -> ExitCode:
    """Return the code that all failures share; ``REFUSED`` if they differ."""
    bad = {code for code in codes if code is not ExitCode.DONE}
    if not bad:
        return ExitCode.DONE
    return bad.pop() if len(bad) == 1 else ExitCode.REFUSED
