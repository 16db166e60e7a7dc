"""A limit on a load that the installation measures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.scheduling.constraints.constraint import (
    Constraint,
    ConstraintContext,
    OnUnmet,
    RequiredFacts,
    Ruling,
    after_more_urgent,
    later,
    load_wait_key,
)
from airflow_snowpack.scheduling.declared import declaration, optional


def parse_probe(value: object) -> str:
    """:raises ValueError: it does not name a function."""
    module, colon, function = str(value).partition(":")
    if not colon or not function.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError('it must name a function as "package.module:function"')
    return str(value)


def parse_limit(value: object) -> float:
    """:raises ValueError: it is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError("it must be a number above zero")
    return float(value)


@declaration
class ClusterLoad(Constraint):
    """Only while the load that a probe of the installation returns is below a limit, and nothing more urgent waits for that.

    :param probe: ``"package.module:function"``; the function takes no arguments and returns a number.
    :param each: how much one run adds, as the probe measures it. A run that may start counts until the probe can show it, a
        minute later. ``None``: not known, so that one run starts at a time.
    """

    kind: ClassVar[str] = "cluster_load"
    checks: ClassVar = {"probe": parse_probe, "below": parse_limit, "each": optional(parse_limit)}
    probe: str
    below: float = 0.8
    on_unmet: OnUnmet = OnUnmet.WAIT
    each: float | None = None

    def evaluate(self, context: ConstraintContext) -> Ruling:
        load, key = context.load(self.probe), self.wait_key(context.dag_id)
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
