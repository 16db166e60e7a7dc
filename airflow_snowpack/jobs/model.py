"""The values of the job lifecycle: what a job is, which states it has, what a claim and a result hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.iceberg.names import TableName


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

# From each state, the states that may follow. RUNNING may follow itself: a take-over moves the fence and the job goes on running.
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

    ``PARTIAL``: some file groups were committed and some were not. ``CONFLICT``: a writer's commit won and nothing of this action
    counts; the table is as the writer left it. ``INTERRUPTED``: it was stopped by a cancel, a shutdown or a moved fence.
    ``SKIPPED``: the table's metadata shows that there was nothing to do, and nothing was run.
    """

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    CONFLICT = "conflict"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an action changed of its table.

    :param before: the snapshot that it started from; ``None`` for a table without one.
    :param after: the current snapshot afterwards; the same one when only old snapshots or files were removed.
    :param location: the table's location.
    """

    before: int | None
    after: int | None
    location: str | None = None


CANCELLED = "Cancelled by user"
"""The error of a cancelled job, in the specification's words; who cancelled it is ``Job.cancelled_by``."""
COUNTED_ONLY = ("considered_", "kept_", "off_size_")
"""Prefixes of the metrics that count what there is, and not what was done."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What one action did.

    :param message: for people, such as "Compacted 87 files into 12".
    :param metrics: the same as numbers; file counts and bytes, by name.
    :param error: the cause in full when the action did not succeed.
    :param final: running the action again with the same options would fail in the same way.
    :param gb_hours: GB of the Spark session's memory times the hours of the work in it; ``None`` where that is not known.
    :param change: what it changed of the table, which goes into the lineage and not into the job; ``None`` for nothing known.
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
        """Whether its metrics show anything that was done, or that a dry run would do."""
        return any(number for name, number in self.metrics.items() if not name.startswith(COUNTED_ONLY))


@dataclass(frozen=True, slots=True)
class Job:
    """One request for maintenance of one table, as the store has it.

    :param priority: jobs with a higher one are claimed first; see :mod:`airflow_snowpack.jobs.priority`.
    :param owner: who may take the job over at once, such as an Airflow task instance across its tries; ``None`` for no one.
    :param inline: it belongs to the process that submitted it and never goes to another worker.
    :param awaited: its owner is a task that waits for its end; the sweep cancels it when Airflow has ended the task.
    :param attempt: how many times it was claimed or taken over.
    :param attempt_id: the fence; ``None`` while no attempt has the job.
    :param started_at: when the present or last attempt began; ``None`` while the job waits, also for another attempt.
    :param results: one per action that ran, in order; of the present or last attempt, like ``started_at``.
    :param spark_server: the Airflow connection of the Spark Connect server on which an attempt may have left work running;
        ``None``: nothing of this job runs outside of its worker.
    :param cancelled_by: who cancelled it.
    :param plan: the plan that it runs, as JSON: why each action runs or is skipped, and what that was estimated to take; ``None``
        for a job whose actions were requested.
    :param table_uuid: of the table for which it was submitted: it runs on no other table of the same name; ``None``: not known.
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

    @property
    def work(self) -> str:
        """The actions that it runs, for people: without those that its plan skips."""
        if self.plan is None:
            return ", ".join(self.actions)
        runs = (decision["action"] for decision in self.plan["decisions"] if decision["verdict"] != "skip")
        return f"{', '.join(runs) or 'no action'} (auto)"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a job until the lease runs out or the fence moves.

    :param attempt_id: the fence: uuid4 hex, new with every claim; every later write carries it.
    """

    job: Job
    attempt_id: str
    worker_id: str
    attempt: int
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class TableLock:
    """The lock of a table.

    :param holder: a job's id, or the name that an operator gave.
    """

    table: TableName
    holder: str
    acquired_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LifecyclePolicy:
    """The periods and limits of the lifecycle; the defaults are the specification's.

    :param lease: how long a claim lasts without a heartbeat.
    :param heartbeat: how often the worker renews claim and lock.
    :param fence_check: how often the worker checks whether its job was cancelled or taken over.
    :param max_attempts: after this many attempts whose lease ran out, the sweep fails the job.
    :param retry_base: a requeued job waits ``retry_base * 2 ** attempt``.
    """

    lease: timedelta = timedelta(seconds=1800)
    heartbeat: timedelta = timedelta(seconds=60)
    fence_check: timedelta = timedelta(seconds=2)
    max_attempts: int = 3
    retry_base: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event of a job, written best-effort beside the job itself."""

    job_id: str
    at: datetime
    event: str
    attempt_id: str | None
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did: the ids of requeued and of failed jobs, and the tables that it unlocked.

    :param cancelled: the ids of jobs whose task has ended in Airflow.
    :param paused: drain mode is on, so it did nothing.
    """

    requeued: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    unlocked: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    paused: bool = False

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.requeued or self.failed or self.unlocked)


@dataclass(frozen=True, slots=True)
class DrainState:
    """Whether drain mode is on, and since when, by whom and why."""

    on: bool
    since: datetime | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue at one moment.

    :param depth: how many jobs a worker could claim now; none while drain mode is on.
    :param held: how many it could claim if drain mode were off.
    :param oldest: since when the oldest of all these has been waiting.
    :param delayed: how many wait for the end of their back-off.
    :param running: how many are claimed.
    """

    depth: int
    oldest: datetime | None
    delayed: int
    running: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of an active job: in the queue, or claimed by a worker.

    :param rank: the job's priority, negative; ``turn``: see :mod:`airflow_snowpack.jobs.claim_order`.
    :param visible_at: claimable from then on; for a claimed job the end of its lease.
    :param attempt: how many times it was claimed or taken over.
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
    """How many jobs waited and how many ran at one moment."""

    at: datetime
    waiting: int
    running: int


class Engine(Protocol):
    """What does the work of a job, one action at a time; the lifecycle knows this protocol and not Spark."""

    @property
    def server(self) -> str | None:
        """The name of the server that continues the work when this process is killed; ``None``: the work ends with it."""
        ...

    @property
    def gb_hours(self) -> float | None:
        """GB·h of the running action so far, 0 while none runs; ``None`` where the memory of the session is not known."""
        ...

    def run(self, job: Job, action: str) -> ActionResult:
        """Run the action to its end.

        :returns: also for an expected failure, such as a conflict, a failed Spark job or an interrupt. What is raised fails the
            attempt.
        """
        ...

    def interrupt(self) -> None:
        """Stop the running action for good, from another thread; calling it again, or with nothing running, does nothing.

        After an interrupt, :meth:`run` starts nothing more.
        """
        ...
