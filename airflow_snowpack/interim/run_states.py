"""What this room asks Airflow: how DAG runs and their tasks stand.

    standings = run_states.standings([RunAsked("flights", "scheduled__2026…", frozenset({"clean", "report"}))])
    standings["flights", "scheduled__2026…"].is_finished("report")

Airflow is the only truth about who still needs a table; who implements :class:`RunStates` asks it through a public interface, and
never guesses. The invariant: a task counts as finished only if Airflow says so of **every** instance of it that it has. What is
not known is not finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""A task instance in one of these states will not run again by itself. Not in here: no state yet, ``up_for_retry``, ``deferred``,
``restarting`` and everything else that goes on."""

RUNNING = frozenset({"running", "restarting"})
"""In a run that is over nothing is started any more, so that only these may still be at work."""


class RunPhase(StrEnum):
    """Where a DAG run is in its life."""

    ACTIVE = "active"
    OVER = "over"
    GONE = "gone"
    """Airflow has no such run any more."""


@dataclass(frozen=True, slots=True)
class RunAsked:
    """A DAG run, and which of its tasks matter here."""

    dag_id: str
    run_id: str
    task_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class RunStanding:
    """A DAG run as Airflow has it.

    :param tasks: for each asked task the state of each of its instances by map index (-1: not mapped); ``None`` or ``""`` for one
        without a state. A task that is missing here has no instance that Airflow knows of.
    """

    phase: RunPhase
    tasks: Mapping[str, Mapping[int, str | None]] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.phase is RunPhase.ACTIVE

    def is_finished(self, task_id: str) -> bool:
        """Whether no instance of this task will run again by itself."""
        if not self.is_active:
            return True
        states = self.tasks.get(task_id, {})
        return bool(states) and all(state in FINISHED for state in states.values())

    def has_ended(self, task_id: str, map_index: int) -> bool:
        """Whether this one instance of the task will not run again by itself, nor runs right now."""
        if self.phase is RunPhase.GONE:
            return True
        states = self.tasks.get(task_id, {})
        if self.is_active:  # what Airflow has no instance of may yet come
            return states.get(map_index) in FINISHED
        return states.get(map_index) not in RUNNING


class RunStates(Protocol):
    """Asks Airflow."""

    def standings(self, asked: Sequence[RunAsked]) -> Mapping[tuple[str, str], RunStanding]:
        """How these runs stand, by DAG id and run id; a run that is missing could not be asked about, and stays as it is.

        :raises SnowpackError: Airflow does not answer.
        """
        ...
