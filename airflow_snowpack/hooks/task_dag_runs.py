"""DAG runs from inside a task, through the Task SDK: the task's identity in Airflow is enough, no credentials are needed.

    TaskDagRuns().start(launch)
    run = ask_supervisor(GetDagRun(dag_id="ingest", run_id="r1"))

The messages go to the task's supervisor, which calls the API server; ``dag.test()``, which has no supervisor process, answers
them in the process itself. Whatever is not an answer is an error, and a refusal differs from an outage. The supervisor cannot
report pools; for these, an Airflow connection for the REST API is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from threading import Lock
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms
from airflow.sdk.execution_time.comms import ErrorResponse, GetDRCount, GetTaskStates, TriggerDagRun
from httpx import HTTPStatusError

from airflow_snowpack.hooks.dag_runs import ACTIVE, ENDED, NOT_FOUND, AirflowDagRuns, RestDagRuns, RunState
from airflow_snowpack.hooks.errors import AirflowRefuses, AirflowUnreachable
from airflow_snowpack.scheduling.airflow_port import EndsFound, EndsQuery, Launch, NotStarted, Slots, Unavailable

REFUSED = range(400, 500)
BATCH_SIZE = 100
"""How many runs one step of a search reads."""
MOMENT = re.compile(r"\d{4}-?\d\d-?\d\dT\d\d:?\d\d:?\d\d")


_supervisor_lock = Lock()
"""In ``dag.test()``, two threads could receive each other's answers."""


class Refused(Exception):
    """The API server refused the request.

    :ivar status: of HTTP.
    :ivar is_airflows_own_not_found: the 404 comes from Airflow itself, not from a proxy.
    """

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        self.status = status
        self.is_airflows_own_not_found = status == NOT_FOUND and code == "not_found"
        super().__init__(message)


def ask_supervisor(message: Any) -> Any:
    """Send a message to the task's supervisor.

    :returns: the answer; ``None`` when starting a DAG run that already exists.
    :raises Refused: the API server refused.
    :raises AirflowUnreachable: no answer, or an unexpected one.
    """
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    try:
        with _supervisor_lock:
            answer = SUPERVISOR_COMMS.send(message)
    except AirflowRuntimeError as error:
        answer = error.error
    except HTTPStatusError as error:  # in dag.test(): what the supervisor would have wrapped
        raise _problem(error.response.status_code, str(error), _json(error.response)) from error
    if not isinstance(answer, ErrorResponse):
        return answer
    if answer.error is ErrorType.DAGRUN_ALREADY_EXISTS:
        return None
    detail = answer.detail or {}
    raise _problem(detail.get("status_code"), answer.error.value, detail)


def _problem(status: Any, what: str, detail: Mapping[str, Any]) -> Refused | AirflowUnreachable:
    inner = _server_response(detail)
    message = _message(inner, detail, what)
    if isinstance(status, int) and status in REFUSED:
        return Refused(status, message, inner.get("reason") if isinstance(inner, dict) else None)
    return AirflowUnreachable(f"the API server answered {status or what}: {message}")


def _server_response(detail: Any) -> Any:
    """Return the API server's response inside the supervisor's."""
    while isinstance(detail, dict) and isinstance(detail.get("detail"), dict | str):
        detail = detail["detail"]
    return detail


def _message(inner: Any, detail: Mapping[str, Any], what: str) -> str:
    message = inner.get("message") if isinstance(inner, dict) else inner
    return str(message or detail.get("message") or what or "no reason given")[:500]


def _json(response: Any) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _find(message: Any, what: str) -> Any:
    """Return the answer to a message; ``None`` if Airflow has no such object. Raise :class:`AirflowRefuses` if it refuses."""
    try:
        return ask_supervisor(message)
    except Refused as refused:
        if refused.is_airflows_own_not_found:
            return None
        raise AirflowRefuses(f"it does not report {what}: {refused}") from refused


class TaskDagRuns(AirflowDagRuns):
    """DAG runs as the task's supervisor reports them.

    :param rest: reports pools; ``None`` if no connection to the REST API is configured.
    :param patience: see :class:`.AirflowDagRuns`.
    """

    def __init__(self, rest: RestDagRuns | None = None, patience: timedelta | None = None) -> None:
        super().__init__(patience)
        self._rest = rest

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        if self._rest is not None:
            return self._rest.free_slots(pools)
        why = "tasks cannot read pools; set [snowpack] airflow_conn_id to a connection to Airflow's REST API"
        return dict.fromkeys(pools, Unavailable(why))

    def is_missing(self, dag_id: str) -> bool:
        """Return whether Airflow has no such DAG. Only the REST API shows that the file of a DAG is gone."""
        return super().is_missing(dag_id) if self._rest is None else self._rest.is_missing(dag_id)

    def is_paused(self, dag_id: str) -> bool | None:
        dag = _find(comms.GetDag(dag_id=dag_id), f"the DAG {dag_id}")
        return None if dag is None else bool(dag.is_paused)

    def trigger(self, launch: Launch) -> NotStarted | None:
        note = f"Started by the Snowpack schedule {launch.schedule}."
        try:
            ask_supervisor(TriggerDagRun(dag_id=launch.dag_id, run_id=launch.run_id, conf=dict(launch.conf), note=note))
        except Refused as refused:
            if refused.status == NOT_FOUND:  # the DAG existed a moment ago, so Airflow considers it stale
                return NotStarted(f"the file of the DAG {launch.dag_id} is gone or no longer parses ({refused})")
            return NotStarted(str(refused), may_exist=True)
        return None

    def find(self, dag_id: str, run_id: str) -> RunState | None:
        run = _find(comms.GetDagRun(dag_id=dag_id, run_id=run_id), f"the run {run_id}")
        return None if run is None else RunState(str(run.state.value), run.end_date, run.start_date)

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        """Return counts, and the ends that a requested search finds; all ends if the REST API can list them."""
        if self._rest is not None:
            return self._rest.ended_runs(asked)
        return {one.dag_id: self._ends_of(one) for one in asked}

    def _ends_of(self, asked: EndsQuery) -> EndsFound:
        try:
            counts = {state: ask_supervisor(GetDRCount(dag_id=asked.dag_id, states=[state])).count for state in ENDED}
            if not asked.search:
                return EndsFound(counts=counts)
            every = set(ask_supervisor(GetTaskStates(dag_id=asked.dag_id)).task_states)
        except Refused as refused:
            raise AirflowRefuses(f"it does not report the runs of {asked.dag_id}: {refused}") from refused
        unknown = sorted(every - asked.known, key=_latest_first)
        unknown = [run_id for run_id in unknown if asked.after is None or _latest_first(run_id) > _latest_first(asked.after)]
        runs = {run_id: run for run_id in unknown[:BATCH_SIZE] if (run := self.find(asked.dag_id, run_id)) is not None}
        ended = {run_id: run.to_ended() for run_id, run in runs.items() if run.state in ENDED}
        missed = {run_id: end for run_id, end in ended.items() if end.at >= asked.since}
        return EndsFound(missed, counts, unknown[BATCH_SIZE - 1] if len(unknown) > BATCH_SIZE else None)

    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        try:
            total = ask_supervisor(GetDRCount(dag_id=dag_id, states=list(ACTIVE))).count
            still = ask_supervisor(GetDRCount(dag_id=dag_id, states=list(ACTIVE), run_ids=sorted(among))).count if among else 0
        except Refused as refused:
            raise AirflowRefuses(f"it does not count the runs of {dag_id}: {refused}") from refused
        return total, still


def _latest_first(run_id: str) -> tuple[str, str]:
    """Return a sort key by the timestamp that Airflow and this package add to run ids; ids without one come last."""
    moment = MOMENT.search(run_id)
    digits = "" if moment is None else "".join(filter(str.isdigit, moment.group()))
    return "".join(chr(ord("9") - int(digit)) for digit in digits.ljust(14, "0")), run_id
