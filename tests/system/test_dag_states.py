"""Launches that wait for their DAG, ends of runs, and `airflow snowpack scheduler` beside a running Airflow."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import (
    AssetEvents,
    CustomEvents,
    Event,
    EventLog,
    PoolSlots,
    RunsSucceeded,
    Schedule,
    Schedules,
    explain,
)
from tests.system.conftest import AirflowHome, RunningAirflow

TARGET = "system_scheduled_late"


@pytest.fixture
def schedules(jobs: Jobs) -> Schedules:
    return Schedules(jobs.store, catalog="lake")


@pytest.fixture
def wanted(schedules: Schedules) -> Iterator[Callable[..., str]]:
    """Make a schedule whose trigger is satisfied; gives its name."""
    made: list[str] = []

    def make(dag_id: str, **arguments: object) -> str:
        name = f"wants_{uuid4().hex[:8]}"
        schedules.create(Schedule(name, dag_id=dag_id, trigger=CustomEvents(name), enabled=True, **arguments))  # type: ignore[arg-type]
        made.append(name)
        EventLog(schedules.store).publish([Event(f"event:{name}", schedules.store.clock())])
        return name

    yield make
    for name in made:
        schedules.suspend(name)


def launched(airflow: RunningAirflow, schedules: Schedules, name: str) -> str:
    """Wait for the schedule's run; gives its id."""
    ended = airflow.until(lambda: explain(schedules, name).ended, f"{name} launches")
    assert ended[0].state == "launched"
    return str(ended[0].run_id)


def waits_because(airflow: RunningAirflow, schedules: Schedules, name: str, why: str) -> None:
    airflow.until(lambda: why in (explain(schedules, name).problem or ""), f"{name} waits because {why}")


def test_a_paused_dag_keeps_its_launch_waiting_and_gets_it_when_it_is_unpaused(
    airflow: RunningAirflow, schedules: Schedules, wanted: Callable[..., str]
) -> None:
    airflow.call("PATCH", f"/dags/{TARGET}", {"is_paused": True})
    name = wanted(TARGET)
    waits_because(airflow, schedules, name, f"the DAG {TARGET} is paused")
    assert airflow.call("GET", f"/dags/{TARGET}/dagRuns?state=queued")["dag_runs"] == []

    airflow.call("PATCH", f"/dags/{TARGET}", {"is_paused": False})
    run_id = launched(airflow, schedules, name)
    assert airflow.call("GET", f"/dags/{TARGET}/dagRuns/{run_id}")["note"] == f"Started by the Snowpack schedule {name}."


def test_a_missing_dag_and_a_broken_one_keep_their_launches_waiting_and_get_them_when_they_are_there(
    airflow: RunningAirflow, airflow_home: AirflowHome, schedules: Schedules, wanted: Callable[..., str]
) -> None:
    missing, file = wanted("system_not_there_yet"), airflow_home.dags / "system_brittle.py"
    waits_because(airflow, schedules, missing, "there is no DAG system_not_there_yet")
    whole = file.read_text()
    file.write_text(whole + "\n1 / 0\n")
    airflow.until(lambda: airflow.call("GET", "/dags/system_brittle")["has_import_errors"], "the DAG is found broken")
    broken = wanted("system_brittle")
    waits_because(airflow, schedules, broken, "no longer parses")

    file.write_text(whole)
    (airflow_home.dags / "system_new.py").write_text(whole.replace("system_brittle", "system_not_there_yet"))
    assert launched(airflow, schedules, broken)
    assert launched(airflow, schedules, missing)


def test_a_dag_that_is_missing_is_named_by_the_schedule_that_listens_to_it(airflow: RunningAirflow, schedules: Schedules) -> None:
    names = {dag_id: f"after_{uuid4().hex[:8]}" for dag_id in ("system_never_there", TARGET)}
    for dag_id, name in names.items():
        trigger = RunsSucceeded(dag_id) & CustomEvents(name)
        schedules.create(Schedule(name, dag_id="system_asset", trigger=trigger, enabled=True))
    blocked = names["system_never_there"]
    airflow.until(lambda: explain(schedules, blocked).trigger.problem, f"{blocked} names what is missing")
    assert explain(schedules, blocked).trigger.problem == "the DAG system_never_there does not exist"
    assert explain(schedules, names[TARGET]).trigger.problem is None
    airflow.until(lambda: explain(schedules, blocked).scheduler_is_alive, "the scheduler leaves its sign of life")
    for name in names.values():
        schedules.suspend(name)


def test_a_run_that_ends_and_an_asset_that_changes_are_events(airflow: RunningAirflow, schedules: Schedules) -> None:
    after_run, after_asset = f"after_{uuid4().hex[:8]}", f"after_{uuid4().hex[:8]}"
    for name, trigger in ((after_run, RunsSucceeded("system_asset")), (after_asset, AssetEvents("x://system/late"))):
        schedules.create(Schedule(name, dag_id=TARGET, trigger=trigger, enabled=True))

    run = airflow.trigger("system_asset", {})
    for name in (after_run, after_asset):
        run_id = launched(airflow, schedules, name)
        conf = airflow.call("GET", f"/dags/{TARGET}/dagRuns/{run_id}")["conf"]
        assert run.run_id in str(conf["snowpack"]["events"])
        schedules.suspend(name)


def test_the_scheduler_process_starts_runs_through_the_rest_api_and_leaves_on_sigterm(
    airflow: RunningAirflow, airflow_home: AirflowHome, schedules: Schedules, wanted: Callable[..., str]
) -> None:
    address = f"http://127.0.0.1:{airflow_home.port}"
    environment = airflow_home.environment | {
        "AIRFLOW_CONN_REST": f'{{"conn_type": "http", "host": "{address}", "login": "admin", "password": "admin"}}'
    }
    airflow.call("PATCH", "/dags/snowpack_dispatcher", {"is_paused": True})
    airflow.end_active("snowpack_dispatcher")
    command = [sys.executable, "-m", "airflow", "snowpack", "scheduler", "--airflow-conn-id", "rest", "--poll", "1s"]
    with (airflow_home.home / "rest-scheduler.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        name = wanted(TARGET, constraints=[PoolSlots("default_pool")])
        assert launched(airflow, schedules, name)
        assert "missing_pool" in _blocked(airflow, schedules, wanted(TARGET, constraints=[PoolSlots("missing_pool")]))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        airflow.call("PATCH", "/dags/snowpack_dispatcher", {"is_paused": False})
        # Airflow plans the next run when it parses the file: the API, which has just ended the last one, does not.
        (airflow_home.dags / "snowpack_operations.py").touch()


def _blocked(airflow: RunningAirflow, schedules: Schedules, name: str) -> str:
    return str(airflow.until(lambda: explain(schedules, name).blocked_by, f"{name} says what it waits for"))
