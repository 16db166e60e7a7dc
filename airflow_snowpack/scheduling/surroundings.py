"""What the checker and the launcher need of Airflow: who runs, what is free, and starting a run.

The room itself knows no Airflow. A face gives it these two: from the Task SDK inside of a task, from the REST API outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How things stood when they were asked about.

    :param active_runs: the ids of queued and running runs, by DAG.
    :param free_slots: by pool; ``None`` for a pool that does not exist.
    :param loads: by probe.
    """

    active_runs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    free_slots: Mapping[str, int | None] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)


class Surroundings(Protocol):
    """Tells how things stand."""

    def active_runs(self, dag_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """The ids of queued and running runs of these DAGs."""
        ...

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, int | None]:
        """Free slots of these pools; ``None`` for one that does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """A DAG run to start.

    :param run_id: always the same for the same pending job, so that starting it twice is starting it once.
    """

    pending_id: str
    schedule: str
    dag_id: str
    run_id: str
    conf: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Why a run could not be started now: its DAG does not exist, is paused, does not parse, or Airflow does not answer."""

    why: str


class Starter(Protocol):
    """Starts DAG runs."""

    def start(self, launch: Launch) -> NotStarted | None:
        """Start it. ``None``: it is there now, whether it was started by this call or by one before."""
        ...


def ask_probe(probe: str) -> float:
    """What a load probe says.

    :raises Exception: whatever it raises; the caller says so as the constraint's reason.
    """
    module, _, function = probe.partition(":")
    return float(getattr(import_module(module), function)())
