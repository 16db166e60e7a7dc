"""``airflow snowpack fleet``: list, show and run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Run
from made_plans import made_plan

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.fleet.progress import PassWork
from airflow_snowpack.maintenance.planning import Estimate, TablePlan

pytestmark = pytest.mark.one_database


def plan_of(table: TableName) -> TablePlan:
    # What only a plan estimates is in no column of a pass.
    work = Estimate(files_removed=5, files_added=1, bytes_rewritten=3072, gb_hours=1.5, seconds=60.0)
    return made_plan(table, work, rewrite_data_files="6 of 6 files are small")


@pytest.fixture
def planned(jobs: Jobs, flights: TableName) -> Pass:
    passes = FleetPasses(jobs.store)
    planning = passes.begin("nightly/run/plan", "lake", flights.catalog_id, Budget(tables=1), workers=2, holder="worker-1")
    reason = "The budget of 1 table is used by tables that come first."
    entry = PassEntry(flights, 0, EntryState.WAITING, reason, plan_of(flights))
    return passes.plan(planning, [entry], [], {"listed": 7, "healthy": 6})


def test_passes_are_a_table_for_people_and_data_for_programs_each_with_the_reason_of_its_tables(
    snowpack: Run, planned: Pass
) -> None:
    listed = snowpack("fleet", "list").out
    assert all(text in listed for text in (planned.pass_id[:12], "running", "nightly/run/plan"))
    (body,) = snowpack("fleet", "list", "-o", "json").json["passes"]
    assert (body["pass_id"], body["budget"]["tables"], body["counts"]["listed"]) == (planned.pass_id, 1, 7)

    shown = snowpack("fleet", "show", planned.pass_id[:8]).out
    assert "7 tables: 0 unchanged, 6 healthy, 0 maintained, 0 failed, 1 waiting" in shown
    assert "Waiting: 1 table: demo.flights: The budget of 1 table is used by tables that come first." in shown
    body = snowpack("fleet", "show", planned.pass_id, "-o", "json").json
    assert (body["tables"][0]["state"], body["tables"][0]["gb_hours"]) == ("waiting", 1.5)
    assert body["tables"][0]["evidence"] == {"rewrite_data_files": "6 of 6 files are small"}
    missing = snowpack("fleet", "show", "0" * 32)
    assert (missing.code, "`airflow snowpack fleet list` shows the passes" in missing.err) == (4, True)


def test_a_pass_has_the_outcome_of_a_table_beside_its_estimate(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    passes = FleetPasses(jobs.store)
    planning = passes.begin("nightly/run/plan", "lake", flights.catalog_id, Budget(tables=1), workers=2, holder="worker-1")
    entry = PassEntry(flights, 0, EntryState.CHOSEN, plan=plan_of(flights))
    pass_, work = passes.plan(planning, [entry], [], {"listed": 7}), PassWork(passes, jobs)
    work.submit(pass_)
    assert snowpack("fleet", "show", pass_.pass_id, "-o", "json").json["tables"][0]["outcome"] is None
    claim = jobs.claim("pod-1", catalog_id=flights.catalog_id)
    assert claim is not None
    metrics = {"rewritten_data_files_count": 6, "rewritten_bytes_count": 2048}
    done = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted", 30.0, metrics=metrics, gb_hours=0.5)
    jobs.finish(claim, JobStatus.COMPLETED, [done])
    work.settle(pass_)

    shown = snowpack("fleet", "show", pass_.pass_id).out
    assert "5 files removed, 3.0 KiB rewritten, 1 min, 1.50 GB·h | 6 files removed, 2.0 KiB rewritten, 30 s, 0.50 GB·h" in shown
    outcome = {"files_removed": 6, "bytes": 2048, "gb_hours": 0.5, "seconds": 30.0}
    assert snowpack("fleet", "show", pass_.pass_id, "-o", "json").json["tables"][0]["outcome"] == outcome


def test_a_budget_that_cannot_be_read_is_refused_before_anything_is_planned(snowpack: Run, jobs: Jobs) -> None:
    refused = snowpack("fleet", "run", "--bytes", "many")
    assert (refused.code, "Use a size such as 500 GiB" in refused.err) == (2, True)
    assert not FleetPasses(jobs.store).list().items


@pytest.mark.usefixtures("flights")
def test_a_pass_over_a_healthy_fleet_ends_without_spark(snowpack: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six small files are below the default threshold, and the weekly search for orphan files is disabled."""
    (tmp_path / "policies.yaml").write_text("default: {actions: {remove_orphan_files: {enabled: false}}}")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__POLICIES", str(tmp_path / "policies.yaml"))
    monkeypatch.setattr("airflow_snowpack.worker.process.engines", None)
    report = snowpack("fleet", "run", "--tables", "3", "-o", "json").json
    assert (report["ended"], report["counts"]["listed"], report["counts"]["healthy"]) == (True, 1, 1)
