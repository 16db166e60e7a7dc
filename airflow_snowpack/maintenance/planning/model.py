"""The plan of a table: for each action, whether to run it now, why, at what cost, and when that may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.action import in_order
from airflow_snowpack.maintenance.planning.finding import Cause, Estimate, Finding

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.submit import MaintenanceRequest


class ActionVerdict(StrEnum):
    """Whether an action runs."""

    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the plan does with one action.

    :param evidence: one sentence with the numbers, for people.
    :param metrics: the same numbers by name.
    :param estimate: the effect and cost; ``None`` if the action is skipped.
    :param options: of the action as JSON, for a :class:`MaintenanceRequest`, with a generated ``where``.
    :param reconsider_at: when a skip may change although the table does not; ``None``: only a commit changes it.
    """

    action: str
    verdict: ActionVerdict
    cause: Cause
    evidence: str
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    estimate: Estimate | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    reconsider_at: datetime | None = None

    @property
    def runs(self) -> bool:
        return self.verdict is ActionVerdict.RUN

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "verdict": self.verdict.value,
            "cause": self.cause.value,
            "evidence": self.evidence,
            "metrics": dict(self.metrics),
            "estimate": self.estimate.to_json() if self.estimate else None,
            "options": dict(self.options),
            "reconsider_at": self.reconsider_at.isoformat() if self.reconsider_at else None,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Decision:
        estimate, moment = stored["estimate"], stored["reconsider_at"]
        return cls(
            stored["action"],
            ActionVerdict(stored["verdict"]),
            Cause(stored["cause"]),
            stored["evidence"],
            stored["metrics"],
            Estimate(**estimate) if estimate else None,
            stored["options"],
            datetime.fromisoformat(moment) if moment else None,
        )


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The decisions for one table at one metadata location.

    :param decisions: one per action, in the installation's order.
    :param score: of the health that the plan was made from, 0 to 100.
    :param table_uuid: of the planned table; its job does not touch another table of this name.
    :param findings: by action, those of the actions that run; not part of the JSON.
    """

    table: TableName
    metadata_location: str
    made_at: datetime
    decisions: tuple[Decision, ...]
    score: int
    table_uuid: str | None = None
    findings: Mapping[str, Finding] = field(default_factory=dict, compare=False)

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that run."""
        return tuple(each.action for each in self.decisions if each.runs)

    @property
    def estimate(self) -> Estimate:
        """The sum over the actions that run."""
        return sum((each.estimate for each in self.decisions if each.estimate), Estimate())

    @property
    def files_saved(self) -> int:
        """How many fewer files a reader opens after the actions that run."""
        return sum(each.estimate.files_saved for each in self.decisions if each.estimate)

    @property
    def reconsider_at(self) -> datetime | None:
        """The earliest time at which a skip may change although the table does not."""
        return min((each.reconsider_at for each in self.decisions if each.reconsider_at), default=None)

    def of(self, action: str) -> Decision:
        """Return the decision for an action.

        :raises KeyError: the plan has none.
        """
        for each in self.decisions:
            if each.action == action:
                return each
        raise KeyError(action)

    def request(self, *, priority: int = 0, order: Sequence[str] = ()) -> MaintenanceRequest:
        """Return the request of a job that runs the plan, with the evidence of what it skips.

        :param priority: from -1000 to 1000.
        :param order: the installation's order of actions.
        """
        from airflow_snowpack.maintenance.submit import MaintenanceRequest

        actions = in_order((each.action for each in self.decisions), order)
        options = {each.action: each.options for each in self.decisions if each.runs and each.options}
        # The job stores the options separately.
        plan = replace(self, decisions=tuple(replace(each, options={}) for each in self.decisions))
        return MaintenanceRequest(self.table, actions, options, priority, plan.to_json())

    def to_json(self) -> dict[str, Any]:
        return {
            "metadata_location": self.metadata_location,
            "made_at": self.made_at.isoformat(),
            "score": self.score,
            "table_uuid": self.table_uuid,
            "decisions": [each.to_json() for each in self.decisions],
        }

    @classmethod
    def from_json(cls, table: TableName, stored: Mapping[str, Any]) -> TablePlan:
        decisions = tuple(Decision.from_json(each) for each in stored["decisions"])
        made_at = datetime.fromisoformat(stored["made_at"])
        return cls(table, stored["metadata_location"], made_at, decisions, stored["score"], stored.get("table_uuid"))
