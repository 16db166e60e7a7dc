"""What the collector reads from Airflow, what it drops, and what it reports.

    states = run_states.read([RunQuery("flights", "scheduled__2026…", frozenset({"clean", "report"}))])
    states["flights", "scheduled__2026…"].is_finished("report")

Airflow alone decides which tasks still need a table. The invariant: a task counts as finished only if Airflow reports **every**
instance of it as finished. What is unknown is not finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.names import Producer

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""A task instance in one of these states does not run again by itself. Not among them: no state yet, ``up_for_retry``,
``deferred``, ``restarting`` and all others."""

RUNNING = frozenset({"running", "restarting"})
"""Airflow starts no task in a run that is over, so that only instances in these states may still be at work."""


class RunPhase(StrEnum):
    """Where a DAG run is in its life."""

    ACTIVE = "active"
    OVER = "over"
    GONE = "gone"
    """Airflow has no such run any more."""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A DAG run, and the tasks whose states are needed."""

    dag_id: str
    run_id: str
    task_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class DagRunState:
    """A DAG run as Airflow reports it.

    :param tasks: for each requested task the state of each instance by map index (-1: not mapped); ``None`` or ``""`` for one
        without a state. A task that is missing here has no instance in Airflow.
    """

    phase: RunPhase
    tasks: Mapping[str, Mapping[int, str | None]] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        return self.phase is RunPhase.ACTIVE

    def is_finished(self, task_id: str) -> bool:
        """Return whether no instance of this task will run again by itself."""
        if not self.is_active:
            return True
        states = self.tasks.get(task_id, {})
        return bool(states) and all(state in FINISHED for state in states.values())

    def has_ended(self, task_id: str, map_index: int) -> bool:
        """Return whether this one instance of the task will not run again by itself, and is not running now."""
        if self.phase is RunPhase.GONE:
            return True
        states = self.tasks.get(task_id, {})
        if self.is_active:  # an instance that Airflow does not have may still be created
            return states.get(map_index) in FINISHED
        return states.get(map_index) not in RUNNING


States = Mapping[tuple[str, str], DagRunState]
"""By DAG id and run id."""


class RunStates(Protocol):
    """Queries a public interface of Airflow, and never guesses."""

    def read(self, queries: Sequence[RunQuery]) -> States:
        """Return the states of these runs; a run that is missing could not be read, and is checked again later.

        :raises SnowpackError: Airflow does not answer.
        """


@dataclass(frozen=True, slots=True)
class DueRun:
    """A DAG run that the collector has to check.

    :param looks: how often it was checked since something happened in it.
    :param touches: changes with each write about the run.
    """

    run_key: str
    dag_id: str
    run_id: str
    looks: int
    touches: int


@dataclass(frozen=True, slots=True)
class TableToDrop:
    """A table that no task needs, leased by the collector that drops it.

    :param location: its folder, if it is known.
    :param attempt_id: the fence token.
    :param drops: how many attempts to drop it were started, including this one.
    :param committed: whether it was ever complete, so that the catalog must have it.
    """

    table_id: str
    table: TableName
    producer: Producer
    rows: int | None
    location: str | None
    run_key: str
    attempt_id: str
    drops: int
    committed: bool


@dataclass(frozen=True, slots=True)
class NotDropped:
    """A table that was not dropped, and why."""

    table: TableToDrop
    reason: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did, or would do.

    :param runs: how many DAG runs it checked.
    :param failed: tables whose drop failed; it is retried.
    :param missing: tables that the catalog should have had, and did not; they are off the record.
    :param kept: how many tables of these runs stay.
    :param next_check_at: when the first of these runs is checked next, if nothing happens before; ``None`` for never.
    """

    runs: int = 0
    dropped: tuple[TableToDrop, ...] = ()
    failed: tuple[NotDropped, ...] = ()
    kept: int = 0
    next_check_at: datetime | None = None
    missing: tuple[NotDropped, ...] = ()

    @property
    def drops(self) -> int:
        """How many drops were started."""
        return len(self.dropped) + len(self.failed) + len(self.missing)

    @property
    def changed_runs(self) -> set[str]:
        """The keys of the runs that have fewer tables on record now."""
        return {table.run_key for table in (*self.dropped, *(each.table for each in self.missing))}

    def __add__(self, other: Collected) -> Collected:
        moments = [moment for moment in (self.next_check_at, other.next_check_at) if moment is not None]
        return Collected(
            self.runs + other.runs,
            self.dropped + other.dropped,
            self.failed + other.failed,
            self.kept + other.kept,
            min(moments, default=None),
            self.missing + other.missing,
        )
