"""A DAG whose runs Airflow does not tell: what counts them waits and says why, and everybody else goes on."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, SinceLastRun
from airflow_snowpack.scheduling.constraints.constraint import Constraint

pytestmark = pytest.mark.one_database


def test_what_counts_the_runs_of_a_secret_dag_waits_with_its_reason_and_nobody_else_does(scheduler: Any) -> None:
    scheduler.airflow.secret = {"secret"}
    counting: dict[str, Constraint] = {"most": MaxConcurrent(1, on_unmet="skip"), "since": SinceLastRun("5m")}
    for name, constraint in counting.items():
        scheduler.declare(name, CustomEvents("go"), constraint, dag_id="secret")
    scheduler.declare("free", CustomEvents("go"), MaxConcurrent(1), dag_id="open")
    scheduler.send("go")
    scheduler.work()

    assert [one.schedule for one in scheduler.airflow.started] == ["free"]
    for name in counting:
        [waiting] = scheduler.pending(name)
        assert [reason.text for reason in waiting.reasons if not reason.met] == ["the runs of secret are not known: 403"]

    scheduler.airflow.secret = set()
    scheduler.go_on(minutes=1)
    assert [one.dag_id for one in scheduler.airflow.started] == ["open", "secret"], "and the other one waits for that run"
