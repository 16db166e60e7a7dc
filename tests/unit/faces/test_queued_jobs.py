"""Workers as tasks: a sensor that waits for jobs, and tasks that run them one after the other. A real store; no Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from scripted_engine import ScriptedEngine, eventually
from trigger_rounds import trigger_of

from airflow_snowpack import operators, sensors
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, Job, Jobs, JobStatus
from airflow_snowpack.worker import process
from tests.unit.faces.conftest import Runner

ACTIONS = ["rewrite_manifests", "expire_snapshots"]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    """Engines instead of Spark, of which every second one fails; the ones that were made."""
    made: list[ScriptedEngine] = []

    def make() -> ScriptedEngine:
        made.append(ScriptedEngine({"rewrite_manifests": "fail"} if len(made) % 2 else {}))
        return made[-1]

    monkeypatch.setattr(process, "engines", lambda _installation, _spark: make)
    return made


@pytest.fixture
def waiting(jobs: Jobs, identified: Callable[[str], TableName]) -> list[Job]:
    return [jobs.submit(identified(f"demo.t{number}"), ACTIONS) for number in range(3)]


def work(**arguments: Any) -> operators.RunQueuedJobsOperator:
    return operators.RunQueuedJobsOperator(task_id="work", **arguments)


@pytest.mark.usefixtures("engines", "waiting")
def test_one_task_runs_all_jobs_and_succeeds_although_one_of_them_fails(run_operator: Runner, jobs: Jobs) -> None:
    outcome = run_operator(work())

    assert (outcome.state, outcome.xcom) == ("success", {"completed": 2, "failed": 1}), outcome.error
    assert {job.status for job in jobs.list()} == {JobStatus.COMPLETED, JobStatus.FAILED}
    assert jobs.locks.list() == []


def test_a_task_with_an_empty_queue_is_skipped_without_spark(run_operator: Runner, jobs: Jobs) -> None:
    assert run_operator(work()).state == "skipped"


@pytest.mark.usefixtures("engines")
def test_a_task_leaves_jobs_of_other_catalogs(run_operator: Runner, jobs: Jobs, identified: Callable[[str], TableName]) -> None:
    other = jobs.submit(replace(identified("demo.t"), catalog_id="another"), ACTIONS)

    assert run_operator(work()).state == "skipped"
    assert jobs.get(other.job_id).status is JobStatus.PENDING


@pytest.mark.usefixtures("engines", "waiting")
def test_a_signal_in_the_middle_of_a_claim_fails_the_claimed_job_before_the_process_ends(
    run_operator: Runner, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Jobs.claim

    def claim_and_meet_a_signal(self: Jobs, *arguments: Any, **options: Any) -> Claim | None:
        claimed = claim(self, *arguments, **options)
        run_operator.instance.task.on_kill()  # as Airflow's handler of SIGTERM calls it, in this very thread
        return claimed

    monkeypatch.setattr(Jobs, "claim", claim_and_meet_a_signal)
    outcome = run_operator(work())

    assert outcome.state != "success"
    eventually(lambda: jobs.count_open()[JobStatus.RUNNING] == 0)  # and no claim stays behind until its lease runs out
    assert [job.error for job in jobs.list(status=JobStatus.FAILED)] == ["Airflow ended the task guard.work"]
    assert len(jobs.locks.list()) == 2


@pytest.mark.usefixtures("engines")
def test_a_retry_first_takes_over_the_job_that_its_try_before_had_claimed(
    run_operator: Runner, jobs: Jobs, waiting: list[Job]
) -> None:
    (first,) = [job for job in waiting if job.table.table == "t0"]
    left_behind = jobs.claim("guard/run1/work try 1 on gone:1", catalog_id=first.table.catalog_id)
    jobs.flush()

    outcome = run_operator(work(), try_number=2)

    assert outcome.xcom == {"completed": 2, "failed": 1}, outcome.error
    assert left_behind is not None
    assert jobs.get(left_behind.job.job_id).attempt == 2
    assert jobs.holds(left_behind) is False


@pytest.mark.usefixtures("waiting")
def test_a_killed_task_fails_its_job_and_claims_no_other(
    run_operator: Runner, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(_action: str) -> None:
        running = run_operator.instance.task  # Airflow runs a copy
        threading.Thread(target=running.abandon, args=("Airflow ended the task",)).start()

    engine = ScriptedEngine({"rewrite_manifests": "block"}, between=kill)
    monkeypatch.setattr(process, "engines", lambda _installation, _spark: lambda: engine)

    run_operator(work())

    (failed,) = jobs.list(status=JobStatus.FAILED)
    assert failed.error == "Airflow ended the task"
    assert jobs.queue_depth() == 2
    assert len(jobs.locks.list()) == 2


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(("max_workers", "numbers"), [(2, [0, 1]), (8, [0, 1, 2])])
def test_the_sensor_returns_a_worker_for_each_job_up_to_the_limit(
    run_operator: Runner, max_workers: int, numbers: list[int]
) -> None:
    outcome = run_operator(sensors.JobQueueSensor(task_id="wait", max_workers=max_workers))
    assert (outcome.state, outcome.xcom) == ("success", numbers), outcome.error


def test_the_sensor_waits_in_the_triggerer_until_a_job_waits(
    run_operator: Runner, jobs: Jobs, identified: Callable[[str], TableName], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", "PT0.001S")
    sensor = sensors.JobQueueSensor(task_id="wait", poke_interval=0.1)
    outcome = run_operator(sensor)
    assert outcome.state == "deferred"
    (deferred,) = [each for each in outcome.sent if type(each).__name__ == "DeferTask"]
    trigger = trigger_of(deferred)

    async def event_after_a_submit() -> dict[str, Any]:
        waiting = asyncio.ensure_future(anext(aiter(trigger.run())))
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(jobs.submit, identified("demo.t"), ACTIONS)
        return dict((await waiting).payload)

    event = asyncio.run(asyncio.wait_for(event_after_a_submit(), timeout=PATIENCE_S))
    assert event == {"depth": 1}
    resumed = run_operator(sensor, resume=("execute_complete", {"event": event, "until": "9999-01-01T00:00:00+00:00"}))
    assert (resumed.state, resumed.xcom) == ("success", [0])


def test_the_depths_of_several_catalogs_are_one_statement(
    jobs: Jobs, waiting: list[Job], identified: Callable[[str], TableName]
) -> None:
    ours = identified("demo.t").catalog_id
    statements: list[str] = []
    sa.event.listen(jobs.store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))

    assert jobs.queue_depths([ours, "another"]) == {ours: 3, "another": 0}
    assert len([each for each in statements if each.startswith("SELECT")]) == 1


def test_the_sensor_does_not_count_jobs_of_other_catalogs(
    run_operator: Runner, jobs: Jobs, identified: Callable[[str], TableName]
) -> None:
    jobs.submit(replace(identified("demo.t"), catalog_id="another"), ACTIONS)

    assert run_operator(sensors.JobQueueSensor(task_id="wait")).state == "deferred"


@pytest.mark.parametrize("max_workers", [0, -1])
def test_a_sensor_without_workers_is_refused(max_workers: int) -> None:
    with pytest.raises(ValueError, match="It must be at least 1"):
        sensors.JobQueueSensor(task_id="wait", max_workers=max_workers)
