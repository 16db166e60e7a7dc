"""A delay after the trigger."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling.constraints.constraint import Constraint, ConstraintContext, OnUnmet, Ruling, later, met
from airflow_snowpack.scheduling.declared import as_period, declaration, parse_period


@declaration
class Delay(Constraint):
    """Not before so long after the trigger was satisfied."""

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
