"""How DAG runs and their tasks stand, for the room of interim tables: what nobody needs any more is dropped on these answers.

    TaskRunStates()                                                      # inside of a task: the Task SDK, no credentials needed
    RestRunStates(AirflowRest.from_connection("snowpack_airflow"))       # outside of one: the REST API

The invariant: nothing is taken for finished or gone that Airflow has not said so of, whole and in its own words. A run that
Airflow refuses to tell about, that something between says 404 of, or that changes while its pages are read is left out: it stays
as it is, and is asked about again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.hooks.task_dag_runs import Refused, ask_supervisor
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_snowpack.hooks.api_client import Answer
    from airflow_snowpack.interim.collection.model import RunQuery

    Key = tuple[str, str]
    States = dict[int, str | None]

log = logging.getLogger(__name__)

ENDED = ("success", "failed")
NOT_MAPPED = -1
"""The map index of a task that is not mapped, and of a mapped one that is not expanded yet."""
RUNS_AT_ONCE = 50
"""Run ids stand in the address of the question, which may not grow without end."""
PAGE = 100
READS = 3
"""How often the instances of a task are read that change meanwhile, before the run is left for the next time."""


class NotTold(Exception):
    """Airflow was reached and does not tell this."""


class TaskRunStates:
    """Asks through the task's supervisor: once for each run, and once for each task with many of its runs."""

    def read(self, asked: Sequence[RunQuery]) -> Mapping[Key, DagRunState]:
        """See :class:`airflow_snowpack.interim.collection.model.RunStates`.

        :raises AirflowUnreachable: the API server does not answer.
        """
        phases = {(run.dag_id, run.run_id): phase for run in asked if (phase := self._phase(run)) is not None}
        states: dict[Key, dict[str, States]] = {key: {} for key in phases}
        for dag_id, task_id, run_ids in _questions(asked, phases):
            try:
                told = self._states(dag_id, task_id, run_ids)
            except NotTold as problem:
                _leave_out(states, dag_id, run_ids, problem)
                continue
            for run_id, by_index in told.items():
                if (dag_id, run_id) in states:
                    states[dag_id, run_id][task_id] = by_index
        return {key: DagRunState(phases[key], tasks) for key, tasks in states.items()}

    def _phase(self, run: RunQuery) -> RunPhase | None:
        from airflow.sdk.execution_time.comms import GetDagRun

        try:
            found = ask_supervisor(GetDagRun(dag_id=run.dag_id, run_id=run.run_id))
        except Refused as refused:
            if refused.is_airflows_own_not_found:
                return RunPhase.GONE
            log.warning("Airflow does not tell about the run %s of %s, which stays as it is: %s", run.run_id, run.dag_id, refused)
            return None
        return _phase_of(found.state)

    def _states(self, dag_id: str, task_id: str, run_ids: Sequence[str]) -> dict[str, States]:
        """:raises NotTold: it refuses, or answers with names that are not of this task."""
        from airflow.sdk.execution_time.comms import GetTaskStates

        try:
            answer = ask_supervisor(GetTaskStates(dag_id=dag_id, task_ids=[task_id], run_ids=list(run_ids)))
        except Refused as refused:
            raise NotTold(str(refused)) from refused
        return {run_id: {_map_index(task_id, name): _text(state) for name, state in named.items()}
                for run_id, named in answer.task_states.items()}  # fmt: skip


class RestRunStates:
    """Asks the REST API: for each run, and for each of its tasks page by page.

    :param rest: of the Airflow that has run the DAGs; another one would say that it has no such runs.
    """

    def __init__(self, rest: AirflowRest) -> None:
        self._rest = rest

    def read(self, asked: Sequence[RunQuery]) -> Mapping[Key, DagRunState]:
        """See :class:`airflow_snowpack.interim.collection.model.RunStates`.

        :raises AirflowUnreachable: the API does not answer.
        """
        found: dict[Key, DagRunState] = {}
        for run in asked:
            try:
                found[run.dag_id, run.run_id] = self._standing(run)
            except NotTold as problem:
                log.warning("The run %s of %s stays as it is: %s", run.run_id, run.dag_id, problem)
        return found

    def _standing(self, run: RunQuery) -> DagRunState:
        path = f"/dags/{quote(run.dag_id, safe='')}/dagRuns/{quote(run.run_id, safe='')}"
        answer = self._rest.ask("GET", path)
        if answer.says_there_is_no(run.run_id):
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
        raise NotTold(f"the instances of its task {task_id} change while they are read")

    def _read(self, path: str, task_id: str) -> tuple[States, int]:
        """Every instance, and how many Airflow says there are. A page may be shorter than was asked for: Airflow has a limit."""
        states: States = {}
        seen = 0
        while True:
            params = {"task_id": task_id, "order_by": "map_index", "limit": PAGE, "offset": seen}
            body = _body(self._rest.ask("GET", f"{path}/taskInstances", params=params))
            page = body["task_instances"]
            # An older API server that does not know the filter would tell of other tasks too.
            states |= {int(one["map_index"]): _text(one["state"]) for one in page if one["task_id"] == task_id}
            seen += len(page)
            if not page or seen >= body["total_entries"]:
                return states, int(body["total_entries"])


def _questions(asked: Sequence[RunQuery], phases: Mapping[Key, RunPhase]) -> Iterator[tuple[str, str, list[str]]]:
    """What to ask about tasks: DAG, task, and so many of its runs."""
    wanted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in asked:
        if phases.get((run.dag_id, run.run_id)) not in (None, RunPhase.GONE):
            for task_id in sorted(run.task_ids):
                wanted[run.dag_id, task_id].append(run.run_id)
    for (dag_id, task_id), run_ids in wanted.items():
        for start in range(0, len(run_ids), RUNS_AT_ONCE):
            yield dag_id, task_id, run_ids[start : start + RUNS_AT_ONCE]


def _leave_out(states: dict[Key, dict[str, States]], dag_id: str, run_ids: Sequence[str], problem: NotTold) -> None:
    log.warning("Airflow does not tell about tasks of %s, whose runs stay as they are: %s", dag_id, problem)
    for run_id in run_ids:
        states.pop((dag_id, run_id), None)


def _map_index(task_id: str, name: str) -> int:
    """Airflow calls a mapped instance by its task and its map index. Only one task was asked for, so that it is no other task."""
    if name == task_id:
        return NOT_MAPPED
    index = name.removeprefix(f"{task_id}_")
    if not index.isdecimal():
        raise NotTold(f"it was asked for the task {task_id} and tells of {name}")
    return int(index)


def _phase_of(state: Any) -> RunPhase:
    """A state that nobody here has heard of is one in which the run goes on."""
    return RunPhase.OVER if _text(state) in ENDED else RunPhase.ACTIVE


def _text(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))


def _body(answer: Answer) -> Any:
    if not answer.is_ok:
        raise NotTold(f"Airflow refuses to tell: {answer.says}")
    if not isinstance(answer.body, dict):
        raise AirflowUnreachable("it answers with something that is no JSON object")
    return answer.body
