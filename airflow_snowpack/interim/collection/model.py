"""What the collector reads from Airflow, drops, and reports.

    states = run_states.read([RunQuery("flights", "scheduled__2026…", frozenset({"clean", "report"}))])
    states["flights", "scheduled__2026…"].is_finished("report")

Airflow alone decides which tasks still need a table. Invariant: a task counts as finished only if Airflow reports **every**
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
"""A task instance in one of these states does not run again by itself. ``up_for_retry``, ``deferred``, ``restarting``, no state
yet and all others are not among them."""

RUNNING = frozenset({"running", "restarting"})
"""Airflow starts no task in a run that is over, so only instances in these states may still be working."""


class RunPhase(StrEnum):
    ACTIVE = "active"
    OVER = "over"
    GONE = "gone"
    """Airflow no longer has this run."""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A DAG run, and the tasks whose states are needed."""

    dag_id: str
    run_id: str
    task_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class DagRunState:
    """A DAG run as Airflow reports it.

    :param tasks: the state of each instance of each requested task, by map index (-1: not mapped); ``None`` or ``""`` for no
        state. A task that is missing here has no instance in Airflow.
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
        """Return whether this instance of the task is not running, and will not run again by itself."""
        if self.phase is RunPhase.GONE:
            return True
        states = self.tasks.get(task_id, {})
        if self.is_active:  # a missing instance may still be created
            return states.get(map_index) in FINISHED
        return states.get(map_index) not in RUNNING


States = Mapping[tuple[str, str], DagRunState]
"""By DAG id and run id."""


class RunStates(Protocol):
    """Queries a public interface of Airflow, and never guesses."""

    def read(self, queries: Sequence[RunQuery]) -> States:
        """Return the states of these runs, without unreadable ones, which are checked again later.

        :raises SnowpackError: Airflow does not answer.
        """


@dataclass(frozen=True, slots=True)
class DueRun:
    """A DAG run that the collector must check.

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

    :param location: its folder, if known.
    :param attempt_id: the fence token.
    :param drops: the number of attempts to drop it, including this one.
    :param committed: whether it was ever complete, so the catalog must have it.
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
    table: TableToDrop
    reason: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did or, in a dry run, would do.

    :param runs: the number of DAG runs it checked.
    :param failed: tables whose drop failed and is retried.
    :param missing: tables that the catalog should have had, but had not; their records are deleted.
    :param kept: the number of tables of these runs that stay.
    :param next_check_at: when the first of these runs is checked next unless something happens before; ``None`` for never.
    """

    runs: int = 0
    dropped: tuple[TableToDrop, ...] = ()
    failed: tuple[NotDropped, ...] = ()
    kept: int = 0
    next_check_at: datetime | None = None
    missing: tuple[NotDropped, ...] = ()

    @property
    def drops(self) -> int:
        return len(self.dropped) + len(self.failed) + len(self.missing)

    @property
    def changed_runs(self) -> set[str]:
        """The keys of the runs that now have fewer recorded tables."""
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
