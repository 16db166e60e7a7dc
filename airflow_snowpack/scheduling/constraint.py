"""What every run constraint is: a condition under which a run that is wanted may start.

A constraint rules: it is met, or it is not met and may be looked at again from a moment on (or when something happens),
or it never will be. The invariant: a ruling that names a moment stands until then, so nobody need look again sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from airflow_snowpack.scheduling.declared import Declared
from airflow_snowpack.scheduling.errors import InvalidSchedule

if TYPE_CHECKING:
    from airflow_snowpack.scheduling.airflow_port import Unavailable


class Verdict(StrEnum):
    """Met; not met now; never."""

    MET = "met"
    LATER = "later"
    NEVER = "never"


class OnUnmet(StrEnum):
    """What becomes of a run whose constraint is not met: it waits, or it is skipped."""

    WAIT = "wait"
    SKIP = "skip"


class Ruling(NamedTuple):  # which costs a tenth of a dataclass when a DAG file is parsed
    """What a constraint says now.

    :param says: why, for people.
    :param not_before: it need not be asked again before this moment; ``None`` when nobody knows the moment.
    :param waits_for: the key of what may change it sooner, such as ``dag:maintain_page_views``.
    """

    verdict: Verdict
    says: str
    not_before: datetime | None = None
    waits_for: str | None = None


class Untold(Exception):
    """A constraint asked for what is not known; it is ruled on later."""


class Facts(Protocol):
    """What constraints may ask about the world, for one pending job."""

    @property
    def now(self) -> datetime: ...

    @property
    def dag_id(self) -> str: ...

    @property
    def schedule(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def triggered_at(self) -> datetime:
        """Since when the trigger is satisfied."""
        ...

    def active_runs(self, dag_id: str) -> int:
        """How many runs of the DAG are queued or running or about to be launched, whoever started them."""
        ...

    def active_runs_of_group(self, group: str) -> int:
        """How many runs of the group's DAGs are."""
        ...

    def last_success(self, dag_id: str) -> datetime | None:
        """When a run of the DAG last ended in success."""
        ...

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        """When this schedule launched since then, oldest first."""
        ...

    def free_slots(self, pool: str) -> int | Unavailable | None:
        """How many slots of the Airflow pool are free; ``None`` when there is no such pool."""
        ...

    def load(self, probe: str) -> float:
        """What a load probe says now."""
        ...

    def held(self, key: str) -> int:
        """How many slots of a pool, or runs of a load, are promised to runs that Airflow does not show there yet."""
        ...

    def more_urgent(self, key: str) -> int:
        """How many pending jobs of a higher priority wait for the same thing."""
        ...


class Constraint(Declared):
    """A run constraint."""

    on_unmet: OnUnmet
    may_skip: ClassVar[bool] = True

    def rule(self, facts: Facts) -> Ruling:
        """Whether a run may start now, with what is to become of one that may not."""
        try:
            ruling = self.look(facts)
        except Untold as untold:
            return later(str(untold))  # no guess: neither is it met, nor is a run skipped for it
        if ruling.verdict is Verdict.LATER and self.on_unmet is OnUnmet.SKIP:
            return Ruling(Verdict.NEVER, f"{ruling.says} (on_unmet is skip)")
        return ruling

    def look(self, facts: Facts) -> Ruling:
        """Whether a run may start now."""
        raise NotImplementedError

    def _read_on_unmet(self) -> None:
        def parse(value: Any) -> OnUnmet:
            if value not in tuple(OnUnmet):
                raise ValueError("it must be wait or skip")
            if value == OnUnmet.SKIP and not self.may_skip:
                raise ValueError("this constraint cannot skip; use wait")
            return OnUnmet(value)

        self._read("on_unmet", parse)


def met(says: str) -> Ruling:
    """It is met."""
    return Ruling(Verdict.MET, says)


def later(says: str, not_before: datetime | None = None, waits_for: str | None = None) -> Ruling:
    """It is not met now."""
    return Ruling(Verdict.LATER, says, not_before, waits_for)


def parse_constraint(said: object, kinds: Mapping[str, type[Constraint]]) -> Constraint:
    """A constraint as it is, or from its JSON: one name with its fields.

    :raises InvalidSchedule: it is none, with the field that is to blame.
    """
    if isinstance(said, Constraint):
        return said
    if not isinstance(said, Mapping) or len(said) != 1:
        raise InvalidSchedule("constraint", said, "it must be one constraint: a name with its fields, such as {delay: 10m}")
    ((kind, body),) = said.items()
    if kind not in kinds:
        raise InvalidSchedule("constraint", kind, f"it is not known; use {', '.join(kinds)}")
    return kinds[kind].from_fields(body)


RECHECK = timedelta(seconds=30)
"""How soon a constraint whose moment nobody knows is looked at again, when nothing wakes it sooner."""
