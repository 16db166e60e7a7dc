"""At most so many launches within a period."""

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
    later,
    met,
)
from airflow_snowpack.scheduling.declared import as_period, declaration, parse_count, parse_period


@declaration
class MaxRuns(Constraint):
    """At most so many launches of this schedule within any period of this length."""

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
