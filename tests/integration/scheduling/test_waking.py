"""The end of a run makes those due at once who wait for it, by an index, whenever it comes in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bounded import PATIENCE_S
from scripted_engine import eventually

from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, Runs, SinceLastRun
from airflow_snowpack.scheduling.airflow_port import DagRuns
from airflow_snowpack.scheduling.pending_runs import evaluation
from airflow_snowpack.store import open_store

GO = CustomEvents("go")


def due(scheduler: Any, name: str) -> bool:
    """Whether it is looked at now."""
    (job,) = scheduler.pending(name)
    return job.next_check_at is not None and job.next_check_at <= scheduler.clock()


@pytest.mark.parametrize("constraint", [MaxConcurrent(1), MaxConcurrent(1, group="g"), SinceLastRun("1m")], ids=str)
def test_the_end_of_any_run_wakes_who_waits_for_the_dag_or_its_group(scheduler: Any, constraint: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("waits", GO, constraint)
    scheduler.send("go")
    scheduler.work()
    assert not due(scheduler, "waits")
    scheduler.airflow.running.clear()
    scheduler.runs.ended("maintain", "manual__1", "failed", scheduler.clock())
    assert due(scheduler, "waits")
    scheduler.work()
    assert len(scheduler.started) == 1


def test_the_run_of_another_dag_of_the_group_wakes_too(scheduler: Any) -> None:
    scheduler.declare("other", CustomEvents("other"), MaxConcurrent(1, group="g"), dag_id="other")
    scheduler.declare("waits", GO, MaxConcurrent(1, group="g"))
    scheduler.send("other")
    scheduler.work()
    scheduler.send("go")
    scheduler.work()
    assert [launch.dag_id for launch in scheduler.started] == ["other"]
    scheduler.end_run()
    assert due(scheduler, "waits")


def test_it_wakes_nobody_who_waits_for_another_dag(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("waits", GO, MaxConcurrent(1))
    scheduler.send("go")
    scheduler.work()
    scheduler.runs.ended("another", "manual__1", "success", scheduler.clock())
    assert not due(scheduler, "waits")


def test_an_end_between_asking_airflow_and_the_look_is_not_missed(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("waits", GO, MaxConcurrent(1))
    really = scheduler.airflow.dag_runs

    def dag_runs(known: Any) -> dict[str, DagRuns]:
        told: dict[str, DagRuns] = really(known)
        scheduler.airflow.running.clear()
        scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
        return told

    scheduler.airflow.dag_runs = dag_runs
    scheduler.send("go")
    scheduler.work()
    assert scheduler.started == []
    assert due(scheduler, "waits")
    scheduler.airflow.dag_runs = really
    scheduler.work()
    assert len(scheduler.started) == 1


def test_an_end_that_airflow_tells_before_it_shows_it_is_looked_for_again_at_once(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("waits", GO, MaxConcurrent(1))
    scheduler.send("go")
    scheduler.work()
    scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
    scheduler.work()
    assert scheduler.started == []
    scheduler.airflow.running.clear()  # now it has committed
    scheduler.go_on(seconds=2)
    assert len(scheduler.started) == 1


def test_an_end_that_comes_while_a_checker_writes_down_that_its_job_waits_wakes_it(
    scheduler: Any, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker has looked for ends and found none; the end has looked for who waits and found nobody."""
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("waits", GO, MaxConcurrent(1))
    scheduler.send("go")
    scheduler.subscriber.step()
    really = evaluation.ended_meanwhile
    with open_store(store_url, clock=scheduler.clock) as other, ThreadPoolExecutor(1) as elsewhere:

        def too_early(*asked: Any) -> Any:
            found = really(*asked)
            told.append(elsewhere.submit(Runs(other).ended, "maintain", "manual__1", "success", scheduler.clock()))
            if other.is_postgres:  # elsewhere one writer waits for the other anyway
                eventually(lambda: bool(scheduler.log.latest("run:maintain:success")), PATIENCE_S)
            return found

        told: list[Any] = []
        monkeypatch.setattr(evaluation, "ended_meanwhile", too_early)
        scheduler.checker.step()
        assert [each.result(PATIENCE_S) for each in told] == [True]
    assert due(scheduler, "waits")
