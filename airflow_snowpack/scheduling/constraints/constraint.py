"""A run constraint: a condition under which a run whose trigger is satisfied may start.

    Delay("10m").rule(context)      # Ruling(Verdict.LATER, "delayed by 10 min", not_before)

A constraint is met, not met until a time or an event, or never met. The invariant: a ruling with a time is valid until then, so
the constraint is not evaluated earlier. Evaluation only reads its context; :meth:`Constraint.required_facts` declares what the
context must have, so that it is read once for a batch of pending runs. ``CONTRIBUTING.md`` shows how to add a constraint.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol

from airflow_snowpack.humanize import plural
from airflow_snowpack.scheduling.declared import Declared
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.kinds import Kinds

RECHECK = timedelta(seconds=30)
"""How soon an unmet constraint without a time is evaluated again if no event wakes it."""


class Verdict(StrEnum):
    """Whether a constraint is met now, may be met later, or will never be met."""

    MET = "met"
    LATER = "later"
    NEVER = "never"


class OnUnmet(StrEnum):
    """Whether a run with an unmet constraint waits or is skipped."""

    WAIT = "wait"
    SKIP = "skip"


class Ruling(NamedTuple):  # costs a tenth of a dataclass when a DAG file is parsed
    """The result of evaluating a constraint.

    :param text: the reason, for people.
    :param not_before: when to evaluate again; ``None`` if unknown.
    :param waits_for: the wait key of what may change it sooner, such as ``dag:maintain_page_views``.
    """

    verdict: Verdict
    text: str
    not_before: datetime | None = None
    waits_for: str | None = None


def met(text: str) -> Ruling:
    return Ruling(Verdict.MET, text)


def later(text: str, not_before: datetime | None = None, waits_for: str | None = None) -> Ruling:
    return Ruling(Verdict.LATER, text, not_before, waits_for)


def dag_wait_key(dag_id: str) -> str:
    """Return the wait key for the end of a run of this DAG."""
    return f"dag:{dag_id}"


def group_wait_key(group: str) -> str:
    """Return the wait key for the end of a run in this group."""
    return f"group:{group}"


def pool_wait_key(pool: str) -> str:
    """Return the wait key for free slots in this pool."""
    return f"pool:{pool}"


def load_wait_key(probe: str) -> str:
    """Return the wait key for a lower load of this probe."""
    return f"load:{probe}"


class FactUnavailable(Exception):
    """A fact that a constraint needs cannot be read now: the run waits instead of starting or being skipped on a guess."""


class RequiredFacts(NamedTuple):
    """What constraints read from their context.

    :param dag_runs: the DAGs whose active runs are counted; ``groups``: the groups.
    :param successes: the DAGs whose last successful end is read.
    :param launches_within: how far back the launches of the schedule are read.
    :param pools: the pools whose free slots are read; ``probes``: the load probes that are called.
    """

    dag_runs: Collection[str] = frozenset()
    groups: Collection[str] = frozenset()
    successes: Collection[str] = frozenset()
    launches_within: timedelta = timedelta(0)
    pools: Collection[str] = frozenset()
    probes: Collection[str] = frozenset()

    @classmethod
    def of(cls, constraints: Iterable[Constraint], dag_id: str) -> RequiredFacts:
        """Return what these constraints together require for a run of this DAG."""
        return cls.merged(each.required_facts(dag_id) for each in constraints)

    @classmethod
    def merged(cls, facts: Iterable[RequiredFacts]) -> RequiredFacts:
        every = list(facts)
        if len(every) < 2:
            return every[0] if every else cls()
        return cls(
            dag_runs=frozenset().union(*(each.dag_runs for each in every)),
            groups=frozenset().union(*(each.groups for each in every)),
            successes=frozenset().union(*(each.successes for each in every)),
            launches_within=max(each.launches_within for each in every),
            pools=frozenset().union(*(each.pools for each in every)),
            probes=frozenset().union(*(each.probes for each in every)),
        )


class ConstraintContext(Protocol):
    """The facts about one pending run, whose trigger is satisfied since ``triggered_at``."""

    now: datetime
    dag_id: str
    schedule: str
    priority: int
    triggered_at: datetime

    def active_runs(self, dag_id: str) -> int:
        """Count the DAG's runs that are queued, running or about to be launched, whatever started them.

        :raises FactUnavailable: Airflow does not answer.
        """

    def active_runs_of_group(self, group: str) -> int:
        """:raises FactUnavailable: Airflow does not answer."""

    def last_success(self, dag_id: str) -> datetime | None:
        """Return when the DAG's last successful run ended."""

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        """Return the times since then at which this schedule launched, oldest first."""

    def free_slots(self, pool: str) -> int | None:
        """Return the number of free slots of the Airflow pool; ``None`` if there is no such pool.

        :raises FactUnavailable: Airflow does not answer.
        """

    def load(self, probe: str) -> float:
        """:raises FactUnavailable: the probe is not registered, or it failed."""

    def held(self, key: str) -> int:
        """Return how much of this wait key is reserved for runs that Airflow or the probe does not show yet."""

    def more_urgent(self, key: str) -> int:
        """Count the pending runs of a higher priority with this wait key."""


class Constraint(Declared):
    """A run constraint. A subclass implements :meth:`evaluate`, and overrides what describes its reads and reservations.

    :cvar may_skip: whether ``on_unmet="skip"`` is allowed.
    """

    on_unmet: OnUnmet
    may_skip: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._read("on_unmet", self._parse_on_unmet)

    def evaluate(self, context: ConstraintContext) -> Ruling:
        """Return whether a run may start now.

        :raises FactUnavailable: from the context; the run waits.
        """
        raise NotImplementedError

    def required_facts(self, dag_id: str) -> RequiredFacts:
        """Return what :meth:`evaluate` reads for a run of this DAG."""
        return RequiredFacts()

    def wait_key(self, dag_id: str) -> str | None:
        """Return the key of the queue in which runs of this DAG wait; ``None`` if only time can meet the constraint.

        Evaluations with the same key exclude each other, so counting and reserving is one step.
        """
        return None

    @property
    def max_active(self) -> int | None:
        """How many runs may be active under the wait key; ``None`` if the constraint counts no runs."""
        return None

    def reserves(self) -> Mapping[str, int]:
        """Return what a starting run reserves by wait key, until Airflow or a probe shows it."""
        return {}

    def verify(self, dag_id: str = "dag") -> None:
        RequiredFacts.of([self], dag_id)
        sorted(self.reserves().items())
        if self.wait_key(dag_id) is None and self.max_active is not None:
            raise TypeError("it limits active runs without a wait key")

    def rule(self, context: ConstraintContext) -> Ruling:
        """Evaluate the constraint and apply ``on_unmet``."""
        try:
            ruling = self.evaluate(context)
        except FactUnavailable as unavailable:
            return later(str(unavailable))
        if ruling.verdict is Verdict.LATER and self.on_unmet is OnUnmet.SKIP:
            return Ruling(Verdict.NEVER, f"{ruling.text} (on_unmet is skip)")
        return ruling

    def _parse_on_unmet(self, value: Any) -> OnUnmet:
        if value not in tuple(OnUnmet):
            raise ValueError("it must be wait or skip")
        if value == OnUnmet.SKIP and not self.may_skip:
            raise ValueError("this constraint cannot skip; use wait")
        return OnUnmet(value)


def after_more_urgent(context: ConstraintContext, key: str, text: str) -> Ruling:
    """Return that a constraint is met, unless pending runs with a higher priority wait under the same key."""
    before = context.more_urgent(key)
    if not before:
        return met(text)
    return later(
        f"{text}, but {plural(before, 'pending run')} with a higher priority {'is' if before == 1 else 'are'} ahead",
        waits_for=key,
    )


def counted_keys(dag_id: str, constraints: Iterable[Constraint]) -> set[str]:
    """Return the wait keys under which a run of the DAG counts, or which its constraints count."""
    keys = set()
    for constraint in constraints:
        keys |= {dag_wait_key(counted) for counted in constraint.required_facts(dag_id).dag_runs}
        if (key := constraint.wait_key(dag_id)) is not None:
            keys.add(key)
    return keys


_HERE = __name__.rpartition(".")[0]
CONSTRAINTS: Kinds[Constraint] = Kinds(
    Constraint,
    "constraint",
    "airflow_snowpack.constraints",
    {
        f"{_HERE}.capacity_constraints": ("max_concurrent", "pool_slots", "cluster_load"),
        f"{_HERE}.period_constraints": ("max_runs", "delay", "since_last_run"),
        f"{_HERE}.time_window": ("time_window",),
    },
)


def usable_constraint(declared: object, dag_id: str) -> Constraint | None:
    """Return a stored constraint of a run of this DAG; ``None`` for an unusable one, which its evaluation reports."""
    try:
        return CONSTRAINTS.verified(_parsed(json.dumps(declared)), dag_id)
    except InvalidSchedule:
        return None


@lru_cache(maxsize=1_000)  # thousands of schedules may have the same few constraints
def _parsed(declared: str) -> Constraint:
    return CONSTRAINTS.parse(json.loads(declared))
