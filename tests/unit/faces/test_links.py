"""From a task instance to its job: the link is there as soon as the job is, however the task ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog

from airflow_snowpack import operators, sensors
from airflow_snowpack.connections.spark import Spark
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

KEY = "_link_MaintenanceJobLink"


def links(sent: list[Any]) -> list[Any]:
    """What was written as the link, in order."""
    return [each.value for each in sent if type(each).__name__ == "SetXCom" and each.key == KEY]


def link_at_the_end(runner: Runner) -> Any:
    """What Airflow itself writes when a task has ended, over what we wrote."""
    from airflow.sdk.api.datamodels._generated import TaskInstanceState
    from airflow.sdk.execution_time.task_runner import finalize

    instance, sent = runner.instance, runner.supervisor.sent
    before = len(sent)
    finalize(instance, TaskInstanceState.SUCCESS, instance.get_template_context(), structlog.get_logger())
    (link,) = links(sent[before:])
    return link


def test_every_operator_that_has_a_job_has_the_link_and_no_other() -> None:
    from airflow_snowpack.links import MaintenanceJobLink

    with_a_job = (
        operators.CancelMaintenanceOperator,
        operators.MaintainTableOperator,
        sensors.MaintenanceJobSensor,
        operators.RunMaintenanceJobOperator,
        operators.SubmitMaintenanceOperator,
    )
    without = (
        operators.AcquireTableLockOperator,
        operators.ReleaseTableLockOperator,
        operators.SweepOperator,
        sensors.TableLockSensor,
    )
    assert all(isinstance(kind.operator_extra_links[0], MaintenanceJobLink) for kind in with_a_job)
    assert all(kind.operator_extra_links == () for kind in without)


def test_the_link_stays_below_the_path_that_airflow_is_served_under(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.links import job_path

    assert job_path("0a") == "/snowpack/ui/jobs/0a"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/airflow/")
    assert job_path("0a") == "/airflow/snowpack/ui/jobs/0a"
    assert job_path("../x") == "/airflow/snowpack/ui/jobs/..%2Fx"


def test_a_submit_leads_to_the_job_that_it_submitted(run_operator: Runner, flights: TableName) -> None:
    outcome = run_operator(operators.SubmitMaintenanceOperator(task_id="submit", table="demo.flights"))

    assert links(outcome.sent) == [f"/snowpack/ui/jobs/{outcome.xcom['job_id']}"]
    assert link_at_the_end(run_operator) == links(outcome.sent)[0]


@pytest.mark.parametrize("kind", ["SubmitMaintenanceOperator", "MaintainTableOperator"])
def test_a_dry_run_leads_to_its_job(kind: str, run_operator: Runner, flights: TableName) -> None:
    outcome = run_operator(getattr(operators, kind)(task_id="plan", table="demo.flights", dry_run=True))

    assert links(outcome.sent) == [f"/snowpack/ui/jobs/{outcome.xcom['job_id']}"]


class Killed(BaseException):
    """As if the process ended here."""


def test_a_task_that_is_killed_while_it_works_has_its_link_already(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_spark(_spark: Spark) -> None:
        raise Killed

    monkeypatch.setattr("airflow_snowpack.connections.spark.Spark.session", start_spark)
    monkeypatch.setattr("airflow_snowpack.connections.spark.Spark.check", lambda _hook: None)
    outcome = run_operator(
        operators.MaintainTableOperator(task_id="maintain", table="demo.flights", actions=["rewrite_manifests"])
    )
    (job,) = jobs.list()

    assert isinstance(outcome.error, Killed)
    assert links(outcome.sent) == [f"/snowpack/ui/jobs/{job.job_id}"]


def test_a_sensor_that_waits_and_one_whose_job_failed_lead_to_the_job(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    waiting = run_operator(sensors.MaintenanceJobSensor(task_id="done", job_id=job.job_id))
    jobs.cancel(job.job_id, by="ops")
    failed = run_operator(sensors.MaintenanceJobSensor(task_id="done", job_id=job.job_id))

    assert (waiting.state, failed.state) == ("deferred", "failed")
    assert links(waiting.sent) == links(failed.sent) == [f"/snowpack/ui/jobs/{job.job_id}"]
    assert link_at_the_end(run_operator) == f"/snowpack/ui/jobs/{job.job_id}"


def test_a_cancel_leads_to_the_job_even_when_it_came_too_late(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    assert jobs.cancel(job.job_id, by="ops").status is JobStatus.CANCELLED
    outcome = run_operator(operators.CancelMaintenanceOperator(task_id="stop", job_id=job.job_id))

    assert outcome.state == "skipped"
    assert links(outcome.sent) == [f"/snowpack/ui/jobs/{job.job_id}"]


def test_a_worker_that_found_nothing_to_do_has_no_link(run_operator: Runner, installation: Any) -> None:
    outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work"))

    assert outcome.state == "skipped"
    assert links(outcome.sent) == []
    assert link_at_the_end(run_operator) == ""


def test_a_link_that_cannot_be_written_does_not_stop_the_job(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    push = RuntimeTaskInstance.xcom_push

    def fail(self: RuntimeTaskInstance, key: str, value: Any) -> None:
        if key == KEY:
            raise ConnectionError("the API server is away")
        push(self, key, value)

    monkeypatch.setattr(RuntimeTaskInstance, "xcom_push", fail)
    outcome = run_operator(operators.SubmitMaintenanceOperator(task_id="submit", table="demo.flights"))

    assert outcome.state == "success"
    assert jobs.get(outcome.xcom["job_id"]).status is JobStatus.PENDING
