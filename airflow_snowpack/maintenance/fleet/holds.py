"""Why a table that needs maintenance waits, when its pass is planned and again, hours later, before its job starts.

    held_reason(plan)                       # '…; quiet until …': nothing of the plan runs now
    hold_of(entry, policy, writers, now)    # None: the job of the entry may start

The invariant: a waiting table has a reason, and the reason is checked again before its job starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration, timestamp
from airflow_snowpack.maintenance.options import rewrites_files
from airflow_snowpack.maintenance.planning.finding import Cause
from airflow_snowpack.maintenance.writers import LONGEST_RUN, RECHECK_INTERVAL

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.fleet.model import PassEntry
    from airflow_snowpack.maintenance.planning.model import TablePlan
    from airflow_snowpack.maintenance.policies import TablePolicy
    from airflow_snowpack.maintenance.writers import DagsOfTables, TableWriters

HELD = frozenset({Cause.QUIET, Cause.WRITING, Cause.PRODUCER, Cause.FAILING})
"""The causes for which an action waits although the table needs it."""
USUAL_DURATIONS = 2
"""A table waits at most this many usual durations of the slowest DAG that writes to it."""
LEAST_PATIENCE = timedelta(hours=3)
"""A table waits at least this long, however fast these DAGs are."""
LEAST_SHARE = 0.8
"""A job starts if this share of its estimate fits before the next run of a DAG; the plan may have used all of that time."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a job does not start now, and until when; ``None``: not in this pass."""

    reason: str
    until: datetime | None = None


def held_reason(plan: TablePlan) -> str | None:
    """Return why nothing of a plan runs although work is needed, such as quiet hours; ``None`` if none is needed."""
    return next((decision.evidence for decision in plan.decisions if decision.cause in HELD), None)


def waits_for_producers(plan: TablePlan) -> bool:
    """Return whether a needed action waits for a DAG that writes to the table."""
    return any(decision.cause is Cause.PRODUCER for decision in plan.decisions)


def writers_after(table: TableName, held_since: datetime | None, now: datetime, dags: Callable[[], DagsOfTables]) -> TableWriters:
    """Return the writers of a table, not to be awaited any more if its plans have waited for too long.

    :param held_since: since when its plans wait for writers; ``None``: the last plan did not.
    """
    writers = dags().writers(table)
    waited = timedelta() if held_since is None else now - held_since
    usual = (each.usual_duration or LONGEST_RUN / USUAL_DURATIONS for each in writers.producers)
    if waited < max((each * USUAL_DURATIONS for each in usual), default=timedelta()) or waited < LEAST_PATIENCE:
        return writers
    text = f"it has waited for {duration(waited)}, so the rewrite does not wait for the DAGs that write to the table"
    return replace(writers, unknown=None, not_awaited=text)


def hold_of(entry: PassEntry, policy: TablePolicy, writers: Callable[[], TableWriters] | None, now: datetime) -> Hold | None:
    """Return why the job of an entry does not start now; ``None`` if it may.

    :param policy: by the table's current properties.
    :param writers: as for the plan of the table.
    """
    if policy.skip is not None:
        return Hold(f"Excluded by the policy since it was planned: {policy.skip}")
    if policy.frozen_until is not None and now < policy.frozen_until:
        return Hold(f"Frozen until {timestamp(policy.frozen_until)}", policy.frozen_until)
    quiet = policy.quiet_at(now)
    if quiet is not None:
        text = str(quiet)
        return Hold(text[0].upper() + text[1:], quiet.until)
    overdue = entry.deadline is not None and entry.deadline <= now
    if writers is None or overdue or not rewrites_files(entry.evidence):
        return None
    needs = timedelta(seconds=entry.estimate.seconds)
    clearance = writers().clear(needs, now)
    if clearance.within is None or clearance.within > needs * LEAST_SHARE:
        return None
    return Hold(f"Waits: {clearance.reason}", clearance.until or now + RECHECK_INTERVAL)
