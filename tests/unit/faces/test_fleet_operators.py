"""Passes as tasks: planned, maintained by one task or several, and reported. A real store and catalog; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openlineage_events import extracted
from scripted_engine import ScriptedEngine

from airflow_snowpack import hooks, operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.maintenance.fleet import Budget, PassState
from airflow_snowpack.worker import process
from tests.unit.faces.conftest import Runner

POLICIES = """
rules:
  - tables: "**"
    actions:
      rewrite_data_files: {thresholds: {small_files: 4}}
      remove_orphan_files: {enabled: false}
"""


@pytest.fixture(autouse=True)
def policies(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file by which six small files are too many."""
    file = installation / "policies.yaml"
    file.write_text(POLICIES)
    monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", str(file))
    return file


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedEngine]:
    """Engines instead of Spark; the ones that were made."""
    made: list[ScriptedEngine] = []

    def make() -> ScriptedEngine:
        made.append(ScriptedEngine())
        return made[-1]

    monkeypatch.setattr(process, "engines", lambda _installation, _spark: make)
    return made


def plan(**arguments: Any) -> operators.PlanFleetOperator:
    return operators.PlanFleetOperator(task_id="plan", **{"budget": {"tables": 10}, "workers": 3, **arguments})


@pytest.mark.usefixtures("flights")
def test_one_task_plans_maintains_and_reports(run_operator: Runner, engines: list[ScriptedEngine], jobs: Jobs) -> None:
    outcome = run_operator(operators.MaintainFleetOperator(task_id="maintain_fleet", budget='{"gb_hours": 5}'))

    assert outcome.state == "success", outcome.error
    report = outcome.xcom
    assert (report["ended"], report["counts"]["maintained"]) == (True, 1)
    assert report["text"].startswith("1 table: 0 unchanged, 0 healthy, 1 maintained, 0 failed, 0 waiting")
    assert report["digest"].startswith("1 job, none failed, ")
    assert [engine.ran for engine in engines if engine.ran] == [["rewrite_data_files"]]
    assert [job.status for job in jobs.list()] == [JobStatus.COMPLETED]


@pytest.mark.usefixtures("flights")
def test_several_tasks_share_a_pass_and_the_last_one_reports(run_operator: Runner, engines: list[ScriptedEngine]) -> None:
    planned = run_operator(plan())
    assert planned.state == "success", planned.error
    (pass_id,) = planned.xcom
    assert run_operator(operators.MaintainFleetOperator(task_id="maintain", pass_id=pass_id)).xcom == {"completed": 1}
    assert run_operator(operators.MaintainFleetOperator(task_id="maintain_2", pass_id=pass_id)).xcom == {}
    report = run_operator(operators.ReportFleetOperator(task_id="report", pass_id=pass_id)).xcom
    assert report["counts"]["maintained"] == 1
    with hooks.SnowpackHook() as hook:
        kept = hook.installation.fleet_passes.get(pass_id).report
        assert report == {**(kept or {}), "digest": "1 job, none failed, no table sick."}


@pytest.mark.usefixtures("flights", "engines")
def test_the_tasks_of_a_pass_report_its_jobs_to_openlineage(run_operator: Runner, jobs: Jobs) -> None:
    pytest.importorskip("airflow.providers.openlineage", reason="the provider for OpenLineage is not installed")

    def reported() -> list[tuple[str, str, str, str | None]]:
        """Each job with its status and what was decided and became of its first action."""
        facets = extracted(run_operator.instance.task, run_operator.instance).run_facets
        found = facets["snowpack_maintenance"].jobs
        first = [each["actions"][0] for each in found]
        return [(job["jobId"], job["status"], act["verdict"], act.get("outcome")) for job, act in zip(found, first, strict=True)]

    (pass_id,) = run_operator(plan()).xcom
    (job,) = jobs.list()
    assert reported() == [(job.job_id, "pending", "run", None)]
    run_operator(operators.MaintainFleetOperator(task_id="maintain", pass_id=pass_id))
    assert reported() == [(job.job_id, "completed", "run", "succeeded")]
    run_operator(operators.ReportFleetOperator(task_id="report", pass_id=pass_id))
    assert reported() == [(job.job_id, "completed", "run", "succeeded")]


def test_a_healthy_fleet_starts_no_worker_and_changes_nothing(
    run_operator: Runner, engines: list[ScriptedEngine], policies: Path, jobs: Jobs, flights: TableName
) -> None:
    catalog = hooks.IcebergCatalogHook().config.load()
    before = catalog.load_table(flights.identifier).metadata
    policies.write_text(POLICIES.replace("small_files: 4", "small_files: 400"))
    assert run_operator(plan()).xcom == []
    alone = run_operator(operators.MaintainFleetOperator(task_id="maintain_fleet"))
    assert (alone.state, alone.xcom["counts"]["unchanged"]) == ("success", 1)
    assert (engines, jobs.list()) == ([], [])
    assert catalog.load_table(flights.identifier).metadata == before


@pytest.mark.usefixtures("flights", "engines")
def test_the_retry_of_a_planning_task_resumes_its_pass(run_operator: Runner, jobs: Jobs) -> None:
    first, second = run_operator(plan()), run_operator(plan(), try_number=2)
    assert first.xcom == second.xcom
    assert len(jobs.list()) == 1


@pytest.mark.usefixtures("flights")
def test_a_pass_that_was_left_open_ends_when_the_next_run_starts(run_operator: Runner, jobs: Jobs) -> None:
    (left,) = run_operator(plan(), run_id="night1").xcom
    (present,) = run_operator(plan(), run_id="night2").xcom
    assert left != present
    with hooks.SnowpackHook() as hook:
        passes = hook.installation.fleet_passes
        assert (passes.get(left).report or {})["counts"]["waiting"] == 1
        assert passes.entries(present)[0].passes_waited == 1
    assert [job.status for job in jobs.list()] == [JobStatus.PENDING, JobStatus.CANCELLED]


@pytest.mark.usefixtures("flights", "engines")
def test_a_pass_whose_planning_failed_is_ended_by_its_report_which_fails_too(run_operator: Runner) -> None:
    """Otherwise its tables would stay locked until the next night, or the run would count as a success."""
    with hooks.SnowpackHook() as hook:
        catalog, passes = hooks.IcebergCatalogHook().config, hook.installation.fleet_passes
        planning = passes.begin("dag/run/plan", "lake", catalog.catalog_id, Budget(), workers=1, holder="killed")
        pass_id = planning.pass_id
        outcome = run_operator(operators.ReportFleetOperator(task_id="report", pass_id=pass_id))
        assert (outcome.state, "its planning has failed" in str(outcome.error)) == ("failed", True)
        assert passes.get(pass_id).state is PassState.ENDED


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({"hours": 3}, "A budget has no limit 'hours'. Use one or more of gb_hours, bytes, tables, time."),
        ({"time": "soon"}, "The budget has time = 'soon'. Use a duration such as 4h, or leave it out for no limit."),
    ],
)
def test_a_budget_that_cannot_be_read_fails_the_task_without_a_retry(
    run_operator: Runner, budget: dict[str, Any], problem: str
) -> None:
    outcome = run_operator(plan(budget=budget))
    assert (outcome.state, str(outcome.error)) == ("failed", problem)


@pytest.mark.parametrize("workers", [0, -3, "None"])
def test_a_pass_without_a_worker_is_refused(run_operator: Runner, workers: Any) -> None:
    outcome = run_operator(plan(workers=workers))
    assert (outcome.state, "Give the most tasks that maintain tables at a time, 1 or more." in str(outcome.error)) == (
        "failed",
        True,
    )


@pytest.mark.usefixtures("flights", "engines")
@pytest.mark.parametrize("name", ["MaintainFleetOperator", "ReportFleetOperator"])
def test_the_id_of_a_pass_that_was_not_planned_is_refused(run_operator: Runner, name: str, jobs: Jobs) -> None:
    """A template that renders to nothing must not begin a pass of its own."""
    outcome = run_operator(getattr(operators, name)(task_id="task", pass_id="None"))
    assert (outcome.state, "the task that plans it has returned none" in str(outcome.error)) == ("failed", True)
    assert not jobs.list()


@pytest.mark.usefixtures("engines")
def test_drain_mode_is_reported_before_anything_is_read(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    jobs.set_drain(True, by="me")
    outcome = run_operator(plan())
    assert (outcome.state, "Drain mode is on" in str(outcome.error)) == ("up_for_retry", True)


@pytest.mark.usefixtures("flights", "engines")
def test_without_a_connection_to_airflow_a_pass_runs_and_its_plan_says_that_the_writers_are_unknown(
    run_operator: Runner, jobs: Jobs
) -> None:
    assert run_operator(plan()).state == "success"

    (job,) = jobs.list()
    assert job.plan is not None
    (decision,) = [each for each in job.plan["decisions"] if each["action"] == "rewrite_data_files"]
    assert decision["evidence"].endswith("the DAGs that write to the table are unknown: [snowpack] airflow_conn_id is empty")
