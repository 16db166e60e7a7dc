"""What the checker and the launcher need of Airflow: who runs, what is free, and starting a run.

The room itself knows no Airflow. A face gives it these two: from the Task SDK inside of a task, from the REST API outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a DAG run ended.

    :param state: ``success`` or ``failed``.
    :param began_at: when it began, this time; it tells the end of a run from its end after it was cleared.
    """

    state: str
    at: datetime
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DagRuns:
    """The runs of one DAG, as Airflow has them.

    :param others: how many are queued or running that the caller did not name: started by hand, by a backfill, by anybody.
    :param ended: those among the named that have ended, by their ids.
    """

    others: int = 0
    ended: Mapping[str, EndedRun] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndsQuery:
    """Which ends of a DAG's runs are asked for.

    :param since: those before are known, or do not matter.
    :param search: there is reason to think that one is missing, for those who would have to look at run after run.
    :param known: then, the runs that need not be looked at.
    :param after: then, where the search before this one ended.
    """

    dag_id: str
    since: datetime
    search: bool = False
    known: frozenset[str] = frozenset()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class EndsFound:
    """The ends that were found, by run id.

    :param counts: how many runs there are that succeeded and failed; ``None`` when every end since the moment is among ``ended``.
    :param searched_to: where to go on with the search; ``None`` when there was none, or when it is over.
    """

    ended: Mapping[str, EndedRun] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None
    searched_to: str | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """What could not be asked, and why: for people."""

    why: str


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """The free slots of a pool, and who has the others.

    :param taken_by: the runs (DAG and run id) whose tasks are in the pool. They are asked for before the free slots are, so that
        one that comes in between counts once too often, never too rarely.
    """

    free: int
    taken_by: frozenset[tuple[str, str]] = frozenset()


Slots = int | FreeSlots | Unavailable | None
"""What is known of a pool; ``None`` for one that does not exist."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How things stood when they were asked about.

    :param dag_runs: by DAG.
    :param free_slots: by pool.
    :param loads: by probe.
    :param taken_at: before any of it was asked; ``None`` for the moment of whoever looks.
    :param newest_event: the number of the newest event at that moment.
    """

    dag_runs: Mapping[str, DagRuns | Unavailable] = field(default_factory=dict)
    free_slots: Mapping[str, Slots] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    taken_at: datetime | None = None
    newest_event: int = 0


class AirflowPort(Protocol):
    """Tells how things stand."""

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """The runs of these DAGs. What counts those of one that is not known waits.

        :param known: by DAG, the ids of the runs that the store takes for active.
        """
        ...

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """How many of these runs of the DAG are queued or running."""
        ...

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """The ends of these DAGs' runs, whoever started them."""
        ...

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Whether each of these DAGs does not exist; without those that Airflow does not tell about."""
        ...

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Free slots of these pools; ``None`` for one that does not exist. What asks for one that is not known waits."""
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
    """Why a run could not be started now: its DAG does not exist, is paused, does not parse, or Airflow does not answer.

    :param may_exist: Airflow may have created the run all the same, for example when its answer was lost.
    """

    why: str
    may_exist: bool = False


class Starter(Protocol):
    """Starts DAG runs."""

    def start(self, launch: Launch) -> NotStarted | None:
        """Start it. ``None``: it is there now, whether it was started by this call or by one before."""
        ...


def call_probe(probe: str) -> float:
    """Return what a load probe returns.

    :raises Exception: what the probe raises.
    """
    module, _, function = probe.partition(":")
    return float(getattr(import_module(module), function)())
