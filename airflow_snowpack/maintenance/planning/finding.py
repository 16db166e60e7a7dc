"""What one action would do to a table, before the times of the policy are checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.humanize import number, plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from airflow_snowpack.iceberg.health import PartitionHealth, TableHealth
    from airflow_snowpack.jobs.action_history import ActionRecord
    from airflow_snowpack.maintenance.planning.model import Cause, Estimate
    from airflow_snowpack.maintenance.policies import ActionPolicy, TablePolicy


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
class Case:
    """What an action is judged by.

    :param policy: of the table, and ``own`` that of the action.
    :param record: of the action's runs on this table.
    :param before: what runs earlier in the same plan, by the name of the action.
    :param requested: a user or a task requests the maintenance of this table, so failures in a row do not delay it.
    """

    health: TableHealth
    policy: TablePolicy
    own: ActionPolicy
    now: datetime
    record: ActionRecord
    before: Mapping[str, Finding] = field(default_factory=dict)
    requested: bool = False

    @property
    def overdue(self) -> bool:
        """Whether the policy's deadline has passed since the action last succeeded, or it never has."""
        last = self.record.last_success_at
        return self.own.deadline is not None and (last is None or self.now - last >= self.own.deadline)

    def threshold(self, name: str) -> int | float:
        """Return a threshold of the action."""
        return self.own.thresholds[name]


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
