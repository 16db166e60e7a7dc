"""The job lifecycle: submit, claim, heartbeat, finish, cancel, delete, sweep and drain, and the worker that goes through it."""

from airflow_snowpack.jobs.attempt import Attempt
from airflow_snowpack.jobs.engine import Engine
from airflow_snowpack.jobs.errors import (
    DrainModeOn,
    JobAlreadyFinished,
    JobError,
    JobNotFound,
    JobStillActive,
    NotTheOwner,
    StaleAttempt,
    TableLocked,
)
from airflow_snowpack.jobs.lifecycle import Jobs
from airflow_snowpack.jobs.locks import TableLocks
from airflow_snowpack.jobs.model import (
    ActionOutcome,
    ActionResult,
    Claim,
    DrainState,
    HistoryEntry,
    Job,
    JobStatus,
    LifecyclePolicy,
    SweepReport,
    TableLock,
)
from airflow_snowpack.jobs.worker import Worker

__all__ = [
    "ActionOutcome",
    "ActionResult",
    "Attempt",
    "Claim",
    "DrainModeOn",
    "DrainState",
    "Engine",
    "HistoryEntry",
    "Job",
    "JobAlreadyFinished",
    "JobError",
    "JobNotFound",
    "JobStatus",
    "JobStillActive",
    "Jobs",
    "LifecyclePolicy",
    "NotTheOwner",
    "StaleAttempt",
    "SweepReport",
    "TableLock",
    "TableLocked",
    "TableLocks",
    "Worker",
]
