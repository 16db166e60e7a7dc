"""The states of DAG runs and their tasks, by which the collector drops interim tables.

    TaskRunStates()                                                      # inside a task: the Task SDK, no credentials needed
    RestRunStates(AirflowRest.from_connection("snowpack_airflow"))       # elsewhere: the REST API

The invariant: a run counts as finished or gone only if Airflow itself reports that, completely. A run that Airflow refuses to
report, for which a proxy returns 404, or that changes while its pages are read is omitted: its tables stay until a later check.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from airflow.sdk.execution_time.comms import GetDagRunState, GetTaskStates

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.hooks.api_client import AirflowRest, Answer, pages
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.hooks.task_dag_runs import Refused, ask_supervisor
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery

Key = tuple[str, str]
States = dict[int, str | None]

log = logging.getLogger(__name__)

ENDED = ("success", "failed")
NOT_MAPPED = -1
"""The map index of a task that is not mapped, and of a mapped task that is not expanded yet."""
RUNS_AT_ONCE = 50
"""Run ids are part of the URL, whose length is limited."""
PAGE = 100
READS = 3
"""How often the instances of a task are read again if they change meanwhile, before the run is omitted."""


class NotReported(Exception):
    """Airflow answers, but does not report this run or task."""


class TaskRunStates:
    """States from the task's supervisor: one message per run, and one per task and batch of its runs."""

    def read(self, asked: Sequence[RunQuery]) -> Mapping[Key, DagRunState]:
        """Implement :meth:`.RunStates.read`; raise :class:`AirflowUnreachable` if the API server does not answer."""
        phases = {(run.dag_id, run.run_id): phase for run in asked if (phase := self._phase(run)) is not None}
        states: dict[Key, dict[str, States]] = {key: {} for key in phases}
        for dag_id, task_id, run_ids in _batches(asked, phases):
            try:
                reported = self._states(dag_id, task_id, run_ids)
            except NotReported as problem:
                _leave_out(states, dag_id, run_ids, problem)
                continue
            for run_id, by_index in reported.items():
                if (dag_id, run_id) in states:
                    states[dag_id, run_id][task_id] = by_index
        return {key: DagRunState(phases[key], tasks) for key, tasks in states.items()}

    def of_tasks(self, tasks: Collection[TaskRef]) -> dict[TaskRef, str | None]:
        """Return the state of each task instance, with one message for each task; ``None`` without a state or an instance.

        :raises AirflowUnreachable: the API server does not answer.
        :raises NotReported: it refuses, or answers with names of other tasks.
        """
        run_ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        for task in tasks:
            run_ids[task.dag_id, task.task_id].add(task.run_id)
        states = {(dag_id, task_id): self._states(dag_id, task_id, sorted(runs)) for (dag_id, task_id), runs in run_ids.items()}
        return {each: states[each.dag_id, each.task_id].get(each.run_id, {}).get(each.map_index) for each in tasks}

    def _phase(self, run: RunQuery) -> RunPhase | None:
        try:
            found = ask_supervisor(GetDagRunState(dag_id=run.dag_id, run_id=run.run_id))
        except Refused as refused:
            if refused.is_airflows_own_not_found:
                return RunPhase.GONE
            log.warning("Airflow does not report the run %s of %s, so what it left stays: %s", run.run_id, run.dag_id, refused)
            return None
        return _phase_of(found.state)

    def _states(self, dag_id: str, task_id: str, run_ids: Sequence[str]) -> dict[str, States]:
        """:raises NotReported: it refuses, or answers with names of other tasks."""
        try:
            answer = ask_supervisor(GetTaskStates(dag_id=dag_id, task_ids=[task_id], run_ids=list(run_ids)))
        except Refused as refused:
            raise NotReported(str(refused)) from refused
        return {run_id: {_map_index(task_id, name): _text(state) for name, state in named.items()}
                for run_id, named in answer.task_states.items()}  # fmt: skip


class RestRunStates:
    """States from the REST API: one request per run, and one per page of each of its tasks.

    :param rest: of the Airflow that ran the DAGs; another one would report the runs as gone.
    """

    def __init__(self, rest: AirflowRest) -> None:
        self._rest = rest

    def read(self, asked: Sequence[RunQuery]) -> Mapping[Key, DagRunState]:
        """Implement :meth:`.RunStates.read`; raise :class:`AirflowUnreachable` if the API does not answer."""
        found: dict[Key, DagRunState] = {}
        for run in asked:
            try:
                found[run.dag_id, run.run_id] = self._state(run)
            except NotReported as problem:
                log.warning("The tables of the run %s of %s stay: %s", run.run_id, run.dag_id, problem)
        return found

    def _state(self, run: RunQuery) -> DagRunState:
        path = f"/dags/{quote(run.dag_id, safe='')}/dagRuns/{quote(run.run_id, safe='')}"
        answer = self._rest.ask("GET", path)
        if answer.reports_missing(run.run_id):
            return DagRunState(RunPhase.GONE)
        phase = _phase_of(_body(answer)["state"])
        return DagRunState(
            phase, {task_id: states for task_id in sorted(run.task_ids) if (states := self._states(path, task_id))}
        )

    def _states(self, path: str, task_id: str) -> States:
        for _ in range(READS):
            states, total = self._read(path, task_id)
            if len(states) == total:
                return states
        raise NotReported(f"the instances of its task {task_id} changed while they were read")

    def _read(self, path: str, task_id: str) -> tuple[States, int]:
        """Return all instances, and Airflow's count of them."""
        total = 0

        def read(seen: int) -> Any:
            nonlocal total
            params = {"task_id": task_id, "order_by": "map_index", "limit": PAGE, "offset": seen}
            body = _body(self._rest.ask("GET", f"{path}/taskInstances", params=params))
            total = int(body["total_entries"])
            return body

        # An older API server without this filter reports other tasks too.
        found = [one for page in pages("task_instances", read) for one in page if one["task_id"] == task_id]
        return {int(one["map_index"]): _text(one["state"]) for one in found}, total


def _batches(asked: Sequence[RunQuery], phases: Mapping[Key, RunPhase]) -> Iterator[tuple[str, str, list[str]]]:
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in asked:
        if phases.get((run.dag_id, run.run_id)) not in (None, RunPhase.GONE):
            for task_id in sorted(run.task_ids):
                wanted[run.dag_id, task_id].append(run.run_id)
    for (dag_id, task_id), run_ids in wanted.items():
        for start in range(0, len(run_ids), RUNS_AT_ONCE):
            yield dag_id, task_id, run_ids[start : start + RUNS_AT_ONCE]


def _leave_out(states: dict[Key, dict[str, States]], dag_id: str, run_ids: Sequence[str], problem: NotReported) -> None:
    log.warning("Airflow does not report tasks of %s; the tables of its runs stay: %s", dag_id, problem)
    for run_id in run_ids:
        states.pop((dag_id, run_id), None)


def _map_index(task_id: str, name: str) -> int:
    """Return the map index from an instance's name: the id of the only requested task, and the index."""
    if name == task_id:
        return NOT_MAPPED
    index = name.removeprefix(f"{task_id}_")
    if not index.isdecimal():
        raise NotReported(f"it was asked about the task {task_id} and reports {name}")
    return int(index)


def _phase_of(state: Any) -> RunPhase:
    """Return the phase of a state; a run in an unknown state counts as active."""
    return RunPhase.OVER if _text(state) in ENDED else RunPhase.ACTIVE


def _text(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))


def _body(answer: Answer) -> Any:
    if not answer.is_ok:
        raise NotReported(f"Airflow refuses the request: {answer.reason}")
    if not isinstance(answer.body, dict):
        raise AirflowUnreachable("its response is not a JSON object")
    return answer.body
