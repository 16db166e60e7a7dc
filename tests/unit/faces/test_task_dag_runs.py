"""What is made of Airflow's answers, through the messages that a task exchanges with its supervisor."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms, task_runner

from airflow_snowpack.hooks.dag_runs import REMOVED
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns
from airflow_snowpack.scheduling import DagRuns, EndedRun, Launch, NotKnown, NotStarted

if TYPE_CHECKING:
    from collections.abc import Mapping

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LAUNCH = Launch("p1", "nightly", "maintain", "snowpack__nightly__p1", {"table": "t"})


def refused(status: int | None, message: str) -> AirflowRuntimeError:
    """As the supervisor wraps an answer of the API server."""
    detail = {"status_code": status, "message": "Server returned error", "detail": {"detail": {"message": message}}}
    return AirflowRuntimeError(comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


class ApiServer:
    """Airflow's DAGs and runs, behind the supervisor."""

    def __init__(self) -> None:
        self.paused: dict[str, bool] = {"maintain": False}
        self.runs: dict[str, tuple[str, datetime | None]] = {}
        self.refuses: AirflowRuntimeError | None = None
        self.sent: list[Any] = []

    def send(self, message: Any) -> Any:
        self.sent.append(message)
        match message:
            case comms.GetDag():
                if message.dag_id not in self.paused:
                    raise refused(404, "not found")
                return comms.DagResult.model_construct(dag_id=message.dag_id, is_paused=self.paused[message.dag_id])
            case comms.TriggerDagRun():
                if self.refuses is not None:
                    raise self.refuses
                if message.run_id in self.runs:
                    return comms.ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
                self.runs[message.run_id] = ("queued", None)
                return comms.OKResponse(ok=True)
            case comms.GetDagRun():
                if message.run_id not in self.runs:
                    raise refused(404, "not found")
                state, end = self.runs[message.run_id]
                return comms.DagRunResult.model_construct(state=_state(state), end_date=end)
            case comms.GetDRCount():
                wanted = set(self.runs) if message.run_ids is None else set(message.run_ids)
                return comms.DRCount(count=sum(self.runs[run][0] in message.states for run in wanted & set(self.runs)))
        raise AssertionError(message)


def _state(text: str) -> Any:
    from airflow.sdk.api.datamodels._generated import DagRunState

    return DagRunState(text)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    server = ApiServer()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", server, raising=False)
    return server


def test_a_run_is_started_with_the_id_and_the_conf_of_its_launch(api: ApiServer) -> None:
    assert TaskDagRuns().start(LAUNCH) is None
    message = api.sent[-1]
    assert (message.dag_id, message.run_id, message.conf) == ("maintain", LAUNCH.run_id, {"table": "t"})
    assert "nightly" in message.note


def test_a_run_that_is_there_already_is_what_was_wanted(api: ApiServer) -> None:
    assert [TaskDagRuns().start(LAUNCH) for _ in range(2)] == [None, None]
    assert len(api.runs) == 1


def test_a_dag_that_does_not_exist_is_told(api: ApiServer) -> None:
    api.paused.clear()
    assert TaskDagRuns().start(LAUNCH) == NotStarted("there is no DAG maintain")


def test_a_paused_dag_gets_no_run_that_would_stay_in_the_queue(api: ApiServer) -> None:
    api.paused["maintain"] = True
    assert TaskDagRuns().start(LAUNCH) == NotStarted("the DAG maintain is paused")
    assert api.runs == {}


def test_a_dag_that_was_paused_after_its_run_was_started_makes_no_difference(api: ApiServer) -> None:
    TaskDagRuns().start(LAUNCH)
    api.paused["maintain"] = True
    assert TaskDagRuns().start(LAUNCH) is None


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (400, "Dag with dag_id 'maintain' has import errors and cannot be triggered", "has import errors"),
        (404, "Dag with dag_id: 'maintain' not found", "the file of the DAG maintain is gone, or does not parse any more"),
        (500, "database is locked", "Airflow cannot be asked: the API server answered 500"),
        (None, "connection refused", "Airflow cannot be asked"),
    ],
)
def test_a_refusal_and_an_outage_are_told_in_words(api: ApiServer, status: int | None, message: str, told: str) -> None:
    api.refuses = refused(status, message)
    problem = TaskDagRuns().start(LAUNCH)
    assert problem is not None
    assert told in problem.why


def snapshot_of(runs: Mapping[str, tuple[str, datetime | None]], api: ApiServer, *known: str) -> DagRuns:
    api.runs = dict(runs)
    return TaskDagRuns().dag_runs({"maintain": frozenset(known)})["maintain"]


def test_active_runs_beside_the_known_ones_are_counted(api: ApiServer) -> None:
    runs = {"mine": ("running", None), "manual": ("queued", None), "old": ("success", AT)}
    assert snapshot_of(runs, api, "mine") == DagRuns(others=1)


def test_known_runs_that_have_ended_are_told_with_how_and_when(api: ApiServer) -> None:
    runs = {"mine": ("failed", AT), "other": ("running", None)}
    assert snapshot_of(runs, api, "mine") == DagRuns(others=1, ended={"mine": EndedRun("failed", AT)})


def test_a_known_run_that_somebody_deleted_holds_no_place_for_ever(api: ApiServer) -> None:
    found = snapshot_of({}, api, "mine")
    assert (found.others, found.ended["mine"].state) == (0, REMOVED)


def test_what_only_the_rest_api_knows_is_not_known_in_a_task() -> None:
    free = TaskDagRuns().free_slots(["default_pool"])["default_pool"]
    assert isinstance(free, NotKnown)
    assert "airflow_conn_id" in free.why


def test_an_outage_while_counting_is_an_error_and_no_count(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(message: Any) -> Any:
        raise refused(None, "connection refused")

    monkeypatch.setattr(api, "send", send)
    with pytest.raises(AirflowUnreachable, match="connection refused"):
        TaskDagRuns().dag_runs({"maintain": frozenset()})
