"""What one action would do to a table, before the times of the policy are checked."""

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

    ``NEEDED``: a threshold is reached. ``DEADLINE``: the policy wants it at least this often. ``HEALTHY``: no threshold is
    reached. ``FAILING``: it has failed several times in a row, and is tried again later. ``NOT_DUE``: the policy's cadence has
    not elapsed. ``QUIET``: a quiet window. ``FROZEN``, ``EXCLUDED`` and ``DISABLED``: by the policy. ``WRITING``: the
    partitions that need it are being written to. ``PRODUCER``: a DAG that writes to the table runs or is due. ``UNSUPPORTED``:
    it cannot be done, such as a partition that no predicate selects. ``PROTECTED``: a property of the table forbids it, such as
    ``gc.enabled``.
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
    """What an action will do and take, as far as metadata and earlier outcomes show it.

    :param files_removed: data, delete or metadata files that the current snapshot no longer needs, or that are deleted.
    :param files_added: files written in their place.
    :param bytes_rewritten: read and written again.
    :param bytes_freed: deleted from the storage.
    :param gb_hours: of memory in use: GB of the Spark session times hours.
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
        """How many files fewer a reader opens: none after an action that deletes what only older snapshots need."""
        is_cleanup = self.bytes_freed or self.snapshots_expired
        return 0 if is_cleanup else max(self.files_removed - self.files_added, 0)

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def to_json(self) -> dict[str, int | float]:
        """Return the numbers by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number at which an action is needed."""

    default: int
    doc: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds of a warm session: for the procedure, for each GiB rewritten, for each file removed."""

    procedure: float
    per_gib: float = 0.0
    per_file: float = 0.0

    def seconds(self, work: Estimate) -> float:
        """Return how long the work takes, before any outcome is known."""
        return self.procedure + self.per_gib * work.bytes_rewritten / 1024**3 + self.per_file * work.files_removed


@dataclass(frozen=True, slots=True)
class Finding:
    """What an action would do.

    :param evidence: one sentence with numbers.
    :param work: what it would do, without what that costs; ``None``: nothing.
    :param needed: whether a threshold of the policy is reached.
    :param hindrance: why it cannot run although there is something to do.
    :param options: beside those of the policy, such as a generated ``where``.
    :param reconsider_at: when the finding may change although the table stays as it is.
    :param partitions: those that it rewrites; ``None``: any of the table.
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
    """What an action judges a table by: its health and the policy. A table that is simulated has both, too.

    :param catalog: the name of the table's catalog.
    :param thresholds: of the policy for the action, and ``deadline``: it runs at least this often while it has something to do.
    :param max_rewrite_bytes: one plan rewrites at most so much.
    :param record: of the action's runs on this table.
    :param before: what runs earlier in the same plan, by the name of the action.
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
        """Whether the policy's deadline has passed since the action last succeeded, or it never has."""
        last = self.record.last_success_at
        return self.deadline is not None and (last is None or self.now - last >= self.deadline)

    def found_by_time(self, evidence: str) -> Finding:
        """Return the finding of an action whose need no metadata shows: it runs by its deadline; without one, at its cadence."""
        return Finding(evidence, work=Estimate(), needed=self.deadline is None)


def current_partitions(health: TableHealth) -> tuple[PartitionHealth, ...]:
    """Return the listed partitions of the current partition spec; those of older ones are in ``health.outdated``."""
    return tuple(each for each in health.partitions if each.spec_id == health.spec_id)


def written_until(partition: PartitionHealth | None, now: datetime, window: timedelta) -> datetime | None:
    """Return until when a partition counts as being written to; ``None``: it does not."""
    newest = None if partition is None else partition.newest_at
    return newest + window if newest is not None and now < newest + window else None


def of_partitions(chosen: int, health: TableHealth) -> str:
    """Return ``" in 3 of 90 partitions"``; nothing for a table that is one partition."""
    if health.partition_count <= 1:
        return ""
    return f" in {number(chosen)} of {plural(health.partition_count, 'partition')}"
