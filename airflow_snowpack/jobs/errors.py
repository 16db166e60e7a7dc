"""Errors of jobs and locks."""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import timestamp
from airflow_snowpack.jobs.model import PRIORITIES, DrainState, JobStatus, TableLock

ENDED = {JobStatus.COMPLETED: "completed", JobStatus.FAILED: "failed", JobStatus.CANCELLED: "been cancelled"}


class JobError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of jobs and locks."""


class TableLocked(JobError, kind=Kind.CONFLICT):
    """The table is locked.

    :param waiting: the holder is a job that waits for a worker, and keeps the lock while it waits.
    :param left_on: the Spark server that may still work for the holder, a job that has ended.
    """

    def __init__(self, lock: TableLock, *, waiting: bool = False, left_on: str | None = None) -> None:
        self.lock = lock
        if left_on is not None:
            end = f"the job has ended, but its work on the Spark server {left_on!r} may still be running"
            way_out = "The next sweep that reaches the server ends it and unlocks the table; check that the server is up."
        elif waiting:
            end = f"the lock expired at {timestamp(lock.expires_at)}, and the job still waits for a worker"
            way_out = "Start a worker, or cancel the job."
        else:
            end = f"the lock expires at {timestamp(lock.expires_at)} unless its holder renews it"
            way_out = "Wait for the holder, or cancel its job."
        super().__init__(
            f"Table {lock.table} has been locked by {lock.holder} since {timestamp(lock.acquired_at)}; {end}. {way_out}"
        )


class DrainModeOn(JobError, kind=Kind.UNAVAILABLE):
    """Drain mode is on."""

    def __init__(self, state: DrainState, effect: str = "submissions are refused. Submit again when it is off.") -> None:
        self.state = state
        since = f" since {state.since.isoformat()}" if state.since else ""
        by = f" by {state.by}" if state.by else ""
        reason = f" ({state.reason})" if state.reason else ""
        super().__init__(f"Drain mode is on{since}{by}{reason}: {effect}")


class InvalidPriority(JobError, kind=Kind.INVALID):
    """A priority that a job cannot have."""

    def __init__(self, priority: int) -> None:
        allowed = f"between {PRIORITIES[0]} and {PRIORITIES[-1]}"
        super().__init__(f"Priority {priority} is not valid. It must be {allowed}; the highest runs first.")


class JobNotFound(JobError, kind=Kind.NOT_FOUND):
    """Job not found."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id[:80]!r} does not exist or was deleted. List the jobs to find its id.")


class JobAlreadyFinished(JobError, kind=Kind.REFUSED):
    """The job has already finished."""

    def __init__(self, job_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(f"Job {job_id} has already {ENDED[status]}. Re-run it, or submit a new job.")


class JobRunsInTask(JobError, kind=Kind.CONFLICT):
    """The task of a queued job has taken it over."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} runs in its own task and was not cancelled. End that task, or cancel the job itself.")


class JobStillActive(JobError, kind=Kind.REFUSED):
    """The job is still active."""

    def __init__(self, job_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(f"Job {job_id} is {status} and cannot be deleted. Cancel it first.")


class NotTheOwner(JobError, kind=Kind.CONFLICT):
    """The job belongs to another owner."""

    def __init__(self, job_id: str, owner: str, actual: str | None) -> None:
        super().__init__(
            f"Job {job_id} belongs to {actual or 'no owner'} and cannot be taken over by {owner}. "
            "Wait until its lease has run out and the sweep has requeued it, or cancel it."
        )


class StaleAttempt(JobError, kind=Kind.REFUSED):
    """Another attempt has replaced this one."""

    def __init__(self, job_id: str, attempt_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(
            f"Attempt {attempt_id} of job {job_id} was replaced; the job is {status} now. "
            "Its Spark work was stopped, and no result of it was recorded."
        )


class LeaseRanOut(JobError, kind=Kind.UNAVAILABLE):
    """The job's lease expired while the store did not answer."""

    def __init__(self, job_id: str, attempt_id: str, lease_until: datetime) -> None:
        super().__init__(
            f"The lease of attempt {attempt_id} of job {job_id} ran out at {lease_until.isoformat()}, because the store did not "
            "answer. The Spark work was stopped and its result is not recorded; what it had committed stays in the table. No "
            "other attempt has replaced it: a retry of the task or the next sweep continues the job."
        )


class WorkStillRunning(JobError, kind=Kind.CONFLICT):
    """An earlier attempt may still be running."""

    def __init__(self, job_id: str, server: str) -> None:
        super().__init__(
            f"An attempt at job {job_id} may still be running on the Spark server {server!r}, and this process cannot "
            "end it. Run the job in a process that can read Airflow's connections."
        )


class LockInUse(JobError, kind=Kind.CONFLICT):
    """The lock is in use."""

    def __init__(self, lock: TableLock, why: str, way_out: str) -> None:
        self.lock = lock
        super().__init__(f"The lock of {lock.table} was not released: {why}. {way_out}")


class InvalidKey(JobError, kind=Kind.INVALID):
    """Invalid idempotency key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key[:80]!r} is not valid: it must have 1 to 255 printable ASCII characters. Use a UUID."
        )


class KeyUsedBefore(JobError, kind=Kind.INVALID):
    """The idempotency key was used with another request."""

    def __init__(self, key: str, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"The idempotency key {key!r} was already used for another request, which became job {job_id}. "
            "Use a new key for each new request."
        )
