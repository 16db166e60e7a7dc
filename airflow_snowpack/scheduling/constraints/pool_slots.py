"""Free slots in an Airflow pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    FactUnavailable,
    OnUnmet,
    RequiredFacts,
    Ruling,
    after_more_urgent,
    later,
    pool_wait_key,
)
from airflow_snowpack.scheduling.declared import declaration, parse_count, parse_text


@declaration
class PoolSlots(Constraint):
    """Only while an Airflow pool has so many free slots that no more urgent schedule waits for.

    A run that may start reserves as many, until Airflow shows it in the pool.
    """

    kind: ClassVar[str] = "pool_slots"
    checks: ClassVar = {"pool": parse_text, "free": parse_count}
    pool: str
    free: int = 1
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context: ConstraintContext) -> Ruling:
        key = self.wait_key(context.dag_id)
        try:
            free = context.free_slots(self.pool)
        except FactUnavailable as unavailable:
            return later(str(unavailable), waits_for=key)
        if free is None:
            return later(f"there is no pool {self.pool!r}", waits_for=key)
        reserved = context.held(key)
        text = f"pool {self.pool} has {plural(free, 'free slot')}"
        text += f", {reserved} reserved for starting runs" if reserved else ""
        if free - reserved < self.free:
            return later(f"{text}; {self.free} needed", waits_for=key)
        return after_more_urgent(context, key, text)

    def required_facts(self, dag_id: str) -> RequiredFacts:
        return RequiredFacts(pools={self.pool})

    def wait_key(self, dag_id: str) -> str:
        return pool_wait_key(self.pool)

    def reserves(self) -> Mapping[str, int]:
        return {pool_wait_key(self.pool): self.free}
