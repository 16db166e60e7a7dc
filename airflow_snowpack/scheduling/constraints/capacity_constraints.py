"""The constraints on capacity: active runs of a DAG or a group, slots of an Airflow pool, and a load that a probe measures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    FactUnavailable,
    OnUnmet,
    RequiredFacts,
    Ruling,
    after_more_urgent,
    dag_wait_key,
    group_wait_key,
    later,
    load_wait_key,
    pool_wait_key,
)
from airflow_snowpack.scheduling.declared import declaration, optional, parse_count, parse_text

MAX_PROBE = 64


@declaration
class MaxConcurrent(Constraint):
    """At most a number of active runs of the DAG or, with a group, of all DAGs whose schedules name the group.

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


@declaration
class PoolSlots(Constraint):
    """Only while an Airflow pool has a number of free slots for which no more urgent schedule waits.

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


def parse_probe(value: object) -> str:
    """:raises ValueError: it is not the name of a load probe."""
    if isinstance(value, str) and ":" in value:
        raise ValueError(
            "it names code, which is no longer allowed; register it under a name in [snowpack] load_probes, and use that name"
        )
    if not isinstance(value, str) or len(value) > MAX_PROBE or not LEVEL.fullmatch(value):
        raise ValueError(
            "it must be the name of a load probe: letters, digits, underscores and hyphens, with a letter or an underscore "
            f"first ({MAX_PROBE} characters at most)"
        )
    return value


def parse_limit(value: object) -> float:
    """:raises ValueError: it is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError("it must be a number above zero")
    return float(value)


@declaration
class ClusterLoad(Constraint):
    """Only while the load that a probe of the installation returns is below a limit, and nothing more urgent waits for that.

    :param probe: a name registered in ``[snowpack] load_probes``.
    :param each: how much one run adds to the probe's value. A starting run counts until the probe can show it, a minute later.
        ``None`` if unknown: one run starts at a time.
    """

    kind: ClassVar[str] = "cluster_load"
    checks: ClassVar = {"probe": parse_probe, "below": parse_limit, "each": optional(parse_limit)}
    probe: str
    below: float = 0.8
    on_unmet: OnUnmet = OnUnmet.WAIT
    each: float | None = None

    def evaluate(self, context: ConstraintContext) -> Ruling:
        key = self.wait_key(context.dag_id)
        try:
            load = context.load(self.probe)
        except FactUnavailable as unavailable:
            return later(str(unavailable), waits_for=key)
        starting = context.held(key)
        text = f"the load is {load:.3g} ({self.probe}), the limit {self.below:g}"
        text += f"; {plural(starting, 'starting run')} not included" if starting else ""
        if (starting and self.each is None) or load + starting * (self.each or 0) >= self.below:
            return later(text, waits_for=key)
        return after_more_urgent(context, key, text)

    def required_facts(self, dag_id: str) -> RequiredFacts:
        return RequiredFacts(probes={self.probe})

    def wait_key(self, dag_id: str) -> str:
        return load_wait_key(self.probe)

    def reserves(self) -> Mapping[str, int]:
        return {load_wait_key(self.probe): 1}
