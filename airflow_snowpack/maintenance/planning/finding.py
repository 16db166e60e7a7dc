"""What one action would do to a table, before the policy's times are checked."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import number, plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from airflow_snowpack.iceberg.health import PartitionHealth, TableHealth
    from airflow_snowpack.jobs.action_history import ActionRecord


class Cause(StrEnum):
    """Why an action runs or is skipped, for grouping and filters; the evidence has the numbers.

    ``NEEDED``: a threshold is reached. ``DEADLINE``: the policy's deadline has passed. ``HEALTHY``: no threshold is reached.
    ``FAILING``: it failed several times in a row, and is retried later. ``NOT_DUE``: the policy's cadence has not elapsed.
    ``QUIET``: a quiet window. ``FROZEN``, ``EXCLUDED`` and ``DISABLED``: by the policy. ``WRITING``: the partitions that need it
    are being written to. ``PRODUCER``: a DAG that writes to the table runs or is due. ``UNSUPPORTED``: it cannot be done, for
    example because no predicate selects a partition. ``PROTECTED``: a table property such as ``gc.enabled`` forbids it.
    """

    NEEDED = "needed"
    DEADLINE = "deadline"
    HEALTHY = "healthy"
    FAILING = "failing"
    NOT_DUE = "not_due"
    QUIET = "quiet"
    FROZEN = "frozen"
    EXCLUDED = "excluded"
    DISABLED = "disabled"
    WRITING = "writing"
    PRODUCER = "producer"
    UNSUPPORTED = "unsupported"
    PROTECTED = "protected"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The effect and cost of an action, as far as metadata and earlier outcomes show them.

    :param files_removed: data, delete or metadata files that are deleted, or that the current snapshot no longer needs.
    :param files_added: files that replace them.
    :param bytes_rewritten: bytes read and written again.
    :param bytes_freed: bytes deleted from the storage.
    :param gb_hours: GB of the Spark session's memory times hours.
    """

    files_removed: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_freed: int = 0
    snapshots_expired: int = 0
    gb_hours: float = 0.0
    seconds: float = 0.0

    @property
    def files_saved(self) -> int:
        """How many fewer files a reader opens; 0 for actions that delete what only older snapshots need."""
        is_cleanup = self.bytes_freed or self.snapshots_expired
        return 0 if is_cleanup else max(self.files_removed - self.files_added, 0)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_json(self) -> dict[str, int | float]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number from which an action is needed."""

    default: int
    doc: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds in a warm session: per procedure, per GiB rewritten, per file removed."""

    procedure: float
    per_gib: float = 0.0
    per_file: float = 0.0

    def seconds(self, work: Estimate) -> float:
        """Return how long the work takes, until outcomes are known."""
        return self.procedure + self.per_gib * work.bytes_rewritten / 1024**3 + self.per_file * work.files_removed


@dataclass(frozen=True, slots=True)
class Finding:
    """What an action would do.

    :param evidence: one sentence with numbers.
    :param work: its effect, without the cost; ``None``: nothing to do.
    :param needed: whether a threshold of the policy is reached.
    :param hindrance: why it cannot run although there is work.
    :param options: in addition to the policy's, such as a generated ``where``.
    :param reconsider_at: when the finding may change although the table does not.
    :param partitions: those that it rewrites; ``None``: any.
    :param commits: how many commits it makes.
    """

    evidence: str
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    work: Estimate | None = None
    needed: bool = False
    hindrance: Cause | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    reconsider_at: datetime | None = None
    partitions: tuple[PartitionHealth, ...] | None = ()
    commits: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What an action decides by: the health of a real or simulated table, and the policy.

    :param catalog: the name of the table's catalog.
    :param thresholds: the policy's for the action.
    :param deadline: the action runs at least this often while it has something to do.
    :param max_rewrite_bytes: the byte limit of one plan.
    :param record: the action's runs on this table.
    :param before: by action, what runs earlier in the same plan.
    """

    health: TableHealth
    now: datetime
    catalog: str
    thresholds: Mapping[str, int | float]
    deadline: timedelta | None
    max_rewrite_bytes: int
    record: ActionRecord
    before: Mapping[str, Finding] = field(default_factory=dict)

    @property
    def overdue(self) -> bool:
        """Whether the policy's deadline has passed since the last success, or there was none."""
        last = self.record.last_success_at
        return self.deadline is not None and (last is None or self.now - last >= self.deadline)

    def found_by_time(self, evidence: str) -> Finding:
        """Return the finding of an action whose need no metadata shows: it runs by its deadline, or else at its cadence."""
        return Finding(evidence, work=Estimate(), needed=self.deadline is None)


def current_partitions(health: TableHealth) -> tuple[PartitionHealth, ...]:
    """Return the listed partitions of the current partition spec; ``health.outdated`` has the others."""
    return tuple(each for each in health.partitions if each.spec_id == health.spec_id)


def written_until(partition: PartitionHealth | None, now: datetime, window: timedelta) -> datetime | None:
    """Return until when a partition counts as being written to; ``None`` if it does not."""
    newest = None if partition is None else partition.newest_at
    return newest + window if newest is not None and now < newest + window else None


def of_partitions(chosen: int, health: TableHealth) -> str:
    """Return ``" in 3 of 90 partitions"``; empty for a table that is one partition."""
    if health.partition_count <= 1:
        return ""
    return f" in {number(chosen)} of {plural(health.partition_count, 'partition')}"
