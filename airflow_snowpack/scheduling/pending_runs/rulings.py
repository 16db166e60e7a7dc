"""The results of all constraints of a run together.

    rulings = rule_all(constraints, context, before)
    if rulings.skips: ...        # it is not to start at all
    elif rulings.all_met: ...    # it may start now
    else: rulings.next_check(now)

The invariant: **no constraint is evaluated before the moment that it named.** Its last result holds until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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
    """The ruling of each constraint, in the order of the constraints."""

    each: tuple[tuple[Constraint, Ruling], ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The rulings as they are stored and shown."""
        return tuple(
            Reason(constraint.kind, ruling.text, ruling.verdict is Verdict.MET, ruling.not_before)
            for constraint, ruling in self.each
        )

    @property
    def all_met(self) -> bool:
        return all(ruling.verdict is Verdict.MET for _, ruling in self.each)

    @property
    def skips(self) -> tuple[str, ...]:
        """Why the run is to be skipped; nothing while it waits for another constraint, since it could not start anyway."""
        return () if self._later else tuple(ruling.text for _, ruling in self.each if ruling.verdict is Verdict.NEVER)

    @property
    def not_before(self) -> datetime | None:
        """The latest of the moments that were named, since all must be met; ``None`` when none was."""
        return max((ruling.not_before for ruling in self._later if ruling.not_before is not None), default=None)

    def next_check(self, now: datetime) -> datetime:
        """Return the moment that was named or, where none was, one that is soon."""
        return self.not_before or now + RECHECK

    @property
    def waits_for(self) -> str | None:
        """The key of the queue that it waits in; none while it waits for a moment anyway.

        Of several, the end of a run comes first, because that is reported; a free slot has to be polled for.
        """
        if self.not_before is not None:
            return None
        keys = [ruling.waits_for for ruling in self._later if ruling.waits_for is not None]
        return min(keys, key=lambda key: not key.startswith(WOKEN), default=None)

    @property
    def _later(self) -> list[Ruling]:
        return [ruling for _, ruling in self.each if ruling.verdict is Verdict.LATER]


def rule_all(constraints: Sequence[Constraint], context: ConstraintContext, before: Sequence[Reason] = ()) -> Rulings:
    """Evaluate the constraints.

    :param before: the results of the same constraints at the last evaluation, in their order; nothing for the first time.
    """
    kept = [_kept(reason, context.now) for reason in before[: len(constraints)]]
    kept += [None] * (len(constraints) - len(kept))
    return Rulings(tuple((one, earlier or one.rule(context)) for one, earlier in zip(constraints, kept, strict=True)))


def _kept(earlier: Reason, now: datetime) -> Ruling | None:
    """Return the last result of a constraint that named a moment which is still to come."""
    if earlier.met or earlier.not_before is None or earlier.not_before <= now:
        return None
    return Ruling(Verdict.LATER, earlier.text, earlier.not_before)
