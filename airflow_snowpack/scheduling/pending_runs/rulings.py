"""What all constraints of a run say together.

    rulings = rule_all(constraints, facts, before)
    if rulings.skips: ...        # it is not to start at all
    elif rulings.all_met: ...    # it may start now
    else: rulings.next_look(now)

The invariant: **no constraint is asked before the moment that it named.** What it said then stands until that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_snowpack.scheduling.constraints.constraint import (
    RECHECK,
    Constraint,
    ConstraintContext,
    Ruling,
    Verdict,
    dag_wait_key,
    group_wait_key,
)
from airflow_snowpack.scheduling.pending_runs.model import Reason

WOKEN = (dag_wait_key(""), group_wait_key(""))


@dataclass(frozen=True, slots=True)
class Rulings:
    """What each constraint said, in the order of the constraints."""

    said: tuple[tuple[Constraint, Ruling], ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The same for people, and for the next look."""
        return tuple(
            Reason(constraint.kind, ruling.says, ruling.verdict is Verdict.MET, ruling.not_before)
            for constraint, ruling in self.said
        )

    @property
    def all_met(self) -> bool:
        return all(ruling.verdict is Verdict.MET for _, ruling in self.said)

    @property
    def skips(self) -> tuple[str, ...]:
        """Why the run is to be skipped; nothing while another constraint lets it wait, since it could not start anyway."""
        return () if self._later else tuple(ruling.says for _, ruling in self.said if ruling.verdict is Verdict.NEVER)

    @property
    def not_before(self) -> datetime | None:
        """All must be met, so the latest of the moments that were named; ``None`` when none was."""
        return max((ruling.not_before for ruling in self._later if ruling.not_before is not None), default=None)

    def next_look(self, now: datetime, recheck: timedelta = RECHECK) -> datetime:
        """When to look again: at the moment that was named or, where none was, soon."""
        return self.not_before or now + recheck

    @property
    def waits_for(self) -> str | None:
        """What may wake it, and what it stands in line for: nothing while a moment keeps it anyway.

        Of several, the end of a run first, because that is told; a free slot has to be looked for.
        """
        if self.not_before is not None:
            return None
        keys = [ruling.waits_for for ruling in self._later if ruling.waits_for is not None]
        return min(keys, key=lambda key: not key.startswith(WOKEN), default=None)

    @property
    def _later(self) -> list[Ruling]:
        return [ruling for _, ruling in self.said if ruling.verdict is Verdict.LATER]


def rule_all(constraints: Sequence[Constraint], facts: ConstraintContext, before: Sequence[Reason] = ()) -> Rulings:
    """Ask the constraints.

    :param before: what the same constraints said when they were asked last, in their order; nothing for the first time.
    """
    kept = [_kept(reason, facts.now) for reason in before[: len(constraints)]]
    kept += [None] * (len(constraints) - len(kept))
    return Rulings(tuple((one, earlier or one.rule(facts)) for one, earlier in zip(constraints, kept, strict=True)))


def _kept(earlier: Reason, now: datetime) -> Ruling | None:
    """What a constraint said that has named a moment which has not come."""
    if earlier.met or earlier.not_before is None or earlier.not_before <= now:
        return None
    return Ruling(Verdict.LATER, earlier.says, earlier.not_before)
