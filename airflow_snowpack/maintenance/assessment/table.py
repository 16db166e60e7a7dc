"""Assess one table: what its plan would do if nothing blocked it, and what blocks it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import timestamp
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.maintenance.assessment.model import ActionNeed, TableAssessment
from airflow_snowpack.maintenance.planning import Cause, Estimate, plan_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_snowpack.iceberg.health import TableHealth
    from airflow_snowpack.maintenance.planning import TablePlan
    from airflow_snowpack.maintenance.policies import TablePolicy

NO_LIMIT = 2**62
BLOCKING = (Cause.UNSUPPORTED, Cause.PROTECTED)


def assess_health(health: TableHealth, policy: TablePolicy, *, now: datetime) -> TableAssessment:
    """Return the row of a table.

    To show all that maintenance would do, the plan ignores the policy's exclusion, freeze, quiet windows and byte limit, and
    active writers. An exclusion and a freeze are blockers.

    :param health: read with ``policy.bounds``.
    """
    unhindered = replace(policy, skip=None, frozen_until=None, quiet=(), max_rewrite_bytes=NO_LIMIT)
    plan = plan_table(_without_recent_writes(health), unhindered, now=now)
    found = score(health)
    needs = tuple(
        ActionNeed(each.action, each.evidence, each.estimate or Estimate())
        for each in plan.decisions
        if each.runs and plan.findings[each.action].work != Estimate()
    )
    return TableAssessment(
        table=policy.table.dotted,
        metadata_location=health.metadata_location,
        health=health,
        score=found.total,
        parts=found.parts,
        needs=needs,
        blockers=tuple(_blockers(health, policy, plan, now)),
    )


def _without_recent_writes(health: TableHealth) -> TableHealth:
    """Return the health without recent writes, because plans skip partitions that are being written to."""
    return replace(health, partitions=tuple(replace(each, newest_at=None) for each in health.partitions))


def _blockers(health: TableHealth, policy: TablePolicy, plan: TablePlan, now: datetime) -> Iterator[str]:
    if policy.skip is not None and str(policy.origin("skip")) not in {f"table property {each.name}" for each in policy.problems}:
        yield f"Excluded from maintenance: {policy.skip}"
    if policy.frozen_until is not None and policy.frozen_until > now:
        yield f"Frozen until {timestamp(policy.frozen_until)}"
    for each in plan.decisions:
        if not each.runs and each.cause in BLOCKING and not any(problem.name in each.evidence for problem in policy.problems):
            yield f"{each.action}: {each.evidence}"
    for problem in policy.problems:
        yield problem.message.removesuffix(".")
