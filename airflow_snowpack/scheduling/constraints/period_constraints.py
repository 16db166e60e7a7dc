"""Constraints on periods: a delay after the trigger, the time since the last successful run, launches within a period."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    OnUnmet,
    RequiredFacts,
    Ruling,
    dag_wait_key,
    later,
    met,
)
from airflow_snowpack.scheduling.declared import as_period, declaration, parse_count, parse_period


@declaration
class SinceLastRun(Constraint):
    """Only after a period since the last successful run of the DAG ended, and while no run of it is active."""

    kind: ClassVar[str] = "since_last_run"
    checks: ClassVar = {"period": parse_period}
    period: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context: ConstraintContext) -> Ruling:
        if context.active_runs(context.dag_id):
            return later(f"a run of {context.dag_id} is active", waits_for=self.wait_key(context.dag_id))
        ended, period = context.last_success(context.dag_id), as_period(self.period)
        if ended is None or context.now >= ended + period:
            return met(f"no run of {context.dag_id} succeeded within {duration(period)}")
        return later(f"a run of {context.dag_id} succeeded less than {duration(period)} ago", ended + period)

    def required_facts(self, dag_id: str) -> RequiredFacts:
        return RequiredFacts(dag_runs={dag_id}, successes={dag_id})

    def wait_key(self, dag_id: str) -> str:
        return dag_wait_key(dag_id)

    @property
    def max_active(self) -> int:
        return 1


@declaration
class Delay(Constraint):
    """Only after a delay since the trigger was satisfied."""

    kind: ClassVar[str] = "delay"
    may_skip: ClassVar[bool] = False
    checks: ClassVar = {"period": parse_period}
    period: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context: ConstraintContext) -> Ruling:
        period = as_period(self.period)
        if context.now >= (due := context.triggered_at + period):
            return met(f"{duration(period)} after the trigger")
        return later(f"delayed by {duration(period)}", due)


@declaration
class MaxRuns(Constraint):
    """At most a number of launches of this schedule within any period of this length."""

    kind: ClassVar[str] = "max_runs"
    checks: ClassVar = {"limit": parse_count, "per": parse_period}
    limit: int
    per: timedelta | str
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context: ConstraintContext) -> Ruling:
        per = as_period(self.per)
        launches = [moment for moment in context.launches_since(context.now - per) if moment > context.now - per]
        text = f"{len(launches)} of at most {self.limit} launches within {duration(per)}"
        return met(text) if len(launches) < self.limit else later(text, launches[-self.limit] + per)

    def required_facts(self, dag_id: str) -> RequiredFacts:
        return RequiredFacts(launches_within=as_period(self.per))
