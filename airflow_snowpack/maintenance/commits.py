"""Separate a job's commits from those of concurrent writers.

    >>> trail = CommitTrail(job_id).start(table)
    >>> …                                       # the procedure runs
    >>> since = trail.since(table_again)
    >>> since.own, since.overwriting            # our commits, and those that may have cost us some

The summary of each commit of a job has ``snowpack.job-id`` and ``snowpack.action``. Procedures ignore Spark's setting for such
properties, so they are set in Iceberg's ``EnvironmentContext``, which is global to the JVM: it also stamps other commits made
there at the same time. So only ``replace`` snapshots with the stamp count as the job's. Commits on a Spark server cannot be
stamped; there every ``replace`` snapshot of the period counts, which is nearly always right thanks to the table lock.

Iceberg refuses a commit when another writer has removed a file that it replaces. A retry works with the files that exist then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.spark import SparkFailed


JOB_ID = "snowpack.job-id"
ACTION = "snowpack.action"


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits to one branch since a snapshot, oldest first: the job's own, and those of other writers."""

    own: tuple[Snapshot, ...] = ()
    others: tuple[Snapshot, ...] = ()

    @property
    def overwriting(self) -> tuple[Snapshot, ...]:
        """Commits of others that removed files, so that a rewrite of the same files can no longer be committed."""
        return tuple(snapshot for snapshot in self.others if _operation(snapshot) != "append")

    def total(self, key: str) -> int:
        """Return the sum of a number in the summaries of the job's commits."""
        return _sum(self.own, key)

    def total_of_all(self, key: str) -> int:
        """Return the sum of a number in the summaries of all commits."""
        return _sum(self.own + self.others, key)


@dataclass(frozen=True, slots=True)
class CommitTrail:
    """Tracks the commits to a branch from a snapshot on.

    :param job_id: the stamp of the job's commits; ``None`` where commits cannot be stamped.
    :param base: the snapshot to start from; ``None`` for an empty table.
    :param branch: ``None`` for ``main``.
    """

    job_id: str | None
    base: int | None = None
    branch: str | None = None

    def start(self, table: Table) -> CommitTrail:
        """Return the trail from the branch's current snapshot on."""
        current = self._head(table)
        return CommitTrail(self.job_id, current.snapshot_id if current else None, self.branch)

    def since(self, table: Table) -> Commits:
        """Return the commits after the base, up to the current snapshot of this version of the table."""
        new: list[Snapshot] = []
        snapshot = self._head(table)
        while snapshot is not None and snapshot.snapshot_id != self.base:
            new.insert(0, snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
        return Commits(
            own=tuple(snapshot for snapshot in new if self._is_own(snapshot)),
            others=tuple(snapshot for snapshot in new if not self._is_own(snapshot)),
        )

    def _head(self, table: Table) -> Snapshot | None:
        return table.current_snapshot() if self.branch is None else table.snapshot_by_name(self.branch)

    def _is_own(self, snapshot: Snapshot) -> bool:
        if _operation(snapshot) != "replace":
            return False
        return self.job_id is None or _property(snapshot, JOB_ID) == self.job_id


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else ""


def _property(snapshot: Snapshot, key: str) -> str | None:
    return snapshot.summary.additional_properties.get(key) if snapshot.summary else None


def _sum(snapshots: tuple[Snapshot, ...], key: str) -> int:
    return sum(int(_property(snapshot, key) or 0) for snapshot in snapshots)


# The validations of the shipped Iceberg that only a concurrent commit makes fail, and its exception for replaced metadata. Texts
# and not classes, because a ValidationException also reports a missing column, and a Spark server may send only text.
LOST_RACE = re.compile(
    r"CommitFailedException"
    r"|Missing required files to delete"
    r"|Cannot commit, (?:missing data files|found new)"
    r"|Found (?:new )?conflicting"
    r"|Found concurrently added DV"
    r"|Deleted manifest \S+ could not be found in the latest snapshot"
    r"|Cannot determine history between"
    r"|Cannot remove dangling deletes: current snapshot changed"
    r"|Cannot add a snapshot, first-row-id is behind"
    r"|Cannot add snapshot with sequence number \S+ older"
    r"|Snapshot ancestry validation failed"
)
# How procedures refuse their arguments. A predicate with functions that select no files passes the check at submit.
REFUSED = re.compile(
    r"Cannot (?:parse predicates in where option|translate Spark expression|convert Spark filter)"
    r"|Cannot find (?:field|column) '"
    r"|is unsorted and no sort order is provided"
    r"|SQLSTATE: 22|ArithmeticException: |Invalid (?:number of buckets|truncate width)"  # in a predicate
)
FORBIDDEN = re.compile(r"\bForbiddenException\b")
NOT_PERMITTED = (
    "The catalog does not permit this connection to change the table. Grant the permission to its user, or exclude the table by "
    "a policy"
)
EXHAUSTED = {
    "java.lang.StackOverflowError": "Spark's stack is too small for this statement. Simplify its predicate, or raise the stack "
    "with spark.driver.extraJavaOptions=-Xss4m",
    "java.lang.OutOfMemoryError": "Spark's driver has too little memory for this work. Raise [snowpack] spark_driver_memory, or "
    "narrow the work with a predicate or max_files_to_rewrite",
}
OF_SERVER = {"": "java.lang.StackOverflowError", "Java heap space": "java.lang.OutOfMemoryError"}
"""The JVM errors that end a call on a Spark Connect server, by message, which is all that the server sends."""
SERVER_FAILED = re.compile(rf'status = StatusCode.UNKNOWN\s+details = "(?P<message>{"|".join(OF_SERVER)})"')
FAILED_COMMITS = re.compile(r"is true but (?P<count>\d+) rewrite commits failed")


def is_conflict(error: SparkFailed) -> bool:
    """Return whether another writer's commit made this one fail."""
    # The message omits the class of a cause whose message it already contains.
    return LOST_RACE.search("\n".join((str(error), *map(str, error.causes)))) is not None


def failed_commits(error: SparkFailed) -> int | None:
    """Return how many commits of partial progress failed, if the error reports it."""
    match = FAILED_COMMITS.search(str(error))
    return int(match["count"]) if match else None


def is_refused(error: SparkFailed) -> bool:
    """Return whether a retry would fail again: the procedure or the catalog refused it, or its JVM ran out of stack or memory."""
    return REFUSED.search(str(error)) is not None or remedy_of(error) is not None


def remedy_of(error: SparkFailed) -> str | None:
    """Return what a retry does not change, with a remedy: no permission, or a JVM that ran out of stack or memory."""
    if FORBIDDEN.search("\n".join((str(error), *map(str, error.causes)))):
        return NOT_PERMITTED
    of_server = None if error.causes else SERVER_FAILED.search(str(error))
    names = [cause.class_name for cause in error.causes] if of_server is None else [OF_SERVER[of_server["message"]]]
    return next((EXHAUSTED[name] for name in names if name in EXHAUSTED), None)
