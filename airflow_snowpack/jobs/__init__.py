"""The job lifecycle: submit, claim, heartbeat, finish, cancel, delete, sweep and drain, and the worker that goes through it."""

from airflow_snowpack.jobs.attempt import Attempt
from airflow_snowpack.jobs.errors import (
    DrainModeOn,
    InvalidKey,
    JobAlreadyFinished,
    JobError,
    JobNotFound,
    JobStillActive,
    KeyUsedBefore,
    LeaseRanOut,
    LockInUse,
    NotTheOwner,
    StaleAttempt,
    TableLocked,
    WorkStillRunning,
)
from airflow_snowpack.jobs.explanation import TableExplanation, explain, explain_tables
from airflow_snowpack.jobs.idempotency import RequestKey, Submission
from airflow_snowpack.jobs.listing import MAX_EXAMINED, JobCounts, JobFilter, JobPage
from airflow_snowpack.jobs.locks import TableLocks
from airflow_snowpack.jobs.manager import Jobs
from airflow_snowpack.jobs.model import (
    ActionOutcome,
    ActionResult,
    Claim,
    DrainState,
    Engine,
    HistoryEntry,
    Job,
    JobStatus,
    LifecyclePolicy,
    QueuePlace,
    QueueSample,
    QueueState,
    SweepReport,
    TableLock,
)
from airflow_snowpack.jobs.rescuer import Orphans
from airflow_snowpack.jobs.worker import JobWorker
from airflow_snowpack.store import Actor, AuditEntry, AuditTrail, InvalidCursor

__all__ = [
    "MAX_EXAMINED",
    "ActionOutcome",
    "ActionResult",
    "Actor",
    "Attempt",
    "AuditEntry",
    "AuditTrail",
    "Claim",
    "DrainModeOn",
    "DrainState",
    "Engine",
    "HistoryEntry",
    "InvalidCursor",
    "InvalidKey",
    "Job",
    "JobAlreadyFinished",
    "JobCounts",
    "JobError",
    "JobFilter",
    "JobNotFound",
    "JobPage",
    "JobStatus",
    "JobStillActive",
    "JobWorker",
    "Jobs",
    "KeyUsedBefore",
    "LeaseRanOut",
    "LifecyclePolicy",
    "LockInUse",
    "NotTheOwner",
    "Orphans",
    "QueuePlace",
    "QueueSample",
    "QueueState",
    "RequestKey",
    "StaleAttempt",
    "Submission",
    "SweepReport",
    "TableExplanation",
    "TableLock",
    "TableLocked",
    "TableLocks",
    "WorkStillRunning",
    "explain",
    "explain_tables",
]
