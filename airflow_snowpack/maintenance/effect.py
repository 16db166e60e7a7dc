"""How an action ended, in words and in numbers, before it is known how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_snowpack.jobs.model import ActionOutcome, ActionResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.maintenance.action import Action


@dataclass(frozen=True, slots=True)
class Effect:
    """What an action did to the table.

    :param message: for people.
    :param metrics: the procedure's own numbers by their column names, and what was counted beside them.
    :param error: the cause in full unless it succeeded or was skipped.
    :param final: the same options would fail again.
    """

    outcome: ActionOutcome
    message: str
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    error: str | None = None
    final: bool = False

    def result(self, action: Action, elapsed_seconds: float) -> ActionResult:
        """The same as the job keeps it."""
        return ActionResult(action.value, self.outcome, self.message, elapsed_seconds, self.error, self.metrics, self.final)


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``1,284 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
