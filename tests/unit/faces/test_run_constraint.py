"""The gate of a DAG, in Airflow's own task runner, on a real store; the supervisor answers as the API server would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow_since import since_airflow

from airflow_snowpack import sensors
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import Delay, GatePlace, InvalidSchedule, MaxConcurrent, Runs, TimeWindow
from airflow_snowpack.scheduling.pending_runs.gated_runs import read_gate
from tests.unit.faces.conftest import Outcome, Runner, no_answer

LATER, PAST = "2999-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"
reads_dag_runs = since_airflow(3, 2)


@pytest.fixture
def active() -> set[str]:
    """The runs that the API server calls active."""
    return set()


@pytest.fixture
def run_in(run_operator: Runner, active: set[str]) -> Any:
    """Run the gate as a task of one of the DAG's runs."""
    from airflow.sdk.execution_time import comms

    run_operator.supervisor.answers["GetDRCount"] = lambda message: comms.DRCount(
        count=len(active if message.run_ids is None else active & set(message.run_ids))
    )

    def run(run_id: str, gate: sensors.RunConstraintSensor, **arguments: Any) -> Outcome:
        active.add(run_id)
        return run_operator(gate, run_id=run_id, **arguments)

    return run


def gate(*constraints: Any, **arguments: Any) -> sensors.RunConstraintSensor:
    return sensors.RunConstraintSensor(task_id="gate", constraints=list(constraints), **arguments)


def resumed(until: str = LATER) -> tuple[str, dict[str, Any]]:
    return "execute_complete", {"event": {"why": "called"}, "until": until}


@reads_dag_runs
def test_a_run_whose_constraints_are_met_goes_on_and_returns_their_reasons(run_in: Any, jobs: Jobs) -> None:
    outcome = run_in("a", gate(MaxConcurrent(1)))
    assert outcome.state == "success", outcome.error
    assert outcome.xcom["met"] is True
    assert outcome.xcom["reasons"] == ["0 of at most 1 runs of guard are active"]


@reads_dag_runs
def test_a_second_run_waits_in_the_triggerer_with_a_reason_and_goes_on_when_the_first_has_ended(
    run_in: Any, jobs: Jobs, active: set[str]
) -> None:
    run_in("a", gate(MaxConcurrent(1)))
    waits = run_in("b", gate(MaxConcurrent(1)))
    assert waits.state == "deferred"
    assert waits.message.classpath == "airflow_snowpack.triggers.waits.RunConstraintTrigger"
    (reason,) = [each.value for each in waits.sent if getattr(each, "key", "") == "waiting_reason"]
    assert reason == "1 of at most 1 runs of guard are active"

    active.discard("a")
    Runs(jobs.store).ended("guard", "a", "success", datetime.now(UTC))
    assert run_in("b", gate(MaxConcurrent(1)), resume=resumed()).state == "success"


@reads_dag_runs
def test_a_retry_of_a_gate_that_let_its_run_on_lets_it_on_again(run_in: Any, jobs: Jobs) -> None:
    for try_number in (1, 2):
        assert run_in("a", gate(MaxConcurrent(1)), try_number=try_number).state == "success"


@reads_dag_runs
def test_a_run_that_waits_for_a_moment_is_not_called_before_it(run_in: Any, jobs: Jobs) -> None:
    outcome = run_in("a", gate(Delay("3h"), MaxConcurrent(1)))
    place = read_gate(jobs.store, GatePlace("guard", "a", "gate"))
    assert place is not None
    assert place.not_before is not None
    assert outcome.message.trigger_kwargs["not_before"] == place.not_before.isoformat()


@reads_dag_runs
def test_a_constraint_that_skips_skips_the_task(run_in: Any, jobs: Jobs) -> None:
    run_in("a", gate(MaxConcurrent(1)))
    assert run_in("b", gate(MaxConcurrent(1, on_unmet="skip"))).state == "skipped"


@reads_dag_runs
@pytest.mark.parametrize(("on_timeout", "state"), [("go_on", "success"), ("skip", "skipped"), ("fail", "up_for_retry")])
def test_when_the_time_is_up_on_timeout_decides(run_in: Any, jobs: Jobs, on_timeout: Any, state: str) -> None:
    run_in("a", gate(MaxConcurrent(1)))
    run_in("b", gate(MaxConcurrent(1), on_timeout=on_timeout))
    outcome = run_in("b", gate(MaxConcurrent(1), on_timeout=on_timeout), resume=resumed(PAST))
    assert outcome.state == state
    if state == "success":
        assert outcome.xcom["met"] is False


@reads_dag_runs
def test_without_a_triggerer_it_asks_again_and_again_until_its_time_is_up(run_in: Any, jobs: Jobs) -> None:
    run_in("a", gate(MaxConcurrent(1)))
    soon: dict[str, Any] = {"deferrable": False, "poke_interval": 0.05, "timeout": timedelta(seconds=0.3)}
    assert run_in("b", gate(MaxConcurrent(1), on_timeout="go_on", **soon)).state == "success"
    assert run_in("c", gate(MaxConcurrent(1), **soon)).state == "skipped"


@reads_dag_runs
def test_constraints_may_be_written_as_json_with_templates(run_in: Any, jobs: Jobs) -> None:
    templated = gate({"max_concurrent": {"limit": 1, "group": "{{ params.group }}"}})
    assert run_in("a", templated, params={"group": "nightly"}).state == "success"
    assert run_in("b", gate(MaxConcurrent(1, group="nightly"))).state == "deferred"


@reads_dag_runs
def test_an_airflow_that_does_not_answer_is_waited_for(run_in: Any, jobs: Jobs, run_operator: Runner) -> None:
    run_operator.supervisor.answers["GetDRCount"] = no_answer
    assert run_in("a", gate(MaxConcurrent(1))).state == "deferred"


def test_a_constraint_that_cannot_be_used_is_refused_when_the_dag_is_parsed_with_its_field() -> None:
    with pytest.raises(InvalidSchedule, match=r"constraints\[1\]\.max_concurrent\.limit"):
        gate(TimeWindow("20:00", "21:00"), {"max_concurrent": 0})
