"""Airflow's DAG runs for the scheduler: what the Task SDK and the REST API have in common, and the implementation for the latter.

    RestDagRuns(AirflowRest.from_connection("snowpack_airflow")).start(launch)
    TaskDagRuns()                 # in task_dag_runs: inside a task, through the Task SDK, no credentials needed

Both start runs (``Starter``) and report their states (``AirflowPort``). The invariant: a run is started only if Airflow would run
it. A run of a paused DAG would stay queued in Airflow without a visible reason; instead, its launch waits in the store with one.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, TypeVar
from urllib.parse import quote

from airflow_snowpack.hooks.api_client import AirflowRest, pages
from airflow_snowpack.hooks.errors import AirflowRefuses, AirflowUnreachable
from airflow_snowpack.hooks.load_probes import measure
from airflow_snowpack.scheduling.airflow_port import (
    DagRuns,
    EndedRun,
    EndsFound,
    EndsQuery,
    FreeSlots,
    Launch,
    NotStarted,
    Slots,
    Unavailable,
    paused_problem,
)
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls

T = TypeVar("T")

ACTIVE = ("queued", "running")
REMOVED = "removed"
"""The end state of a run that was deleted in Airflow."""
NOT_FOUND, CONFLICT = 404, 409
NO_LIMIT = -1
"""The API's number of slots for a pool without a limit."""
ENDED = ("success", "failed")
IN_A_POOL = ("queued", "running", "deferred")
PAGE = 100
CONCURRENT_REQUESTS = 16
REQUEST_LIMIT = timedelta(seconds=40)
"""How long all requests about one DAG or pool may take; each request has a limit, too."""


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
        return EndedRun(self.state, self.ended_at or datetime.now(UTC), self.began_at)


class AirflowDagRuns(ABC):
    """Starts DAG runs and counts them, with concurrent requests.

    :param patience: how long to wait for the answers about several DAGs or pools; late answers are left out, and returned for the
        same question a moment later. ``None``: as long as Airflow may take.
    """

    def __init__(self, patience: timedelta | None = None) -> None:
        self._patience = patience
        self._requests = TimedCalls[tuple[str, str], Any](
            lambda _: "Airflow", limit=REQUEST_LIMIT, concurrent=CONCURRENT_REQUESTS
        )

    def _ask_each(self, what: str, names: Iterable[str], ask: Callable[[str], T]) -> dict[str, T | Unavailable]:
        """Return the answer about each name, or why there is none; raise :class:`AirflowUnreachable` without any answer."""
        calls = {(what, name): partial(ask, name) for name in names}
        found: dict[str, T | Unavailable] = {}
        outages = []
        for (_, name), result in self._requests.run(calls, patience=self._patience):
            if isinstance(result, AirflowUnreachable | NoAnswer):  # includes AirflowRefuses
                found[name] = Unavailable(str(result))
                outages += [] if isinstance(result, AirflowRefuses) else [result]
            elif isinstance(result, Exception):
                raise result
            else:
                found[name] = result
        if outages and len(outages) == len(calls):
            raise outages[0] if isinstance(outages[0], AirflowUnreachable) else AirflowUnreachable(str(outages[0]))
        return found

    def start(self, launch: Launch) -> NotStarted | None:
        """Start a run. A run with this id that already exists counts as started."""
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
            return NotStarted(paused_problem(launch.dag_id))
        return self.trigger(launch)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        """Return how many runs other than the known ones are active, and which of the known ones have ended.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        return self._ask_each("runs", known, lambda dag_id: self._runs_of(dag_id, known[dag_id]))

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        """Return how many of these runs are active; raise :class:`AirflowUnreachable` if Airflow does not answer."""
        return self.count_active(dag_id, run_ids)[1]

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        """Return whether each DAG is missing, without those that Airflow refuses to report.

        :raises AirflowUnreachable: Airflow does not answer.
        """
        asked = self._ask_each("dag", dag_ids, self.is_missing)
        return {dag_id: missing for dag_id, missing in asked.items() if isinstance(missing, bool)}

    def is_missing(self, dag_id: str) -> bool:
        """Return whether Airflow has no such DAG."""
        return self.is_paused(dag_id) is None

    @abstractmethod
    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return the ends of all runs of these DAGs; raise :class:`AirflowUnreachable` if Airflow does not answer."""

    @abstractmethod
    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        """Return the free slots of these pools; ``None`` for a pool that does not exist."""

    def loads(self, probes: Iterable[str]) -> Mapping[str, float | Unavailable]:
        return measure(probes, patience=self._patience)

    @abstractmethod
    def is_paused(self, dag_id: str) -> bool | None:
        """Return whether the DAG is paused; ``None`` if there is no such DAG."""

    @abstractmethod
    def trigger(self, launch: Launch) -> NotStarted | None:
        """Create the run, unless it already exists."""

    @abstractmethod
    def find(self, dag_id: str, run_id: str) -> RunState | None:
        """Return a run; ``None`` if Airflow has no run with this id."""

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


class RestDagRuns(AirflowDagRuns):
    """DAG runs as the REST API reports them."""

    def __init__(self, rest: AirflowRest, patience: timedelta | None = None) -> None:
        super().__init__(patience)
        self._rest = rest

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        return self._ask_each("pool", pools, self._slots_of)

    def _slots_of(self, pool: str) -> Slots:
        every = self._list("/dags/~/dagRuns/~/taskInstances", "task_instances", pool=[pool], state=list(IN_A_POOL))
        taken_by = frozenset((task["dag_id"], task["dag_run_id"]) for task in every)
        answer = self._found(f"/pools/{_quoted(pool)}", pool)
        if answer is None:
            return None
        free = int(answer["open_slots"])
        return FreeSlots(sys.maxsize if free == NO_LIMIT == int(answer["slots"]) else free, taken_by)

    def is_paused(self, dag_id: str) -> bool | None:
        dag = self._found(f"/dags/{_quoted(dag_id)}", dag_id)
        return None if dag is None else bool(dag["is_paused"])

    def is_missing(self, dag_id: str) -> bool:
        """Return whether Airflow has no such DAG, or its file is gone. A file that fails to parse is not gone."""
        dag = self._found(f"/dags/{_quoted(dag_id)}", dag_id)
        return dag is None or bool(dag.get("is_stale") and not dag.get("has_import_errors"))

    def trigger(self, launch: Launch) -> NotStarted | None:
        note = f"Started by the Snowpack schedule {launch.schedule}."
        body = {"dag_run_id": launch.run_id, "logical_date": None, "conf": dict(launch.conf), "note": note}
        answer = self._rest.ask("POST", f"/dags/{_quoted(launch.dag_id)}/dagRuns", body=body)
        if answer.is_ok or (answer.status == CONFLICT and self.find(launch.dag_id, launch.run_id) is not None):
            return None
        if answer.status == NOT_FOUND:  # the DAG existed a moment ago, so Airflow considers it stale
            return NotStarted(f"the file of the DAG {launch.dag_id} is gone or no longer parses ({answer.reason})")
        return NotStarted(answer.reason, may_exist=True)

    def find(self, dag_id: str, run_id: str) -> RunState | None:
        run = self._found(f"/dags/{_quoted(dag_id)}/dagRuns/{_quoted(run_id)}", run_id)
        return None if run is None else _state_of(run)

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return all ends since the earliest of the moments. An end that is already recorded may be returned again."""
        found: dict[str, dict[str, EndedRun]] = {one.dag_id: {} for one in asked}
        path = "/dags/~/dagRuns/list"
        wanted = {
            "dag_ids": sorted(found),
            "states": list(ENDED),
            "end_date_gte": min(one.since for one in asked).isoformat(),
            "order_by": "id",
            "page_limit": PAGE,
        }

        def read(seen: int) -> Any:
            return self._rest.ask("POST", path, body={**wanted, "page_offset": seen}).required("POST", path)

        for run in chain.from_iterable(pages("dag_runs", read)):
            found[run["dag_id"]][run["dag_run_id"]] = _state_of(run).to_ended()
        return {dag_id: EndsFound(ends) for dag_id, ends in found.items()}

    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        runs = self._list(f"/dags/{_quoted(dag_id)}/dagRuns", "dag_runs", of=dag_id, state=list(ACTIVE))
        active = {run["dag_run_id"] for run in runs}
        return len(active), len(active & among)

    def _found(self, path: str, name: str) -> Any:
        """Return the object at a path; ``None`` if Airflow has nothing with this name."""
        answer = self._rest.ask("GET", path)
        return None if answer.reports_missing(name) else answer.required("GET", path)

    def _list(self, path: str, key: str, *, of: str | None = None, **params: Any) -> Iterator[Any]:
        """Yield the entries of a list; none if Airflow has nothing with the name ``of``, the list's owner."""

        def read(seen: int) -> Any:
            answer = self._rest.ask("GET", path, params={"limit": PAGE, "offset": seen, **params})
            return {key: []} if of is not None and answer.reports_missing(of) else answer.required("GET", path)

        return chain.from_iterable(pages(key, read))


def _state_of(run: Any) -> RunState:
    began_at, ended_at = (datetime.fromisoformat(run[name]) if run[name] else None for name in ("start_date", "end_date"))
    return RunState(str(run["state"]), ended_at, began_at)


def _quoted(part: str) -> str:
    return quote(part, safe="")
