"""Errors of jobs and locks."""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.jobs.model import DrainState, JobStatus, TableLock


class JobError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of jobs and locks."""


class TableLocked(JobError, kind=Kind.CONFLICT):
    """The table is locked.

    :ivar lock: who, since when and until when.
    :param waiting: the holder is a job that waits for a worker, and keeps the table for as long as it waits.
    :param left_on: the Spark server that may still work for the holder, a job that has ended.
    """

    def __init__(self, lock: TableLock, *, waiting: bool = False, left_on: str | None = None) -> None:
        self.lock = lock
        if left_on is not None:
            end = f"the job has ended, but what its worker left running on the Spark Connect server {left_on!r} may not have"
            way_out = "The next sweep that reaches the server ends it and frees the table; check that the server is up."
        elif waiting:
            end = f"its period ended {lock.expires_at.isoformat()}, and the job still waits for a worker"
            way_out = "Start a worker, or cancel the job."
        else:
            end = f"until {lock.expires_at.isoformat()} unless its holder renews the lock"
            way_out = "Wait for the holder, or cancel its job."
        super().__init__(
            f"The table {lock.table} is locked by {lock.holder} since {lock.acquired_at.isoformat()}; {end}. {way_out}"
        )


class DrainModeOn(JobError, kind=Kind.UNAVAILABLE):
    """Drain mode is on."""

    def __init__(self, state: DrainState) -> None:
        self.state = state
        since = f" since {state.since.isoformat()}" if state.since else ""
        by = f" by {state.by}" if state.by else ""
        reason = f" ({state.reason})" if state.reason else ""
        super().__init__(f"Drain mode is on{since}{by}{reason}: no maintenance is accepted. Submit again when it is off.")


class JobNotFound(JobError, kind=Kind.NOT_FOUND):
    """Job not found."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id[:80]!r}; it never existed or was deleted. List the jobs to find the right id.")


class JobAlreadyFinished(JobError, kind=Kind.REFUSED):
    """The job has already finished."""

    def __init__(self, job_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(f"The job {job_id} is already {status} and stays so. Submit a new job to maintain the table again.")


class JobStillActive(JobError, kind=Kind.REFUSED):
    """The job is still active."""

    def __init__(self, job_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(f"The job {job_id} is still {status}; only a finished job can be deleted. Cancel it first.")


class NotTheOwner(JobError, kind=Kind.CONFLICT):
    """The job belongs to another owner."""

    def __init__(self, job_id: str, owner: str, actual: str | None) -> None:
        super().__init__(
            f"The job {job_id} belongs to {actual or 'nobody'} and cannot be taken over by {owner}. "
            "Wait until its lease runs out and the sweep returns it, or cancel it."
        )


class StaleAttempt(JobError, kind=Kind.REFUSED):
    """Another attempt has replaced this one."""

    def __init__(self, job_id: str, attempt_id: str, status: JobStatus) -> None:
        self.status = status
        super().__init__(
            f"The attempt {attempt_id} of job {job_id} was replaced; the job is {status} now. "
            "Nothing of this attempt was recorded, and its Spark work was stopped."
        )


class LeaseRanOut(JobError, kind=Kind.UNAVAILABLE):
    """The job's lease expired while the store did not answer."""

    def __init__(self, job_id: str, attempt_id: str, lease_until: datetime) -> None:
        super().__init__(
            f"The lease of attempt {attempt_id} of job {job_id} ran out at {lease_until.isoformat()}, because the store did not "
            "answer for longer than the lease lasts. The Spark work was stopped and its end is not recorded; what it had "
            "committed until then stays. No other attempt has replaced it: a retry of the task, or the next sweep, continues."
        )


class WorkStillRunning(JobError, kind=Kind.CONFLICT):
    """An earlier attempt may still be running."""

    def __init__(self, job_id: str, server: str) -> None:
        super().__init__(
            f"What an attempt at job {job_id} left running on the Spark Connect server {server!r} may not have ended, and this "
            "process has no way to end it. Run the job where Airflow's connections can be read."
        )


class LockInUse(JobError, kind=Kind.CONFLICT):
    """The lock is in use."""

    def __init__(self, lock: TableLock, why: str, way_out: str) -> None:
        self.lock = lock
        super().__init__(f"The lock of {lock.table} is not released: {why}. {way_out}")


class InvalidKey(JobError, kind=Kind.INVALID):
    """Invalid idempotency key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key[:80]!r} is not usable: it must have 1 to 255 printable ASCII characters. Use a UUID."
        )


class KeyUsedBefore(JobError, kind=Kind.INVALID):
    """The idempotency key was used with another request."""

    def __init__(self, key: str, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"The idempotency key {key!r} came before with another request, which became job {job_id}. "
            "Use a new key for each request that is not a repetition."
        )
