"""What an action takes: a first guess from its bytes and files, corrected by what earlier runs on the same table took.

The guess is a line: so long for the procedure itself, and so long for each GiB and each file. A factor per table and action,
learned from outcomes (:class:`~airflow_snowpack.jobs.action_history.ActionRecord`), scales it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.action import Action

if TYPE_CHECKING:
    from airflow_snowpack.jobs.action_history import ActionRecord
    from airflow_snowpack.maintenance.planning.model import Estimate

SESSION_GB = 4.0
"""Until an outcome shows more: the memory of the Spark session, in GB."""
EXACT = frozenset({Action.REWRITE_DATA_FILES, Action.REWRITE_POSITION_DELETE_FILES})
"""Their files follow from metadata; a factor would only repeat what a concurrent writer changed the last time."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Seconds of a warm session: for the procedure, for each GiB rewritten, for each file removed."""

    procedure: float
    per_gib: float = 0.0
    per_file: float = 0.0

    def seconds(self, work: Estimate) -> float:
        """Return how long the work takes."""
        return self.procedure + self.per_gib * work.bytes_rewritten / 1024**3 + self.per_file * work.files_removed


RATES = {
    Action.REWRITE_DATA_FILES: Rate(3.0, per_gib=30.0, per_file=0.01),
    Action.REWRITE_POSITION_DELETE_FILES: Rate(3.0, per_gib=60.0, per_file=0.01),
    Action.REWRITE_MANIFESTS: Rate(1.0, per_file=0.02),
    Action.EXPIRE_SNAPSHOTS: Rate(3.0, per_file=0.005),
    Action.REMOVE_ORPHAN_FILES: Rate(2.0, per_file=0.005),
}
OTHER_RATE = Rate(5.0, per_gib=60.0)
"""Of an action that another distribution adds."""


def with_cost(action: str, work: Estimate, record: ActionRecord) -> Estimate:
    """Return the estimate with its duration and its GB·h, and corrected by earlier outcomes."""
    if action not in EXACT:
        work = replace(work, files_removed=round(work.files_removed * record.files_factor))
    seconds = guessed_seconds(action, work)
    gb_hours = seconds * SESSION_GB / 3600 * record.cost_factor
    return replace(work, seconds=round(seconds * record.seconds_factor, 3), gb_hours=round(gb_hours, 6))


def guessed_seconds(action: str, work: Estimate) -> float:
    """Return how long the work takes before any outcome is known."""
    rate = RATES[Action(action)] if action in RATES else OTHER_RATE
    return rate.seconds(work)
