"""What a command's exit code means: one table for all commands, the one that ``docs/cli.md`` shows.

The invariant: a code tells a script what to do next. 5 and 6 may be over at the next try, 1, 2 and 4 are not, and 3 is about the
job and not about the command.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

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


def code_of(problem: SnowpackError) -> ExitCode:
    """The code of a problem that a command ends with."""
    codes = _codes()
    return next((codes[kind] for kind in type(problem).__mro__ if kind in codes), ExitCode.REFUSED)


def common_code(codes: list[ExitCode]) -> ExitCode:
    """The one code of several: theirs when they agree, apart from those that went well; otherwise refused."""
    bad = {code for code in codes if code is not ExitCode.DONE}
    if not bad:
        return ExitCode.DONE
    return bad.pop() if len(bad) == 1 else ExitCode.REFUSED


def _codes() -> dict[type, ExitCode]:
    # Imported here: the rooms are there by the time that one of their errors is.
    from airflow_snowpack.builds import errors as builds
    from airflow_snowpack.cli import errors as cli
    from airflow_snowpack.hooks import errors as hooks
    from airflow_snowpack.iceberg import errors as iceberg
    from airflow_snowpack.interim import errors as interim
    from airflow_snowpack.jobs import errors as jobs
    from airflow_snowpack.maintenance import errors as maintenance
    from airflow_snowpack.scheduling import errors as scheduling
    from airflow_snowpack.store import errors as store

    return {
        cli.UsageProblem: ExitCode.USAGE,
        builds.InvalidBuild: ExitCode.USAGE,
        builds.DatasetNotFound: ExitCode.NOT_FOUND,
        builds.BuildNotFound: ExitCode.NOT_FOUND,
        builds.DatasetBusy: ExitCode.TRY_LATER,
        builds.StorageFailed: ExitCode.UNREACHABLE,
        builds.PointerMoved: ExitCode.REFUSED,
        builds.PublishFailed: ExitCode.UNREACHABLE,
        iceberg.InvalidTableName: ExitCode.USAGE,
        interim.InvalidInterimCursor: ExitCode.USAGE,
        interim.InterimTableNotFound: ExitCode.NOT_FOUND,
        interim.InterimTableInUse: ExitCode.TRY_LATER,
        interim.InterimTableNotStuck: ExitCode.TRY_LATER,
        hooks.AirflowUnreachable: ExitCode.UNREACHABLE,
        hooks.InvalidRetention: ExitCode.USAGE,
        store.InvalidCursor: ExitCode.USAGE,
        jobs.InvalidKey: ExitCode.USAGE,
        maintenance.InvalidOption: ExitCode.USAGE,
        maintenance.NoActions: ExitCode.USAGE,
        maintenance.UnknownAction: ExitCode.USAGE,
        scheduling.InvalidSchedule: ExitCode.USAGE,
        scheduling.InvalidEvent: ExitCode.USAGE,
        scheduling.ScheduleNotFound: ExitCode.NOT_FOUND,
        scheduling.RunNotFound: ExitCode.NOT_FOUND,
        jobs.JobNotFound: ExitCode.NOT_FOUND,
        iceberg.TableNotFound: ExitCode.NOT_FOUND,
        jobs.TableLocked: ExitCode.TRY_LATER,
        jobs.LockInUse: ExitCode.TRY_LATER,
        jobs.DrainModeOn: ExitCode.TRY_LATER,
        store.StoreTooSlow: ExitCode.TRY_LATER,
        store.StoreUnreachable: ExitCode.UNREACHABLE,
        iceberg.CatalogUnreachable: ExitCode.UNREACHABLE,
        iceberg.TableUnreadable: ExitCode.UNREACHABLE,
    }
