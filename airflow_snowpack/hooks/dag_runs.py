"""Airflow's DAG runs as the scheduling room wants to see them, whichever way Airflow is asked.

    TaskDagRuns()                 # inside of a task: the Task SDK, no credentials needed
    RestDagRuns(rest)             # outside of one: the REST API

Both start runs (``Starter``) and tell how things stand (``AirflowPort``); what they make of Airflow's answers stands here, once.
The invariant: a run is started only when Airflow would run it. A DAG that is paused would leave its run in the queue, where
nobody can say why it does not start; so the launch waits in our store instead, with that reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_snowpack.hooks.errors import AirflowRefuses, AirflowUnreachable
from airflow_snowpack.scheduling.airflow_port import DagRuns, EndedRun, NotStarted, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_snowpack.scheduling.airflow_port import EndsFound, EndsQuery, Launch, Slots

T = TypeVar("T")

ACTIVE = ("queued", "running")
REMOVED = "removed"
"""How a run ended that Airflow does not have any more: somebody deleted it."""


@dataclass(frozen=True, slots=True)
class RunState:
    """A DAG run as Airflow has it."""

    state: str
    ended_at: datetime | None
    began_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    def to_ended(self) -> EndedRun:
        """Its end."""
        return EndedRun(self.state, self.ended_at or datetime.now(UTC), self.began_at)


def told(ask: Callable[[], T]) -> T | Unavailable:
    """What Airflow tells, or why it does not: one question that it refuses does not end all others."""
    try:
        return ask()
    except AirflowRefuses as refused:
        return Unavailable(str(refused))


class AirflowDagRuns(ABC):
    """Starts DAG runs and counts them."""

    def start(self, launch: Launch) -> NotStarted | None:
        """Start it; a run of this id that is there already is what was wanted."""
        try:
            paused = self.is_paused(launch.dag_id)
        except AirflowUnreachable as problem:
            return NotStarted(str(problem))
        try:
            return self._start(launch, paused)
        except AirflowUnreachable as problem:
            return NotStarted(str(problem), may_exist=True)

    def _start(self, launch: Launch, paused: bool | None) -> NotStarted | None:
        if paused is None:
            return NotStarted(f"there is no DAG {launch.dag_id}")
        if paused:
            if self.find(launch.dag_id, launch.run_id) is not None:
                return None  # started before, by an attempt whose answer was lost
            return NotStarted(f"the DAG {launch.dag_id} is paused")
        return self.trigger(launch)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """How many runs are active beside the known ones, and which of the known ones have ended.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        return {dag_id: told(partial(self._runs_of, dag_id, run_ids)) for dag_id, run_ids in known.items()}

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """How many of these runs are active.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        return self.count_active(dag_id, run_ids)[1]

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Whether each of these DAGs is missing, without those that Airflow refuses to tell about.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        asked = {dag_id: told(partial(self.is_missing, dag_id)) for dag_id in dag_ids}
        return {dag_id: missing for dag_id, missing in asked.items() if isinstance(missing, bool)}

    def is_missing(self, dag_id: str) -> bool:
        """Whether Airflow has no such DAG."""
        return self.is_paused(dag_id) is None

    @abstractmethod
    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """The ends of these DAGs' runs, whoever started them.

        :raises AirflowUnreachable: Airflow does not answer.
        """

    @abstractmethod
    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Free slots of these pools; ``None`` for one that does not exist."""

    @abstractmethod
    def is_paused(self, dag_id: str) -> bool | None:
        """``None`` when there is no such DAG."""

    @abstractmethod
    def trigger(self, launch: Launch) -> NotStarted | None:
        """Ask for the run; one that exists already is no problem."""

    @abstractmethod
    def find(self, dag_id: str, run_id: str) -> RunState | None:
        """One run; ``None`` when Airflow has none of this id."""

    @abstractmethod
    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        """How many runs of the DAG are active, and how many of these are among the named.

        All are counted before the named ones are: a run that ends in between is then counted once too often, never too rarely.
        """

    def _runs_of(self, dag_id: str, known: frozenset[str]) -> DagRuns:
        total, still = self.count_active(dag_id, known)
        ended = {} if still >= len(known) else self._ended(dag_id, known)
        return DagRuns(others=max(0, total - still), ended=ended)

    def _ended(self, dag_id: str, run_ids: frozenset[str]) -> dict[str, EndedRun]:
        ended = {}
        for run_id in sorted(run_ids):
            run = self.find(dag_id, run_id)
            if run is None:
                ended[run_id] = EndedRun(REMOVED, datetime.now(UTC))
            elif not run.is_active:
                ended[run_id] = run.to_ended()
        return ended
