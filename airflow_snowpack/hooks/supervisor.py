"""Questions that a task asks its supervisor, which asks the API server: Airflow's own identity of the task is all that it takes.

    run = ask_supervisor(GetDagRun(dag_id="ingest", run_id="r1"))

The invariant: what is not an answer is an error, and a refusal is told apart from an outage. Inside of ``dag.test()`` there is no
supervisor's process; the same questions are then answered in the process itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_snowpack.hooks.errors import AirflowUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_FOUND = 404
REFUSED = range(400, 500)


class Refused(Exception):
    """The API server's answer was no.

    :ivar status: of HTTP.
    :ivar is_airflows_own_not_found: Airflow itself says that there is no such thing; something between could say 404 as well.
    """

    def __init__(self, status: int, says: str, reason: str | None = None) -> None:
        self.status = status
        self.is_airflows_own_not_found = status == NOT_FOUND and reason == "not_found"
        super().__init__(says)


def ask_supervisor(message: Any) -> Any:
    """One question.

    :returns: the answer; ``None`` for a DAG run that was to be started and is there already.
    :raises Refused: the API server said no.
    :raises AirflowUnreachable: it did not answer, or not sensibly.
    """
    from airflow.sdk.execution_time.comms import ErrorResponse
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS
    from httpx import HTTPStatusError

    try:
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
    inner = _innermost(detail)
    says = _words(inner, detail, what)
    if isinstance(status, int) and status in REFUSED:
        return Refused(status, says, inner.get("reason") if isinstance(inner, dict) else None)
    return AirflowUnreachable(f"the API server answered {status or what}: {says}")


def _innermost(detail: Any) -> Any:
    """What the API server said, out of the supervisor's wrapping."""
    while isinstance(detail, dict) and isinstance(detail.get("detail"), dict | str):
        detail = detail["detail"]
    return detail


def _words(inner: Any, detail: Mapping[str, Any], what: str) -> str:
    said = inner.get("message") if isinstance(inner, dict) else inner
    return str(said or detail.get("message") or what or "no reason was given")[:500]


def _json(response: Any) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
