"""Airflow's DAG runs for the scheduler: what the Task SDK and the REST API have in common.

    TaskDagRuns()                 # inside a task: the Task SDK, no credentials needed
    RestDagRuns(rest)             # elsewhere: the REST API

Both start runs (``Starter``) and report their states (``AirflowPort``). The invariant: a run is started only if Airflow would run
it. A run of a paused DAG would stay queued in Airflow without a visible reason; the launch waits in the store instead, with one.
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
"""The end state of a run that was deleted in Airflow."""


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a DAG run in Airflow."""

    state: str
    ended_at: datetime | None
    began_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    def to_ended(self) -> EndedRun:
        """Return the run as an ended one."""
        return EndedRun(self.state, self.ended_at or datetime.now(UTC), self.began_at)


def or_unavailable(call: Callable[[], T]) -> T | Unavailable:
    """Return the result of a call, or the reason why Airflow refuses it, so that one refusal does not end all others."""
    try:
        return call()
    except AirflowRefuses as refused:
        return Unavailable(str(refused))


class AirflowDagRuns(ABC):
    """Starts DAG runs and counts them."""

    def start(self, launch: Launch) -> NotStarted | None:
        """Start a run. A run with this id that exists already counts as started."""
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
                return None  # started by an earlier attempt whose response was lost
            return NotStarted(f"the DAG {launch.dag_id} is paused")
        return self.trigger(launch)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """Return how many runs other than the known ones are active, and which of the known ones have ended.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        return {dag_id: or_unavailable(partial(self._runs_of, dag_id, run_ids)) for dag_id, run_ids in known.items()}

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """Return how many of these runs are active.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        return self.count_active(dag_id, run_ids)[1]

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Return whether each of these DAGs is missing, without those that Airflow refuses to report.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        asked = {dag_id: or_unavailable(partial(self.is_missing, dag_id)) for dag_id in dag_ids}
        return {dag_id: missing for dag_id, missing in asked.items() if isinstance(missing, bool)}

    def is_missing(self, dag_id: str) -> bool:
        """Return whether Airflow has no such DAG."""
        return self.is_paused(dag_id) is None

    @abstractmethod
    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return the ends of all runs of these DAGs.

        :raises AirflowUnreachable: Airflow does not answer.
        """

    @abstractmethod
    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Return the free slots of these pools; ``None`` for a pool that does not exist."""

    @abstractmethod
    def is_paused(self, dag_id: str) -> bool | None:
        """Return whether the DAG is paused; ``None`` if there is no such DAG."""

    @abstractmethod
    def trigger(self, launch: Launch) -> NotStarted | None:
        """Create the run. One that exists already is no problem."""

    @abstractmethod
    def find(self, dag_id: str, run_id: str) -> RunState | None:
        """Return a run; ``None`` if Airflow has none with this id."""

    @abstractmethod
    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        """Return how many runs of the DAG are active, and how many of these are among the named ones.

        The named ones are counted last: a run that ends in between is counted once too often, never too rarely.
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
