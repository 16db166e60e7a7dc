"""What a pass of the collector found and did.

collected = collector.run(dry_run=True)
[str(doomed.table) for doomed in collected.dropped]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.names import Producer


@dataclass(frozen=True, slots=True)
class DueRun:
    """A DAG run that is to be looked at.

    :param looks: how often it was looked at since something happened in it.
    :param touches: tells whether something was written about it meanwhile.
    """

    run_key: str
    dag_id: str
    run_id: str
    looks: int
    touches: int


@dataclass(frozen=True, slots=True)
class Doomed:
    """A table that nobody needs, held by the collector that drops it.

    :param location: its folder, as far as it is known.
    :param attempt_id: the fence.
    :param drops: how many tries to drop it were begun, this one counted.
    :param handed_on: whether it was ever complete, so that there has to be a table.
    """

    table_id: str
    table: TableName
    producer: Producer
    rows: int | None
    location: str | None
    run_key: str
    attempt_id: str
    drops: int
    handed_on: bool


@dataclass(frozen=True, slots=True)
class NotDropped:
    """A table whose drop failed; it is tried again."""

    table: Doomed
    error: str


@dataclass(frozen=True, slots=True)
class NotFound:
    """A table that nobody needs, and that there was nothing to drop of. It is on record no more."""

    table: Doomed
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did, or would do.

    :param runs: how many DAG runs it looked at.
    :param missing: tables that should have been in the catalog, and were not.
    :param kept: how many tables of theirs stay.
    :param looks_again_at: when the first of these runs is looked at next, if nothing happens before; ``None`` for never.
    """

    runs: int = 0
    dropped: tuple[Doomed, ...] = ()
    failed: tuple[NotDropped, ...] = ()
    kept: int = 0
    looks_again_at: datetime | None = None
    missing: tuple[NotFound, ...] = ()

    def __add__(self, other: Collected) -> Collected:
        moments = [moment for moment in (self.looks_again_at, other.looks_again_at) if moment is not None]
        return Collected(
            self.runs + other.runs,
            self.dropped + other.dropped,
            self.failed + other.failed,
            self.kept + other.kept,
            min(moments, default=None),
            self.missing + other.missing,
        )


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
