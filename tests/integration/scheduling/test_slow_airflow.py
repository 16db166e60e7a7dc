"""An Airflow that hangs, is slow or is down delays what needs its answer, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from partly_stuck_airflow import PartlyStuck

from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.scheduling import ClusterLoad, CustomEvents, MaxConcurrent, PoolSlots, Scheduler, Timeout, explain

GO, LATER = CustomEvents("go"), CustomEvents("later")
ROUNDS = 1_000
"""More than a busy machine needs; each waits a moment for what hangs."""

pytestmark = pytest.mark.one_database


@pytest.fixture
def stuck_airflow(request: pytest.FixtureRequest) -> Iterator[PartlyStuck]:
    from partly_stuck_airflow import PartlyStuck

    airflow = PartlyStuck(request.param)
    yield airflow
    airflow.released.set()


def until(work: Callable[[], object], is_done: Callable[[], bool]) -> None:
    for _ in range(ROUNDS):
        if is_done():
            return
        work()
    raise AssertionError("it never came")


@pytest.mark.parametrize("stuck_airflow", ["is_paused", "trigger", "count_active", "ended_runs", "free_slots"], indirect=True)
def test_a_request_to_airflow_that_hangs_delays_neither_other_runs_nor_the_intake(
    scheduler: Any, stuck_airflow: PartlyStuck
) -> None:
    airflow, running = stuck_airflow, Scheduler(
        scheduler.store, stuck_airflow, stuck_airflow, "s", patience=timedelta(milliseconds=20)
    )  # fmt: skip
    for dag_id in ("stuck", "well"):
        scheduler.declare(dag_id, GO, MaxConcurrent(1), PoolSlots(dag_id), dag_id=dag_id)
        scheduler.declare(f"{dag_id}_later", LATER, dag_id=f"{dag_id}_later")
    scheduler.clock.move(minutes=2)  # the ends of runs are due to be searched
    scheduler.send("go")
    needed = {"well"} if airflow.hangs != "ended_runs" else {"well", "stuck"}
    until(running.step, lambda: needed <= set(airflow.started))
    scheduler.send("later")
    until(running.step, lambda: {"well_later", "stuck_later"} <= set(airflow.started))
    assert ("stuck" in airflow.started) == (airflow.hangs == "ended_runs")

    airflow.released.set()
    scheduler.clock.move(minutes=2)
    until(running.step, lambda: "stuck" in airflow.started)
    assert sorted(airflow.started) == ["stuck", "stuck_later", "well", "well_later"], "each once"


@pytest.mark.parametrize("stuck_airflow", ["count_active", "free_slots", "loads"], indirect=True)
def test_a_run_whose_time_is_over_is_not_discarded_before_the_answer_that_it_waits_for(
    scheduler: Any, stuck_airflow: PartlyStuck
) -> None:
    """The scheduler comes back from an outage, and Airflow is slow."""
    airflow, running = stuck_airflow, Scheduler(
        scheduler.store, stuck_airflow, stuck_airflow, "s", patience=timedelta(milliseconds=20)
    )  # fmt: skip
    for dag_id, probe in (("stuck", "load"), ("well", "time")):
        limits = (MaxConcurrent(1), PoolSlots(dag_id), ClusterLoad(probe, 0.5))
        scheduler.declare(dag_id, GO, *limits, dag_id=dag_id, timeout=Timeout("30m"))
    scheduler.send("go")
    scheduler.clock.move(hours=1)
    until(running.step, lambda: "well" in airflow.started)
    assert "stuck" not in airflow.started
    assert "discarded" not in scheduler.history("stuck")

    airflow.released.set()
    until(running.step, lambda: "stuck" in airflow.started)
    assert sorted(airflow.started) == ["stuck", "well"]


def test_an_outage_of_airflow_is_the_reason_on_record_and_discards_no_run(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.declare("limited", GO, MaxConcurrent(1), timeout=Timeout("30m"))
    scheduler.declare("pooled", GO, PoolSlots("spark"), dag_id="other", timeout=Timeout("30m"))
    scheduler.airflow.pools["spark"] = 1

    def down(*_: Any) -> Any:
        raise AirflowUnreachable("http://airflow:8080 does not answer: ConnectError")

    with monkeypatch.context() as outage:
        outage.setattr(scheduler.airflow, "dag_runs", down)
        outage.setattr(scheduler.airflow, "free_slots", down)
        scheduler.send("go")
        for _ in range(3):
            scheduler.go_on(hours=1)
        for name in ("limited", "pooled"):
            assert "http://airflow:8080 does not answer: ConnectError" in str(explain(scheduler.schedules, name))
            assert "discarded" not in scheduler.history(name)
    scheduler.go_on(hours=1)
    assert sorted(launch.schedule for launch in scheduler.started) == ["limited", "pooled"]
