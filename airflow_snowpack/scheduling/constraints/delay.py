"""A delay after the trigger."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

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
        due = context.triggered_at + as_period(self.period)
        if context.now >= due:
            return met(f"{self.period} have passed since the trigger")
        return later(f"delayed by {self.period}", due)
