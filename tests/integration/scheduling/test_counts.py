"""What evaluations and launches add to the counters, on both databases."""

from __future__ import annotations

from typing import Any

from airflow_snowpack.scheduling import CustomEvents
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.store.counters import read_counters


def counted(scheduler: Any, name: str) -> dict[tuple[str, ...], float]:
    """A counter by the values of its labels."""
    found = read_counters(scheduler.store).get(name, {})
    return {tuple(value for _, value in labels): value for labels, value in found.items()}


def test_a_launch_is_counted_once_with_its_wait_however_often_airflow_refuses_it(scheduler: Any) -> None:
    scheduler.declare("nightly", CustomEvents("go"))
    scheduler.airflow.refusal = NotStarted("paused")
    scheduler.send("go")
    scheduler.work()
    scheduler.go_on(seconds=10)
    assert counted(scheduler, "launch_seconds") == {}

    scheduler.airflow.refusal = None
    scheduler.go_on(minutes=1)

    assert len(scheduler.started) == 1
    assert counted(scheduler, "launch_seconds") == {("300",): 1}
    assert counted(scheduler, "launch_seconds_sum") == {(): 70}


def test_evaluations_are_counted_by_the_state_that_followed(scheduler: Any) -> None:
    scheduler.declare("often", CustomEvents("go"))
    scheduler.declare("rarely", CustomEvents("go", count=3))
    scheduler.send("go")
    scheduler.work()
    assert counted(scheduler, "evaluations") == {("pending_launch",): 1, ("pending_trigger",): 1}
