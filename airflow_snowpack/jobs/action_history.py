"""What past jobs did to a table, action by action: when each last ran, and how its outcomes compare with its estimates.

history = histories[table]
history.of("rewrite_data_files").last_success_at
history.of("rewrite_data_files").cost.factor        # 1.4: it takes 40 % more than was estimated
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action on one table, as the jobs that ended have left it.

    The factors are outcome / estimate, smoothed over the runs; 1 until there is an outcome with an estimate.

    :param last_run_at: when it last ended, whether or not it succeeded; ``None``: never. A run that found nothing to do counts.
    :param last_success_at: when it last succeeded.
    :param failures: how many runs have failed since then.
    :param runs: how many outcomes the factors are made of.
    :param cost_factor: of the GB·h.
    :param seconds_factor: of the duration.
    :param files_factor: of the files removed.
    :param bytes_factor: of the bytes rewritten or freed.
    """

    last_run_at: datetime | None = None
    last_success_at: datetime | None = None
    failures: int = 0
    runs: int = 0
    cost_factor: float = 1.0
    seconds_factor: float = 1.0
    files_factor: float = 1.0
    bytes_factor: float = 1.0


NEVER_RAN = ActionRecord()


@dataclass(frozen=True, slots=True)
class ActionHistory:
    """The records of one table's actions, by the name of the action."""

    records: Mapping[str, ActionRecord] = field(default_factory=dict)

    def of(self, action: str) -> ActionRecord:
        """Return the record of an action; an empty one if it never ran."""
        return self.records.get(action, NEVER_RAN)
