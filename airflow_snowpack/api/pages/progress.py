"""The progress of a trigger and the results of constraints, as lines that a page can show.

progress(explanation.trigger)[0].text, .share      # '3 of 5 partitions of web.page_views', 600
rules(explanation)[0].state                        # 'met', 'waits' or 'idle'
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling import Explanation, PendingState
from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.triggers.trigger import Judgement

FULL = 1000
"""The length of a whole bar, in units of its drawing."""
LEAST = 6
"""What is not zero can be seen."""


@dataclass(frozen=True, slots=True)
class Step:
    """One trigger, or one that a trigger is made of.

    :param share: of :data:`FULL`; ``None`` where nothing is counted.
    :param joined: ``and`` or ``or``, between this one and the one before it.
    :param depth: how deep it is nested.
    :param problem: why it cannot be satisfied as things are.
    """

    text: str
    satisfied: bool
    share: int | None
    next_at: datetime | None
    joined: str | None
    depth: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint.

    :param state: ``met``, ``waits``, or ``idle``: it is checked when the trigger is satisfied.
    :param text: the result of its last check, or its declaration.
    :param not_before: it is not checked again before this moment.
    """

    kind: str
    state: str
    text: str
    not_before: datetime | None = None


def progress(trigger: Judgement, joined: str | None = None, depth: int = 0) -> list[Step]:
    """Return the trigger taken apart into what is counted, each with its share of what is wanted."""
    if trigger.word is None:
        inner = [step for part in trigger.parts for step in progress(part, None, depth + 1)]
        have, want, share = trigger.have, trigger.want, None
        if have is not None and want:
            share = min(max(FULL * have // want, LEAST if have else 0), FULL)
        return [Step(trigger.text, trigger.satisfied, share, trigger.next_at, joined, depth, trigger.problem), *inner]
    deeper = depth + 1 if joined else depth
    return [
        step for number, part in enumerate(trigger.parts) for step in progress(part, trigger.word if number else joined, deeper)
    ]


def rules(explanation: Explanation) -> list[Rule]:
    """The constraints of a schedule in their order."""
    checked = explanation.pending is not None and explanation.pending.state is PendingState.CONSTRAINT
    reasons = explanation.pending.reasons[1:] if explanation.pending is not None and checked else ()
    found = []
    constraints = () if explanation.stored.read is None else explanation.stored.read.constraints
    for number, constraint in enumerate(constraints):
        if number < len(reasons):
            reason = reasons[number]
            found.append(Rule(constraint.kind, "met" if reason.met else "waits", reason.text, reason.not_before))
        else:
            found.append(Rule(constraint.kind, "idle", declared(constraint)))
    return found


def declared(constraint: Constraint) -> str:
    """How a constraint is declared, in a line."""
    ((_, fields),) = constraint.to_json().items()
    values = {name: getattr(constraint, name) for name in fields}
    shown = {name: duration(value) if isinstance(value, timedelta) else fields[name] for name, value in values.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
