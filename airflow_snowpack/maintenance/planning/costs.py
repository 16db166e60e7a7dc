"""What an action takes: a first guess from its bytes and files, corrected by what earlier runs on the same table took.

The guess is a line, the :class:`~.finding.Rate` of the action. A factor per table and action, learned from outcomes
(:class:`~airflow_snowpack.jobs.action_history.ActionRecord`), scales it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_snowpack.jobs.action_history import ActionRecord
    from airflow_snowpack.maintenance.options import ActionOptions
    from airflow_snowpack.maintenance.planning.finding import Estimate

SESSION_GB = 4.0
"""Until an outcome shows more: the memory of the Spark session, in GB."""


def with_cost(options: ActionOptions, work: Estimate, record: ActionRecord) -> Estimate:
    """Return the estimate with its duration and its GB·h, and corrected by earlier outcomes."""
    if not options.rewrites_files:  # otherwise a factor would only repeat what a concurrent writer changed the last time
        work = replace(work, files_removed=round(work.files_removed * record.files_factor))
    seconds = options.rate.seconds(work)
    gb_hours = seconds * SESSION_GB / 3600 * record.cost_factor
    return replace(work, seconds=round(seconds * record.seconds_factor, 3), gb_hours=round(gb_hours, 6))
