"""What the scheduler needs of Airflow: the state of DAG runs and pools, the installation's load probes, and starting a run.

The room itself does not import Airflow. A face passes in these two: from the Task SDK inside of a task, from the REST API
outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a DAG run ended.

    :param state: ``success`` or ``failed``.
    :param began_at: when this try of the run began; it distinguishes the end of a run from its end after it was cleared.
    """

    state: str
    at: datetime
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DagRuns:
    """The runs of one DAG in Airflow.

    :param others: how many are queued or running that the caller did not name: started by hand, by a backfill, by a schedule.
    :param ended: those among the named that have ended, by their ids.
    """

    others: int = 0
    ended: Mapping[str, EndedRun] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndsQuery:
    """Which ends of a DAG's runs to find.

    :param since: those before are recorded, or do not matter.
    :param search: an end seems to be missing, for an API that would have to read run after run.
    :param known: with ``search``, the runs to skip.
    :param after: with ``search``, where the search before this one ended.
    """

    dag_id: str
    since: datetime
    search: bool = False
    known: frozenset[str] = frozenset()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class EndsFound:
    """The ends that were found, by run id.

    :param counts: how many runs succeeded and failed; ``None`` when every end since the moment is among ``ended``.
    :param searched_to: where to continue the search; ``None`` when there was none, or when it is complete.
    """

    ended: Mapping[str, EndedRun] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None
    searched_to: str | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """What could not be read, and the reason."""

    why: str


NOT_YET = Unavailable("there is no answer yet")
"""Of what may be known a moment later: what needs it stays due, and is not evaluated without it."""


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """The free slots of a pool.

    :param taken_by: the runs (DAG and run id) whose tasks are in the pool. They are read before the free slots, so that one that
        comes in between counts once too often, never too rarely.
    """

    free: int
    taken_by: frozenset[tuple[str, str]] = frozenset()


Slots = int | FreeSlots | Unavailable | None
"""The state of a pool; ``None`` for one that does not exist."""


@dataclass(frozen=True, slots=True)
class AirflowSnapshot:
    """The state of Airflow at one moment.

    :param dag_runs: by DAG; ``free_slots``: by pool; ``loads``: by probe.
    :param taken_at: before any of it was read; ``None`` for the present moment.
    :param newest_event: the number of the newest event at that moment.
    :param unread: the wait keys of the DAGs, groups, pools and loads of which there is no answer yet.
    :param is_outage: Airflow does not answer at all.
    """

    dag_runs: Mapping[str, DagRuns | Unavailable] = field(default_factory=dict)
    free_slots: Mapping[str, Slots] = field(default_factory=dict)
    loads: Mapping[str, float | Unavailable] = field(default_factory=dict)
    taken_at: datetime | None = None
    newest_event: int = 0
    unread: frozenset[str] = frozenset()
    is_outage: bool = False


class AirflowPort(Protocol):
    """Reads the state of Airflow."""

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """Return the runs of these DAGs, without those that Airflow has not reported yet. Constraints that count the runs of an
        unavailable one wait.

        :param known: by DAG, the ids of the runs that are active as far as the store knows.
        """

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """Count the runs among these of the DAG that are queued or running."""

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return the ends of these DAGs' runs, however they were started."""

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Return whether each of these DAGs does not exist; without those whose answer is unavailable."""

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Return the free slots of these pools. Constraints that need those of an unavailable one wait."""

    def loads(self, probes: Iterable[str]) -> Mapping[str, float | Unavailable]:
        """Return the numbers of these load probes. Constraints that need that of an unavailable one wait."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A DAG run to start.

    :param run_id: the same for each start of the same pending run, which makes a repeated start harmless.
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


def paused_problem(dag_id: str) -> str:
    """Return why a run of a paused DAG is not started."""
    return f"the DAG {dag_id} is paused"


class Starter(Protocol):
    """Starts DAG runs."""

    def start(self, launch: Launch) -> NotStarted | None:
        """Start the run; return ``None`` when it exists now, whether this call or one before has started it."""
