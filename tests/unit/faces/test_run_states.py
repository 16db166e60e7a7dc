"""What is made of Airflow's answers about runs and tasks, where they are odd: nothing counts as finished by mistake.

What Airflow itself answers is looked at in ``tests/integration/faces/test_run_states_of_airflow.py``.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from http_stand_in import AnswersByPath

from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow.sdk.exceptions import AirflowRuntimeError

    from airflow_snowpack.hooks.run_states import RestRunStates

    Answer = Callable[[str, dict[str, list[str]]], tuple[int, Any]]

RUN = RunQuery("flights", "r1", frozenset({"clean"}))
KEY = ("flights", "r1")


def refused(status: int | None, detail: Any) -> AirflowRuntimeError:
    """As the supervisor wraps an answer of the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import comms

    wrapped = {"status_code": status, "message": "Server returned error", "detail": detail}
    return AirflowRuntimeError(comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=wrapped))


class Scripted:
    """The task's supervisor: answers from tables, and remembers what it was asked."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {"r1": "running"}
        self.states: Any = {"r1": {"clean": "success"}}
        self.asked: list[Any] = []

    def send(self, message: Any) -> Any:
        from airflow.sdk.api.datamodels._generated import DagRunState
        from airflow.sdk.execution_time import comms

        self.asked.append(message)
        if isinstance(message, comms.GetDagRunState):
            run = self.runs[message.run_id]
            if isinstance(run, Exception):
                raise run
            return comms.DagRunStateResult.model_construct(state=DagRunState(run))
        if isinstance(self.states, Exception):
            raise self.states
        wanted = {run_id: states for run_id, states in self.states.items() if run_id in message.run_ids}
        return comms.TaskStatesResult.model_construct(task_states=wanted)


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    from airflow.sdk.execution_time import task_runner

    scripted = Scripted()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", scripted, raising=False)
    return scripted


def read_in_a_task(queries: list[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
    from airflow_snowpack.hooks.run_states import TaskRunStates

    return TaskRunStates().read(queries)


class TestInATask:
    def test_a_mapped_task_is_told_by_map_index_and_another_task_of_such_a_name_is_not_mixed_in(
        self, supervisor: Scripted
    ) -> None:
        supervisor.states = {"r1": {"clean_0": "success", "clean_1": None}}
        standing = read_in_a_task([RUN])[KEY]
        assert standing == DagRunState(RunPhase.ACTIVE, {"clean": {0: "success", 1: None}})
        assert supervisor.asked[-1].task_ids == ["clean"]

    def test_one_question_is_about_many_runs_of_a_task_but_not_about_all_at_once(self, supervisor: Scripted) -> None:
        from airflow.sdk.execution_time import comms

        run_ids = [f"r{number}" for number in range(120)]
        supervisor.runs = dict.fromkeys(run_ids, "success")
        supervisor.states = {run_id: {"clean": "success"} for run_id in run_ids}
        found = read_in_a_task([RunQuery("flights", run_id, frozenset({"clean"})) for run_id in run_ids])
        assert {standing.phase for standing in found.values()} == {RunPhase.OVER}
        assert len(found) == 120
        assert [len(each.run_ids) for each in supervisor.asked if isinstance(each, comms.GetTaskStates)] == [50, 50, 20]

    def test_a_run_is_gone_only_if_airflow_itself_says_that_it_is_not_there(self, supervisor: Scripted) -> None:
        supervisor.runs["r1"] = refused(404, {"detail": {"reason": "not_found", "message": "Dag run was not found"}})
        assert read_in_a_task([RUN]) == {KEY: DagRunState(RunPhase.GONE)}
        for something_between in (None, {"detail": "Not Found"}, {"error": "no such backend"}):
            supervisor.runs["r1"] = refused(404, something_between)
            assert read_in_a_task([RUN]) == {}

    def test_a_run_that_airflow_does_not_tell_about_is_left_out_and_the_others_are_told(self, supervisor: Scripted) -> None:
        supervisor.runs = {"r1": refused(403, {"detail": "Forbidden"}), "r2": "running"}
        supervisor.states = {"r2": {"clean": None}}
        found = read_in_a_task([RUN, RunQuery("flights", "r2", frozenset({"clean"}))])
        assert set(found) == {("flights", "r2")}
        supervisor.states = refused(422, {"detail": "no"})
        assert read_in_a_task([RunQuery("flights", "r2", frozenset({"clean"}))]) == {}

    def test_an_outage_is_an_error_and_nothing_is_taken_from_it(self, supervisor: Scripted) -> None:
        supervisor.runs["r1"] = refused(500, {"detail": "database is locked"})
        with pytest.raises(AirflowUnreachable, match="500"):
            read_in_a_task([RUN])

    def test_a_task_without_instances_is_finished_only_when_its_run_is_over(self, supervisor: Scripted) -> None:
        supervisor.states = {}
        assert read_in_a_task([RUN])[KEY].is_finished("clean") is False
        supervisor.runs["r1"] = "failed"
        assert read_in_a_task([RUN])[KEY].is_finished("clean") is True


@contextmanager
def serving(answer: Answer) -> Iterator[RestRunStates]:
    """A server that answers as it is told, and whoever asks it."""
    from airflow_snowpack.hooks.run_states import RestRunStates

    with AnswersByPath(answer) as service, AirflowRest(f"http://{service.address}", token="t") as rest:
        yield RestRunStates(rest)


def instances(*states: tuple[int, str | None], total: int | None = None) -> dict[str, Any]:
    page = [{"task_id": "clean", "map_index": index, "state": state} for index, state in states]
    return {"task_instances": page, "total_entries": len(page) if total is None else total}


def an_airflow(tasks: Callable[[dict[str, list[str]]], Any], state: str = "running") -> Answer:
    return lambda path, query: (200, tasks(query) if path.endswith("taskInstances") else {"state": state})


class TestByRest:
    def test_pages_are_read_until_there_are_as_many_as_airflow_says_also_when_it_gives_shorter_ones(self) -> None:
        every = [(index, "success" if index < 4 else None) for index in range(5)]

        def two_at_a_time(query: dict[str, list[str]]) -> Any:
            start = int(query["offset"][0])
            return instances(*every[start : start + 2], total=5)

        with serving(an_airflow(two_at_a_time)) as states:
            assert states.read([RUN])[KEY].tasks == {"clean": dict(every)}

    def test_instances_that_change_while_they_are_read_leave_the_run_as_it_is(self) -> None:
        def shrinks(query: dict[str, list[str]]) -> Any:
            return instances((0, "success"), total=3) if query["offset"] == ["0"] else instances((0, "success"), total=2)

        with serving(an_airflow(shrinks)) as states:
            assert states.read([RUN]) == {}

    def test_a_server_that_overlooks_the_filter_is_not_believed(self) -> None:
        def everything(query: dict[str, list[str]]) -> Any:
            return {"task_instances": [{"task_id": "other", "map_index": -1, "state": "success"}], "total_entries": 1}

        with serving(an_airflow(everything)) as states:
            assert states.read([RUN]) == {}

    def test_a_404_that_is_not_about_this_run_is_no_end_of_it(self) -> None:
        for body in (b"<html>no such backend</html>", {"detail": "Not Found"}):
            with serving(lambda path, query, body=body: (404, body)) as states:
                assert states.read([RUN]) == {}
        gone = {"detail": "The DagRun with dag_id: `flights` and run_id: `r1` was not found"}
        with serving(lambda path, query: (404, gone)) as states:
            assert states.read([RUN]) == {KEY: DagRunState(RunPhase.GONE)}

    def test_who_may_not_read_a_dag_learns_nothing_of_it(self) -> None:
        with serving(lambda path, query: (403, {"detail": "Forbidden"})) as states:
            assert states.read([RUN]) == {}

    def test_a_state_that_nobody_has_heard_of_is_not_the_end_of_a_run(self) -> None:
        with serving(an_airflow(lambda query: instances((-1, "success")), state="hibernating")) as states:
            assert states.read([RUN])[KEY].phase is RunPhase.ACTIVE
