"""What is made of Airflow's answers, through the messages that a task exchanges with its supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow_since import since_airflow

from airflow_snowpack.hooks.dag_runs import REMOVED
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.scheduling.airflow_port import DagRuns, EndedRun, EndsFound, EndsQuery, Launch, NotStarted, Unavailable

if TYPE_CHECKING:
    from airflow.sdk.exceptions import AirflowRuntimeError

    from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns

pytestmark = since_airflow(3, 2)
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BEGAN = AT - timedelta(hours=1)
LAUNCH = Launch("p1", "nightly", "maintain", "snowpack__nightly__p1", {"table": "t"})


def refused(status: int | None, message: str) -> AirflowRuntimeError:
    """As the supervisor wraps an answer of the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import comms

    said = {"message": message} | ({"reason": "not_found"} if status == 404 else {})
    detail = {"status_code": status, "message": "Server returned error", "detail": {"detail": said}}
    return AirflowRuntimeError(comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


class ApiServer:
    """Airflow's DAGs and runs, behind the supervisor."""

    def __init__(self) -> None:
        self.paused: dict[str, bool] = {"maintain": False}
        self.runs: dict[str, tuple[str, datetime | None]] = {}
        self.refuses: AirflowRuntimeError | None = None
        self.sent: list[Any] = []

    def send(self, message: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time import comms

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
                return comms.DagRunResult.model_construct(state=_state(state), start_date=BEGAN, end_date=end)
            case comms.GetDRCount():
                wanted = set(self.runs) if message.run_ids is None else set(message.run_ids)
                return comms.DRCount(count=sum(self.runs[run][0] in message.states for run in wanted & set(self.runs)))
            case comms.GetTaskStates():
                return comms.TaskStatesResult.model_construct(task_states={run_id: {"go": "success"} for run_id in self.runs})
        raise AssertionError(message)


def _state(text: str) -> Any:
    from airflow.sdk.api.datamodels._generated import DagRunState

    return DagRunState(text)


def task_runs(rest: Any = None) -> TaskDagRuns:
    """:param rest: what it asks for that only the REST API knows."""
    from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns

    return TaskDagRuns(rest)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    from airflow.sdk.execution_time import task_runner

    server = ApiServer()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", server, raising=False)
    return server


def test_a_run_is_started_with_the_id_and_the_conf_of_its_launch(api: ApiServer) -> None:
    assert task_runs().start(LAUNCH) is None
    message = api.sent[-1]
    assert (message.dag_id, message.run_id, message.conf) == ("maintain", LAUNCH.run_id, {"table": "t"})
    assert "nightly" in message.note


def test_a_run_that_is_there_already_is_what_was_wanted(api: ApiServer) -> None:
    assert [task_runs().start(LAUNCH) for _ in range(2)] == [None, None]
    assert len(api.runs) == 1


def test_a_dag_that_does_not_exist_is_told(api: ApiServer) -> None:
    api.paused.clear()
    assert task_runs().start(LAUNCH) == NotStarted("there is no DAG maintain")


def test_a_paused_dag_gets_no_run_that_would_stay_in_the_queue(api: ApiServer) -> None:
    api.paused["maintain"] = True
    assert task_runs().start(LAUNCH) == NotStarted("the DAG maintain is paused")
    assert api.runs == {}


def test_a_dag_that_was_paused_after_its_run_was_started_makes_no_difference(api: ApiServer) -> None:
    task_runs().start(LAUNCH)
    api.paused["maintain"] = True
    assert task_runs().start(LAUNCH) is None


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (400, "Dag with dag_id 'maintain' has import errors and cannot be triggered", "has import errors"),
        (404, "Dag with dag_id: 'maintain' not found", "the file of the DAG maintain is gone or no longer parses"),
        (500, "database is locked", "The request to Airflow failed: the API server answered 500"),
        (None, "connection refused", "The request to Airflow failed"),
    ],
)
def test_a_refusal_and_an_outage_are_told_in_words(api: ApiServer, status: int | None, message: str, told: str) -> None:
    api.refuses = refused(status, message)
    problem = task_runs().start(LAUNCH)
    assert problem is not None
    assert told in problem.why


def snapshot_of(runs: Mapping[str, tuple[str, datetime | None]], api: ApiServer, *known: str) -> DagRuns:
    api.runs = dict(runs)
    told = task_runs().dag_runs({"maintain": frozenset(known)})["maintain"]
    assert isinstance(told, DagRuns)
    return told


def test_active_runs_beside_the_known_ones_are_counted(api: ApiServer) -> None:
    runs = {"mine": ("running", None), "manual": ("queued", None), "old": ("success", AT)}
    assert snapshot_of(runs, api, "mine") == DagRuns(others=1)


def test_known_runs_that_have_ended_are_told_with_how_and_when(api: ApiServer) -> None:
    runs = {"mine": ("failed", AT), "other": ("running", None)}
    assert snapshot_of(runs, api, "mine") == DagRuns(others=1, ended={"mine": EndedRun("failed", AT, BEGAN)})


def test_a_known_run_that_somebody_deleted_holds_no_place_for_ever(api: ApiServer) -> None:
    found = snapshot_of({}, api, "mine")
    assert (found.others, found.ended["mine"].state) == (0, REMOVED)


def test_what_only_the_rest_api_knows_is_not_known_in_a_task() -> None:
    free = task_runs().free_slots(["default_pool"])["default_pool"]
    assert isinstance(free, Unavailable)
    assert "airflow_conn_id" in free.why


def test_an_outage_while_counting_is_an_error_and_no_count(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(message: Any) -> Any:
        raise refused(None, "connection refused")

    monkeypatch.setattr(api, "send", send)
    with pytest.raises(AirflowUnreachable, match="connection refused"):
        task_runs().dag_runs({"maintain": frozenset()})


class TestEnds:
    """A task can ask how many runs have ended, and about single ones; it cannot have them listed."""

    def ask(self, **question: Any) -> EndsFound:
        return task_runs().ended_runs([EndsQuery("maintain", AT - timedelta(hours=1), **question)])["maintain"]

    def test_they_are_counted_and_no_run_is_looked_at(self, api: ApiServer) -> None:
        api.runs = {"a": ("success", AT), "b": ("success", AT), "c": ("failed", AT), "d": ("running", None)}
        assert self.ask() == EndsFound(counts={"success": 2, "failed": 1})
        assert len(api.sent) == 2

    def test_a_search_finds_those_that_are_not_known_and_that_ended_since(self, api: ApiServer) -> None:
        long_ago = AT - timedelta(days=3)
        api.runs = {"known": ("success", AT), "lost": ("failed", AT), "old": ("success", long_ago), "runs": ("running", None)}
        found = self.ask(search=True, known=frozenset({"known"}))
        assert found == EndsFound({"lost": EndedRun("failed", AT, BEGAN)}, {"success": 2, "failed": 1})

    def test_a_search_looks_at_the_latest_first_and_at_so_many_at_once(self, api: ApiServer) -> None:
        from airflow.sdk.execution_time import comms

        moments = [AT + timedelta(minutes=number) for number in range(250)]
        kinds = (
            "manual__{:%Y-%m-%dT%H:%M:%S.%f+00:00}_Ab3",
            "snowpack__s__{:%Y%m%dT%H%M%S}__1f",
            "scheduled__{:%Y-%m-%dT%H:%M:%S}Z",
        )
        ids = [kinds[number % 3].format(moment) for number, moment in enumerate(moments)]
        api.runs = dict.fromkeys([*reversed(ids), "without a moment"], ("success", AT))
        looked, after = [], None
        while True:
            before = len(api.sent)
            found = self.ask(search=True, after=after)
            looked.append([message.run_id for message in api.sent[before:] if isinstance(message, comms.GetDagRun)])
            if (after := found.searched_to) is None:
                break
        assert [len(each) for each in looked] == [100, 100, 51]
        assert [run_id for each in looked for run_id in each] == [*reversed(ids), "without a moment"]

    def test_whoever_can_list_them_is_asked_instead(self, api: ApiServer) -> None:
        class Lists:
            def ended_runs(self, asked: object) -> Any:
                return {"maintain": EndsFound({"r": EndedRun("success", AT)})}

        found = task_runs(Lists()).ended_runs([EndsQuery("maintain", AT)])
        assert found["maintain"].ended.keys() == {"r"}
        assert api.sent == []


def test_a_dag_is_missing_if_airflow_has_none_and_the_rest_api_knows_more(api: ApiServer) -> None:
    class KnowsStaleOnes:
        def is_missing(self, dag_id: str) -> bool:
            return dag_id == "maintain"

    assert task_runs().missing_dags(["maintain", "never"]) == {"maintain": False, "never": True}
    assert task_runs(KnowsStaleOnes()).missing_dags(["maintain"]) == {"maintain": True}
