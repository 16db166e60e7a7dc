"""Decide what a table needs from its stored health and its policy alone: no I/O, no Spark, about 0.3 ms a table.

For each action, the policy's blocks come first (excluded, frozen, disabled), then the health, failures in a row, the policy's
times (cadence, quiet window), and the DAGs that write to the table. An action runs when a threshold is reached, or when its
deadline has passed and it has anything to do; past its deadline it does not wait for writers. Even then, the removal of orphan
files keeps those that an active writer may still commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from airflow_snowpack.humanize import duration, timestamp
from airflow_snowpack.iceberg.health import TableHealth, score
from airflow_snowpack.jobs.action_history import ActionHistory
from airflow_snowpack.maintenance.action import in_order
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.planning.finding import Cause, Estimate, Facts, Finding
from airflow_snowpack.maintenance.planning.model import ActionVerdict, Decision, TablePlan
from airflow_snowpack.maintenance.policies import ActionPolicy, TablePolicy
from airflow_snowpack.maintenance.table_defaults import LEFT_TO_TABLE, table_defaults
from airflow_snowpack.maintenance.writers import CLEAR, TableWriters

NO_HISTORY = ActionHistory()
SESSION_GB = 4.0
"""The assumed memory of the Spark session, in GB, until an outcome is known."""
SHRINKING_STEPS = 4
"""How often the bytes of a rewrite are reduced to fit, because its duration is not quite proportional to them."""


@dataclass(frozen=True, slots=True)
class Case:
    """An action to decide about.

    :param policy: of the table; ``own`` is that of the action.
    :param requested: a user or task requests this table's maintenance, so failures in a row do not delay it.
    """

    policy: TablePolicy
    own: ActionPolicy
    facts: Facts
    requested: bool = False


def plan_table(
    health: TableHealth,
    policy: TablePolicy,
    *,
    now: datetime,
    history: ActionHistory = NO_HISTORY,
    writers: Callable[[], TableWriters] | None = None,
    order: Sequence[str] = (),
    requested: bool = False,
    first_removal: Callable[[], bool] | None = None,
) -> TablePlan:
    """Return a decision for each action of the policy.

    :param health: as stored, read with the policy's bounds.
    :param now: the time for cadences, deadlines, windows and ages.
    :param history: each action's runs, and how its outcomes compare with its estimates.
    :param writers: returns the DAGs that write to the table; called if an action depends on them. ``None``: they do not matter.
    :param order: the installation's order of actions.
    :param requested: a user or task requests this table's maintenance, so failures in a row do not delay it.
    :param first_removal: returns whether orphan files of the table were never deleted for good; called if an action depends on
        it. A first removal can be undone, or waits for an approval. ``None``: it is like any other.
    """
    decisions: list[Decision] = []
    running: dict[str, Finding] = {}
    begins_after = timedelta()
    for action in _in_order(tuple(policy.actions), tuple(order)):
        own = policy.actions[action]
        limits = own.thresholds, own.deadline, policy.max_rewrite_bytes
        facts = Facts(health, now, policy.table.catalog, *limits, history.of(action), running)
        case = Case(policy, own, facts, requested)
        decision = _blocked(case)
        if decision is None:
            finding, decision = _decide(case, own.options.find(facts), writers, begins_after, first_removal)
            if decision.estimate is not None:
                running[action] = finding
                begins_after += timedelta(seconds=decision.estimate.seconds)
        decisions.append(decision)
    location, points = health.metadata_location, score(health).total
    return TablePlan(policy.table, location, now, tuple(decisions), points, health.table_uuid, running)


_in_order = lru_cache(maxsize=16)(in_order)
"""The tables of a fleet have the same actions."""


def _blocked(case: Case) -> Decision | None:
    """Return the skip of an action that the policy forbids, whatever the health."""
    policy, own = case.policy, case.own
    if policy.skip is not None:
        return _skip(case, Cause.EXCLUDED, f"excluded by the policy: {policy.skip}")
    if policy.frozen_until is not None and case.facts.now < policy.frozen_until:
        return _skip(case, Cause.FROZEN, f"frozen until {timestamp(policy.frozen_until)}", policy.frozen_until)
    forbidden = table_defaults(case.facts.health.properties).forbidden.get(own.action)
    if forbidden is not None and (own.enabled or own.action in policy.forbidden):
        return _skip(case, Cause.PROTECTED, forbidden)
    if not own.enabled:
        return _skip(case, Cause.DISABLED, f"disabled by {policy.origin(f'{own.action}.enabled')}")
    return None


def _decide(
    case: Case,
    finding: Finding,
    writers: Callable[[], TableWriters] | None,
    begins_after: timedelta,
    first_removal: Callable[[], bool] | None,
) -> tuple[Finding, Decision]:
    """Return the decision and its finding: a smaller one if a writer is due before the rewrite would end."""
    refusal = _refused(case, finding)
    if refusal is not None:
        return finding, refusal
    assert finding.work is not None
    estimate, clearance = _with_cost(case, finding.work), CLEAR
    if writers is not None and case.own.options.rewrites_files and not case.facts.overdue:
        clearance = writers().clear(begins_after + timedelta(seconds=estimate.seconds), case.facts.now)
        if clearance.within is not None:
            smaller = _smaller(case, estimate, clearance.within - begins_after)
            if smaller is None:
                return finding, _skipped(case, finding, Cause.PRODUCER, clearance.until, clearance.reason)
            finding, estimate = smaller
    finding = case.own.options.protected(finding, case.facts, writers, first_removal)
    evidence = finding.evidence
    if not finding.needed:
        evidence += "; overdue: the deadline is " + duration(case.own.deadline or timedelta())
    if reason := clearance.for_part or clearance.reason:
        evidence += f"; {reason}"
    cause = Cause.NEEDED if finding.needed else Cause.DEADLINE
    options = {**_given_options(case), **finding.options}
    decision = Decision(
        case.own.action, ActionVerdict.RUN, cause, evidence, finding.metrics, estimate, options, reconsider_at=clearance.until
    )
    return finding, decision


def _refused(case: Case, finding: Finding) -> Decision | None:
    """Return the skip of an action that is not needed, or not now."""
    own, last = case.own, case.facts.record.last_run_at
    if finding.hindrance is not None:
        return _skipped(case, finding, finding.hindrance)
    overdue = case.facts.overdue and finding.work is not None
    if finding.work is None or not (finding.needed or overdue):
        return _skipped(case, finding, Cause.HEALTHY, _next_deadline(case, finding))
    retry_at = None if case.requested else case.facts.record.retry_at
    if last is not None and retry_at is not None and case.facts.now < retry_at:
        why = f"failed {case.facts.record.failures} times in a row, last at {timestamp(last)}; retried at {timestamp(retry_at)}"
        return _skipped(case, finding, Cause.FAILING, retry_at, why)
    if own.cadence is not None and last is not None and case.facts.now < last + own.cadence:
        why = f"last run {duration(case.facts.now - last)} ago, cadence {duration(own.cadence)}"
        return _skipped(case, finding, Cause.NOT_DUE, last + own.cadence, why)
    quiet = case.policy.quiet_at(case.facts.now)
    if quiet is not None:
        return _skipped(case, finding, Cause.QUIET, quiet.until, str(quiet))
    return None


def _with_cost(case: Case, work: Estimate) -> Estimate:
    """Return the estimate with duration and GB·h by the action's rate, corrected by earlier runs."""
    options, record = case.own.options, case.facts.record
    if not options.rewrites_files:  # otherwise the factor would reflect the last concurrent writer
        work = replace(work, files_removed=round(work.files_removed * record.files_factor))
    seconds = options.rate.seconds(work)
    gb_hours = seconds * SESSION_GB / 3600 * record.cost_factor
    return replace(work, seconds=round(seconds * record.seconds_factor, 3), gb_hours=round(gb_hours, 6))


def _smaller(case: Case, estimate: Estimate, within: timedelta) -> tuple[Finding, Estimate] | None:
    """Return a part of the work that takes no longer than this; ``None`` if there is none."""
    limit = estimate.bytes_rewritten
    for _ in range(SHRINKING_STEPS):
        limit = int(min(limit, case.policy.max_rewrite_bytes) * within.total_seconds() / estimate.seconds)
        if limit <= 0:
            return None
        finding = case.own.options.find(replace(case.facts, max_rewrite_bytes=limit))
        if finding.work is None:
            return None
        estimate = _with_cost(case, finding.work)
        if estimate.seconds <= within.total_seconds():
            return finding, estimate
    return None


def _given_options(case: Case) -> dict[str, object]:
    given, prefix = case.own.options.to_json(), f"{case.own.action}.options."
    left = {path.removeprefix(prefix) for path in LEFT_TO_TABLE - case.policy.ruled if path.startswith(prefix)}
    options = {name: value for name, value in given.items() if name not in left}
    try:
        parse_options(case.own.action, options)
    except InvalidOption:
        return given  # a rule's size fits the table's target, not the default
    return options


def _next_deadline(case: Case, finding: Finding) -> datetime | None:
    """Return when a healthy action may run although nothing changes: the finding's time, or its deadline."""
    last, deadline = case.facts.record.last_success_at, case.own.deadline
    moments = [finding.reconsider_at]
    if finding.work is not None and deadline is not None and last is not None:
        moments.append(last + deadline)
    return min((moment for moment in moments if moment is not None), default=None)


def _skipped(case: Case, finding: Finding, cause: Cause, at: datetime | None = None, why: str | None = None) -> Decision:
    evidence = finding.evidence if why is None else f"{finding.evidence}; {why}"
    return Decision(
        case.own.action, ActionVerdict.SKIP, cause, evidence, finding.metrics, reconsider_at=at or finding.reconsider_at
    )


def _skip(case: Case, cause: Cause, evidence: str, at: datetime | None = None) -> Decision:
    return Decision(case.own.action, ActionVerdict.SKIP, cause, evidence, reconsider_at=at)
