"""The values of the job lifecycle: jobs and their states, claims, and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.iceberg.names import TableName


PRIORITIES = range(-1000, 1001)
"""The priorities of a job: waiting jobs with the highest one run first. Schedules have the same range."""
DEFAULT_PRIORITY = 0


class JobStatus(StrEnum):
    """The state of a job. ``COMPLETED``, ``FAILED`` and ``CANCELLED`` are final."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})

# The states that may follow each state. RUNNING may follow itself: a take-over moves the fence while the job keeps running.
TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.PENDING: frozenset({JobStatus.RUNNING, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset(
        {JobStatus.RUNNING, JobStatus.PENDING, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.COMPLETED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}


class ActionOutcome(StrEnum):
    """How an action ended.

    ``PARTIAL``: some file groups were committed and some were not. ``CONFLICT``: a writer's commit won, and nothing of this
    action was committed. ``INTERRUPTED``: it was stopped by a cancel, a shutdown or a moved fence. ``SKIPPED``: the table's
    metadata shows that there is nothing to do, and nothing was run.
    """

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an action changed in its table.

    :param before: the snapshot that it started from; ``None`` for a table without one.
    :param after: the current snapshot afterwards; the same if only old snapshots or files were removed.
    """

    before: int | None
    after: int | None
    location: str | None = None


CANCELLED = "Cancelled by user"
"""The error of a cancelled job, in the specification's words; ``Job.cancelled_by`` has the user."""
COUNTED_ONLY = ("considered_", "kept_", "off_size_")
"""Prefixes of metrics that count what exists rather than what was done."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What one action did.

    :param message: for people, such as "Compacted 87 files into 12".
    :param metrics: file counts and bytes, by name.
    :param error: the full cause if the action did not succeed.
    :param final: running the action again with the same options would fail in the same way.
    :param gb_hours: GB of the Spark session's memory times the hours of the work in it; ``None`` if unknown.
    :param change: what it changed in the table, for the lineage, not stored with the job; ``None`` if unknown.
    """

    action: str
    outcome: ActionOutcome
    message: str
    elapsed_seconds: float
    error: str | None = None
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    final: bool = False
    change: TableChange | None = field(default=None, compare=False)
    gb_hours: float | None = None

    @property
    def success(self) -> bool:
        return self.outcome in (ActionOutcome.SUCCEEDED, ActionOutcome.PARTIAL, ActionOutcome.SKIPPED)

    @property
    def has_work(self) -> bool:
        """Whether its metrics show work that was done, or that a dry run found."""
        return any(number for name, number in self.metrics.items() if not name.startswith(COUNTED_ONLY))


@dataclass(frozen=True, slots=True)
class Job:
    """One request for maintenance of one table, as stored.

    :param priority: higher priorities are claimed first; one of :data:`PRIORITIES`.
    :param owner: may take the job over at once, such as an Airflow task instance across its tries.
    :param inline: the job belongs to the process that submitted it and never goes to another worker.
    :param awaited: the owner is a task that waits for the job; the sweep cancels the job once Airflow has ended the task.
    :param attempt: the number of claims and take-overs.
    :param attempt_id: the fence; ``None`` while no attempt has the job.
    :param started_at: when the current or last attempt began; ``None`` while the job waits, also between attempts.
    :param results: one per action that ran, in order; of the current or last attempt, like ``started_at``.
    :param spark_server: the Airflow connection of the Spark server on which an attempt may have left work running;
        ``None`` if nothing runs outside of the worker.
    :param plan: as JSON: why each action runs or is skipped, with its estimate; ``None`` for a job whose actions were requested.
    :param table_uuid: of the table at submission: the job runs on no other table of this name; ``None`` if unknown.
    :param traceparent: the span of its submission, to which the spans of its attempts belong.
    """

    job_id: str
    table: TableName
    actions: tuple[str, ...]
    options: Mapping[str, Any]
    dry_run: bool
    status: JobStatus
    submitted_at: datetime
    submitted_by: str | None = None
    owner: str | None = None
    inline: bool = False
    started_at: datetime | None = None
    completed_at: datetime | None = None
    attempt: int = 0
    attempt_id: str | None = None
    error: str | None = None
    results: tuple[ActionResult, ...] = ()
    spark_server: str | None = None
    cancelled_by: str | None = None
    priority: int = 0
    plan: Mapping[str, Any] | None = None
    awaited: bool = False
    table_uuid: str | None = None
    traceparent: str | None = None

    @property
    def work(self) -> str:
        """The actions that it runs, for display, without those that its plan skips."""
        if self.plan is None:
            return ", ".join(self.actions)
        runs = (decision["action"] for decision in self.plan["decisions"] if decision["verdict"] != "skip")
        return f"{', '.join(runs) or 'no action'} (auto)"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a job until the lease expires or the fence moves.

    :param attempt_id: the fence, a uuid4 in hex, new with every claim; every later write carries it.
    """

    job: Job
    attempt_id: str
    worker_id: str
    attempt: int
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class TableLock:
    """The lock of a table; the holder is a job's id, or a name that an operator chose."""

    table: TableName
    holder: str
    acquired_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LifecyclePolicy:
    """The periods and limits of the lifecycle, with the specification's defaults.

    :param lease: how long a claim lasts without a heartbeat.
    :param heartbeat: how often the worker renews claim and lock.
    :param fence_check: how often the worker checks whether its job was cancelled or taken over.
    :param max_attempts: the number of attempts with an expired lease after which the sweep fails the job.
    :param retry_base: a requeued job waits ``retry_base * 2 ** attempt``.
    """

    lease: timedelta = timedelta(seconds=1800)
    heartbeat: timedelta = timedelta(seconds=60)
    fence_check: timedelta = timedelta(seconds=2)
    max_attempts: int = 3
    retry_base: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of a job, written best-effort."""

    job_id: str
    at: datetime
    event: str
    attempt_id: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did: the ids of requeued and of failed jobs, and the tables that it unlocked.

    :param cancelled: the ids of jobs whose task has ended in Airflow.
    :param paused: drain mode is on, and the sweep did nothing.
    """

    requeued: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unlocked: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    paused: bool = False

    @property
    def changed(self) -> bool:
        return bool(self.requeued or self.failed or self.unlocked)


@dataclass(frozen=True, slots=True)
class DrainState:
    """Whether drain mode is on, since when, by whom and why."""

    on: bool
    since: datetime | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue at one moment.

    :param depth: the number of jobs that a worker could claim now; 0 in drain mode.
    :param held: the number that it could claim without drain mode.
    :param oldest: since when the oldest of them has been waiting.
    :param delayed: the number of jobs in back-off.
    :param running: the number of claimed jobs.
    """

    depth: int
    oldest: datetime | None
    delayed: int
    running: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of an active job, queued or claimed.

    :param rank: the negative priority; ``turn``: see :mod:`airflow_snowpack.jobs.claim_order`.
    :param visible_at: claimable from then on; for a claimed job the end of its lease.
    """

    job_id: str
    enqueued_at: datetime
    visible_at: datetime
    claimed_at: datetime | None
    claimed_by: str | None
    attempt: int
    catalog_id: str = ""
    rank: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True)
class QueueSample:
    """The queue at one moment, and what happened since the sample before it.

    :param completed, failed: jobs that ended.
    :param waits: ascending: how long the jobs waited that a worker claimed for the first time.
    """

    at: datetime
    waiting: int
    running: int
    completed: int = 0
    failed: int = 0
    waits: tuple[timedelta, ...] = ()

    @property
    def median_wait(self) -> timedelta | None:
        """``None`` if no wait ended."""
        return self.waits[len(self.waits) // 2] if self.waits else None

    @property
    def longest_wait(self) -> timedelta | None:
        """``None`` if no wait ended."""
        return self.waits[-1] if self.waits else None


class Engine(Protocol):
    """Does the work of a job, one action at a time; keeps Spark out of the lifecycle."""

    @property
    def server(self) -> str | None:
        """The server that continues the work if this process is killed; ``None`` if the work ends with it."""
        ...

    @property
    def gb_hours(self) -> float | None:
        """GB·h of the running action so far, 0 while none runs; ``None`` if the session's memory is unknown."""
        ...

    def run(self, job: Job, action: str) -> ActionResult:
        """Run the action to its end; a conflict, failed Spark job or interrupt is a result, an exception fails the attempt."""
        ...

    def interrupt(self) -> None:
        """Stop the running action for good, from another thread, and let :meth:`run` start nothing more; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class RecentJob:
    """A job without its options and its plan; see :class:`Job`."""

    job_id: str
    table: TableName
    status: JobStatus
    submitted_at: datetime
    completed_at: datetime | None
    error: str | None
    cancelled_by: str | None
    results: tuple[ActionResult, ...]


def is_withdrawn(job: Job | RecentJob) -> bool:
    """Return whether a pass, not a user, has cancelled the job: the next pass plans its table again."""
    return job.status is JobStatus.CANCELLED and job.cancelled_by is None and job.error not in (None, CANCELLED)


def shown_status(job: Job | RecentJob) -> str:
    """Return the status for display: ``withdrawn`` for a job that a pass has cancelled."""
    return "withdrawn" if is_withdrawn(job) else job.status.value
