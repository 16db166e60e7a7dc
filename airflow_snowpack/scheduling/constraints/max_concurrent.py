"""At most so many active runs of a DAG or of a group of DAGs."""

from __future__ import annotations

from typing import ClassVar

from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    OnUnmet,
    RequiredFacts,
    Ruling,
    after_more_urgent,
    dag_wait_key,
    group_wait_key,
    later,
)
from airflow_snowpack.scheduling.declared import declaration, optional, parse_count, parse_text


@declaration
class MaxConcurrent(Constraint):
    """At most so many active runs of the DAG or, with a group, of all DAGs whose schedules name the group.

    Every active run counts, manual runs and backfills too.
    """

    kind: ClassVar[str] = "max_concurrent"
    checks: ClassVar = {"limit": parse_count, "group": optional(parse_text)}
    limit: int
    group: str | None = None
    on_unmet: OnUnmet = OnUnmet.WAIT

    def evaluate(self, context: ConstraintContext) -> Ruling:
        if self.group is None:
            active, whose = context.active_runs(context.dag_id), context.dag_id
        else:
            active, whose = context.active_runs_of_group(self.group), f"group {self.group}"
        key = self.wait_key(context.dag_id)
        text = f"{active} of at most {self.limit} runs of {whose} are active"
        return after_more_urgent(context, key, text) if active < self.limit else later(text, waits_for=key)

    def required_facts(self, dag_id: str) -> RequiredFacts:
        return RequiredFacts(dag_runs={dag_id}, groups=set() if self.group is None else {self.group})

    def wait_key(self, dag_id: str) -> str:
        return dag_wait_key(dag_id) if self.group is None else group_wait_key(self.group)

    @property
    def max_active(self) -> int:
        return self.limit
