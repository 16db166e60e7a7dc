"""A pass over the fleet, and its entries: one for each table that it did not find healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.planning.finding import Estimate
from airflow_snowpack.maintenance.planning.model import TablePlan


class PassState(StrEnum):
    """The state of a pass.

    ``PLANNING``: a process lists the catalog, reads health and plans. ``RUNNING``: the plan is stored, and workers maintain the
    chosen tables. ``ENDED``: no entry changes any more.
    """

    PLANNING = "planning"
    RUNNING = "running"
    ENDED = "ended"


class EntryState(StrEnum):
    """The state of a table in a pass. All but ``CHOSEN`` and ``SUBMITTED`` are final.

    ``CHOSEN``: its part of the budget is reserved, and its job not submitted yet. ``SUBMITTED``: its job waits or runs.
    ``MAINTAINED`` and ``FAILED``: how its job ended. ``WAITING``: it was not maintained, and comes first in the next pass.
    ``GONE``: it was dropped or renamed after it was planned. ``UNREADABLE``: its metadata cannot be read.
    """

    CHOSEN = "chosen"
    SUBMITTED = "submitted"
    MAINTAINED = "maintained"
    FAILED = "failed"
    WAITING = "waiting"
    GONE = "gone"
    UNREADABLE = "unreadable"

    @property
    def is_final(self) -> bool:
        return self not in (EntryState.CHOSEN, EntryState.SUBMITTED)


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A table in a pass that needs maintenance or cannot be read. Healthy and unchanged tables are only counted.

    :param place: its rank in the pass, from 0; unreadable tables come last.
    :param reason: why it waits, failed or cannot be read, as a sentence.
    :param plan: what its job runs; ``None``: no action runs now, or the table cannot be read.
    :param spent: what the job did and cost; ``None`` until it has ended.
    :param deadline: when it has to be maintained at the latest.
    :param passes_waited: in how many consecutive passes before this one it did not fit.
    """

    table: TableName
    place: int
    state: EntryState
    reason: str | None = None
    plan: TablePlan | None = None
    deadline: datetime | None = None
    passes_waited: int = 0
    job_id: str | None = None
    spent: Estimate | None = None
    ended_at: datetime | None = None

    @property
    def evidence(self) -> Mapping[str, str]:
        """Why each action of its plan runs, by name and in order."""
        return {} if self.plan is None else {each.action: each.evidence for each in self.plan.decisions if each.runs}

    @property
    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """The options of its job by action, as JSON values."""
        return (
            {} if self.plan is None else {each.action: each.options for each in self.plan.decisions if each.runs and each.options}
        )

    @property
    def estimate(self) -> Estimate:
        return Estimate() if self.plan is None else self.plan.estimate

    @property
    def files_saved(self) -> int:
        """How many fewer files readers open, by estimate."""
        return 0 if self.plan is None else self.plan.files_saved


@dataclass(frozen=True, slots=True)
class Pass:
    """One run over the tables of a catalog.

    :param owner: what resumes it after a kill, such as ``dag/run/task``.
    :param workers: how many tables are maintained at a time.
    :param counts: of tables: ``listed``, ``excluded``, ``unchanged``, ``healthy``, ``unreadable``, ``chosen`` and ``waiting``.
    :param leased_until: when the lease of the process that plans it, or works on it alone, ends.
    :param attempt_id: the fence of the process that plans it, or has planned it.
    :param report: the report of an ended pass, as JSON values.
    """

    pass_id: str
    owner: str
    catalog: str
    catalog_id: str
    state: PassState
    budget: Budget
    workers: int
    started_at: datetime
    leased_until: datetime
    planned_at: datetime | None = None
    ended_at: datetime | None = None
    planned_by: str | None = None
    attempt_id: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    report: Mapping[str, Any] | None = None

    @property
    def ends_at(self) -> datetime | None:
        """When the budget's time ends; ``None`` for no limit."""
        return None if self.budget.time is None else self.started_at + self.budget.time


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """The last plan of a table, from which the next pass finds that nothing has changed.

    :param policy: the digest of the plan's policies.
    :param needs_work: the plan runs an action; then each pass plans the table again.
    :param reconsider_at: when the plan may change although the table and its policy do not; ``None`` for never.
    :param held_since: since when its plans wait for DAGs that write to it; ``None``: this one does not.
    """

    table: TableName
    metadata_location: str | None
    policy: str
    needs_work: bool
    reconsider_at: datetime | None = None
    passes_waited: int = 0
    held_since: datetime | None = None
