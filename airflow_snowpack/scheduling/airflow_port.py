"""What the scheduler needs from Airflow: the state of DAG runs and pools, load probes, and starting runs.

The room does not import Airflow. A face passes in both protocols, using the Task SDK inside a task and the REST API outside.
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
    :param began_at: when this try of the run began; distinguishes the end of a run from its end after a clear.
    """

    state: str
    at: datetime
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DagRuns:
    """The runs of one DAG in Airflow.

    :param others: how many queued or running runs the caller did not name, such as manual runs and backfills.
    :param ended: the named runs that have ended, by id.
    """

    others: int = 0
    ended: Mapping[str, EndedRun] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndsQuery:
    """Which ends of a DAG's runs to find.

    :param since: earlier ends are recorded, or do not matter.
    :param search: an end seems to be missing; for an API that would have to read run after run.
    :param known: with ``search``, the runs to skip.
    :param after: with ``search``, where the previous search ended.
    """

    dag_id: str
    since: datetime
    search: bool = False
    known: frozenset[str] = frozenset()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class EndsFound:
    """The ends found, by run id.

    :param counts: how many runs succeeded and failed; ``None`` if ``ended`` has every end since the requested time.
    :param searched_to: where to continue the search; ``None`` without a search, or once it is complete.
    """

    ended: Mapping[str, EndedRun] = field(default_factory=dict)
    counts: Mapping[str, int] | None = None
    searched_to: str | None = None


@dataclass(frozen=True, slots=True)
class Unavailable:
    """What could not be read, and why."""

    why: str


NOT_YET = Unavailable("there is no answer yet")
"""The answer may arrive shortly: what needs it stays due and is not evaluated yet."""


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """The free slots of a pool.

    :param taken_by: the runs (DAG and run id) with tasks in the pool, read before the free slots, so that a run that arrives in
        between counts once too often rather than too rarely.
    """

    free: int
    taken_by: frozenset[tuple[str, str]] = frozenset()


Slots = int | FreeSlots | Unavailable | None
"""The state of a pool; ``None`` for a pool that does not exist."""


@dataclass(frozen=True, slots=True)
class AirflowSnapshot:
    """The state of Airflow at one moment.

    :param dag_runs: by DAG; ``free_slots``: by pool; ``loads``: by probe.
    :param taken_at: before any of it was read; ``None`` for now.
    :param newest_event: the number of the newest event at that time.
    :param unread: the wait keys of the DAGs, groups, pools and loads without an answer yet.
    """

    dag_runs: Mapping[str, DagRuns | Unavailable] = field(default_factory=dict)
    free_slots: Mapping[str, Slots] = field(default_factory=dict)
    loads: Mapping[str, float | Unavailable] = field(default_factory=dict)
    taken_at: datetime | None = None
    newest_event: int = 0
    unread: frozenset[str] = frozenset()
    is_outage: bool = False


class AirflowPort(Protocol):
    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """Return the runs of these DAGs that have an answer. Constraints that count runs of an unavailable DAG wait.

        :param known: by DAG, the ids of the runs that are active according to the store.
        """

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """Count those of these runs of the DAG that are queued or running."""

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return the ends of these DAGs' runs, whatever started them."""

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Return whether each of these DAGs is missing; unavailable answers are left out."""

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Return the free slots of these pools. Constraints that need an unavailable pool wait."""

    def loads(self, probes: Iterable[str]) -> Mapping[str, float | Unavailable]:
        """Return the values of these load probes. Constraints that need an unavailable probe wait."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A DAG run to start; all starts of a pending run have one ``run_id``, so repeated starts are harmless."""

    pending_id: str
    schedule: str
    dag_id: str
    run_id: str
    conf: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Why a run could not be started now: its DAG does not exist, is paused or does not parse, or Airflow does not answer.

    :param may_exist: Airflow may nevertheless have created the run, for example if its answer was lost.
    """

    why: str
    may_exist: bool = False


def paused_problem(dag_id: str) -> str:
    return f"the DAG {dag_id} is paused"


class Starter(Protocol):
    def start(self, launch: Launch) -> NotStarted | None:
        """Start the run; return ``None`` if it exists now, whether by this call or an earlier one."""
