"""``actions="auto"`` in a task: the plan of the table decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance import action_names
from airflow_snowpack.maintenance.writers import DagsOfTables, WritingDag

if TYPE_CHECKING:
    from conftest import Runner

SKIPPED = "Skipped by the plan: "


def sick(table: TableName) -> None:
    """Let six small files be too many, by a property of the table."""
    with hooks.IcebergCatalogHook().catalog.load_table(table.identifier).transaction() as change:
        change.set_properties({"snowpack.rewrite_data_files.thresholds.small_files": "6"})


def auto(**arguments: object) -> operators.MaintainTableOperator:
    return operators.MaintainTableOperator(task_id="maintain", table="demo.flights", actions="auto", **arguments)  # type: ignore[arg-type]


def test_a_dry_run_is_the_plan(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    sick(flights)

    outcome = run_operator(auto(dry_run=True))

    messages = [result["message"] for result in outcome.xcom["results"]]
    assert messages[0] == (
        "Would run: 6 of 6 files below 384.0 MiB; threshold 6; "
        "the DAGs that write to the table are unknown: [snowpack] airflow_conn_id is empty"
    )
    assert all(message.startswith(SKIPPED) for message in messages[1:])
    (job,) = jobs.list()
    assert job.plan is not None
    verdicts = {decision["action"]: decision["verdict"] for decision in job.plan["decisions"]}
    assert verdicts == dict.fromkeys(action_names(), "skip") | {"rewrite_data_files": "run"}


def test_a_submitted_plan_has_the_options_of_the_policy(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    sick(flights)

    submit = operators.SubmitMaintenanceOperator(task_id="submit", table="demo.flights", actions="auto", priority=7)
    outcome = run_operator(submit)

    assert outcome.state == "success", outcome.error
    (job,) = jobs.list()
    assert (job.status, job.priority) == ("pending", 7)
    assert job.options["rewrite_data_files"]["min_input_files"] == 5


@pytest.mark.parametrize(("days", "older_than"), [(1, None), (5, "P6DT1H")])
def test_orphan_files_that_a_running_dag_may_still_commit_stay_without_a_plan_too(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch, days: int, older_than: str | None
) -> None:
    running = WritingDag("ingest", running_since=datetime.now(UTC) - timedelta(days=days, minutes=1))
    dags = DagsOfTables({flights.asset_uri: (running,)})
    submit = operators.SubmitMaintenanceOperator(task_id="submit", table="demo.flights", actions=["remove_orphan_files"])
    monkeypatch.setattr(type(submit), "dags_of_tables", lambda *_: lambda: dags)

    outcome = run_operator(submit)

    assert outcome.state == "success", outcome.error
    (job,) = jobs.list()
    assert job.options.get("remove_orphan_files", {}).get("older_than") == older_than


def test_the_policies_of_the_dags_folder_decide_or_those_that_the_task_names(
    run_operator: Runner, jobs: Jobs, flights: TableName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    (tmp_path / "policies.yaml").write_text("rules:\n  - tables: demo.*\n    skip: moves to another catalog\n")

    run_operator(auto(dry_run=True))

    (job,) = jobs.list()
    (message,) = {result.message for result in job.results}
    assert message.startswith(SKIPPED + "excluded by the policy: moves to another catalog (rule 'demo.*'")

    (tmp_path / "policies.yaml").write_text("rules: [{tables: demo.*, skip: by the setting}]")
    (tmp_path / "own.yaml").write_text("rules: [{tables: demo.*, skip: by the task}]")

    for file in ("own.yaml", tmp_path / "own.yaml"):
        run_operator(auto(dry_run=True, policies=file))
    assert all("by the task" in result.message for job in jobs.list()[:2] for result in job.results)

    outcome = run_operator(auto(policies="absent.yaml"))
    assert outcome.state == "failed"
    assert "absent.yaml cannot be read" in str(outcome.error)


def test_a_healthy_table_is_left_alone_without_a_jvm_and_options_beside_auto_are_refused(
    run_operator: Runner, flights: TableName, jobs: Jobs, spark_sessions: list[str]
) -> None:
    outcome = run_operator(auto(where="month = 3"))

    assert outcome.state == "failed"
    assert "where cannot be given with the actions 'auto'" in str(outcome.error)

    outcome = run_operator(auto())

    assert outcome.state == "success", outcome.error
    assert spark_sessions == []
    (job,) = jobs.list()
    assert [(result.action, result.outcome) for result in job.results] == [(name, "skipped") for name in action_names()]
    assert job.results[0].message == SKIPPED + "6 of 6 files below 384.0 MiB; threshold 100"
    assert outcome.xcom["before"] == outcome.xcom["after"]
