"""Submitting, dry runs, cancelling and sweeping as tasks, with a real store and a real catalog; no Spark."""

from __future__ import annotations

from itertools import cycle, product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_snowpack import operators, sensors
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, Job, Jobs, JobStatus
from airflow_snowpack.store import AuditTrail
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from airflow.sdk import Asset, AssetAlias, Context


def submit(**arguments: Any) -> operators.SubmitMaintenanceOperator:
    return operators.SubmitMaintenanceOperator(
        task_id="submit", **{"table": "demo.flights", "actions": ["expire_snapshots"], **arguments}
    )


def test_a_submitted_job_is_pending_and_holds_the_table_and_a_second_try_finds_it_even_in_drain_mode(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    outcome = run_operator(submit())

    assert outcome.state == "success"
    job = jobs.get(outcome.xcom["job_id"])
    assert (job.status, job.actions, job.submitted_by) == (JobStatus.PENDING, ("expire_snapshots",), "guard/run1/submit")
    lock = jobs.locks.get(flights)
    assert lock is not None
    assert lock.holder == job.job_id

    assert run_operator(submit(), try_number=2).xcom["job_id"] == job.job_id
    jobs.set_drain(True, by="ops", reason="moving the store")
    assert run_operator(submit(), try_number=2).xcom["job_id"] == job.job_id


def test_a_second_try_for_another_table_does_not_pass_the_first_ones_job_for_its_own(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    other = jobs.submit(TableName("lake", "demo", "airports"), ["expire_snapshots"], owner="guard/run1/submit")
    outcome = run_operator(submit(), try_number=2)

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["job_id"] != other.job_id
    assert outcome.xcom["table"] == str(flights)


def test_actions_and_options_may_come_as_values_or_as_any_text_that_a_template_makes_of_one(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    for actions in [
        ["remove_orphan_files", "rewrite_data_files"],
        '["remove_orphan_files", "rewrite_data_files"]',
        "['remove_orphan_files', 'rewrite_data_files']",
        "remove_orphan_files, rewrite_data_files",
        "{{ params.actions }}",
        "{{ params.actions | tojson }}",
    ]:
        outcome = run_operator(submit(actions=actions), params={"actions": ["remove_orphan_files", "rewrite_data_files"]})

        assert outcome.xcom["actions"] == ["rewrite_data_files", "remove_orphan_files"], outcome.error
        jobs.cancel(outcome.xcom["job_id"])

    for options in [{"expire_snapshots": {"retain_last": 7}}, '{"expire_snapshots": {"retain_last": 7}}', "{{ params.options }}"]:
        outcome = run_operator(submit(options=options), params={"options": {"expire_snapshots": {"retain_last": 7}}})

        assert jobs.get(outcome.xcom["job_id"]).options == {"expire_snapshots": {"retain_last": 7}}
        jobs.cancel(outcome.xcom["job_id"])


def test_where_narrows_the_rewrites_and_a_job_carries_whether_spark_runs_in_any_case(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    task = submit(actions=["rewrite_data_files", "expire_snapshots"], where="month = {{ params.month }}")
    outcome = run_operator(task, params={"month": 3})

    assert jobs.get(outcome.xcom["job_id"]).options == {"rewrite_data_files": {"where": "month = 3"}}

    jobs.cancel(outcome.xcom["job_id"])
    outcome = run_operator(submit(only_if_needed="False"))

    assert jobs.get(outcome.xcom["job_id"]).options == {"expire_snapshots": {"only_if_needed": False}}


def test_a_request_that_a_retry_would_repeat_fails_for_good(run_operator: Runner, flights: TableName) -> None:
    for arguments, message in [
        ({"actions": ["vacuum"]}, "'vacuum' is not a maintenance action"),
        ({"actions": []}, "The list of actions is empty"),
        ({"actions": 5}, "The argument actions = '5' cannot be read"),
        ({"table": "flights"}, "'flights' is not a table name"),
        ({"options": {"expire_snapshots": {"keep": 1}}}, "The option 'keep' of expire_snapshots is not known"),
        ({"options": "{"}, "The argument options = '{' cannot be read"),
        ({"where": "month = 3"}, "neither is requested"),
        ({"priority": 1001}, "Priority 1001 is not valid"),
        ({"priority": "high"}, "The argument priority = 'high' cannot be read"),
        ({"priority": "--5"}, "The argument priority = '--5' cannot be read. Give a whole number."),
    ]:
        outcome = run_operator(submit(**arguments))

        assert outcome.state == "failed"
        assert message in str(outcome.error)


def test_what_the_table_does_not_allow_fails_for_good_before_there_is_a_job(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    problems: list[tuple[dict[str, Any], str]] = [
        ({"where": "nope = 1"}, "has no column 'nope'; it has: month, delay"),
        ({"where": "month = 0); DROP TABLE x; --"}, "cannot be evaluated on demo.flights"),
        ({"options": {"rewrite_data_files": {"strategy": "sort"}}}, "demo.flights has no sort order of its own"),
        ({"options": {"rewrite_data_files": {"strategy": "sort", "sort_order": "nope"}}}, "names 'nope'"),
        ({"options": {"rewrite_data_files": {"strategy": "zorder", "zorder_columns": ["nope"]}}}, "names 'nope'"),
        ({"options": {"rewrite_data_files": {"branch": "nope"}}}, "has no such branch"),
        (
            {"actions": ["expire_snapshots"], "options": {"expire_snapshots": {"snapshot_ids": [7]}}},
            "names 7, and demo.flights has no such snapshot",
        ),
    ]
    ways = cycle(product([operators.SubmitMaintenanceOperator, operators.MaintainTableOperator], [True, False]))
    for (operator, dry_run), (wrong, message) in zip(ways, problems, strict=False):
        arguments = {"table": "demo.flights", "actions": ["rewrite_data_files"], "dry_run": dry_run, **wrong}
        outcome = run_operator(operator(task_id="refused", **arguments))

        assert outcome.state == "failed"
        assert message in str(outcome.error)
        assert (jobs.list(), jobs.locks.list()) == ([], [])


def test_a_job_has_the_priority_of_its_task(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    for priority, stored in [(5, 5), ("{{ 2 + 3 }}", 5), ("", 0)]:
        outcome = run_operator(submit(priority=priority))

        assert outcome.xcom["priority"] == jobs.get(outcome.xcom["job_id"]).priority == stored
        jobs.cancel(outcome.xcom["job_id"])


def test_a_missing_table_is_named_together_with_its_neighbours(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    outcome = run_operator(submit(table="demo.flight"))

    assert outcome.state == "up_for_retry"
    assert "has no table 'demo.flight'" in str(outcome.error)
    assert "demo.flights" in str(outcome.error)
    assert jobs.list() == []


def test_drain_mode_refuses_before_anything_else_is_looked_at(run_operator: Runner, jobs: Jobs) -> None:
    jobs.set_drain(True, by="ops", reason="moving the store")
    for operator, wrong in [
        (operators.SubmitMaintenanceOperator, {"table": "demo.nothing"}),
        (operators.MaintainTableOperator, {"table": "{{ 'nothing' }}"}),
        (operators.SubmitMaintenanceOperator, {"actions": ["vacuum"]}),
        (operators.MaintainTableOperator, {"options": "{"}),
        (operators.SubmitMaintenanceOperator, {"where": "month = 3"}),
    ]:
        arguments: dict[str, Any] = {"table": "demo.flights", "actions": ["expire_snapshots"], **wrong}
        outcome = run_operator(operator(task_id="drained", **arguments))

        assert outcome.state == "up_for_retry"
        assert "Drain mode is on" in str(outcome.error)
        assert "moving the store" in str(outcome.error)


def test_a_store_that_does_not_answer_or_has_no_usable_connection_is_named_without_its_password(
    run_operator: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FAR", "postgres://user:secret@127.0.0.1:1/snowpack")
    outcome = run_operator(operators.SweepOperator(task_id="sweep", store_conn_id="far"))

    assert outcome.state == "up_for_retry"
    assert "127.0.0.1:1/snowpack" in str(outcome.error)
    assert "secret" not in str(outcome.error)

    outcome = run_operator(operators.SweepOperator(task_id="sweep", store_conn_id="nowhere"))

    assert "The Airflow connection 'nowhere' for the Snowpack store cannot be read" in str(outcome.error)

    monkeypatch.setenv("AIRFLOW_CONN_WEB", "http://example.com")
    outcome = run_operator(operators.SweepOperator(task_id="sweep", store_conn_id="web"))

    assert outcome.state == "failed"
    assert "Use one of these types: snowpack_store, postgres, sqlite" in str(outcome.error)


@pytest.mark.parametrize(("dry_run", "outlets"), [(True, 0), ("{{ params.dry_run }}", 1)], ids=["in the file", "at run time"])
def test_a_dry_run_reports_what_it_would_do_and_leaves_no_lock_and_no_event(
    run_operator: Runner, jobs: Jobs, flights: TableName, dry_run: bool | str, outlets: int
) -> None:
    arguments: dict[str, Any] = {"table": "demo.flights", "actions": ["rewrite_data_files"], "dry_run": dry_run}
    task = operators.MaintainTableOperator(task_id="maintain", **arguments)
    outcome = run_operator(task, params={"dry_run": True})

    assert outcome.state == "success", outcome.error
    assert (outcome.xcom["status"], outcome.xcom["dry_run"]) == ("completed", True)
    assert "6" in outcome.xcom["results"][0]["message"]
    assert len(task.outlets) == outlets
    assert outcome.events == []
    assert jobs.locks.get(flights) is None
    assert jobs.queue_depth() == 0


def test_a_task_whose_table_needs_nothing_starts_no_spark(
    run_operator: Runner, jobs: Jobs, flights: TableName, spark_sessions: list[str]
) -> None:
    needless = ["rewrite_position_delete_files", "expire_snapshots", "remove_orphan_files"]
    outcome = run_operator(operators.MaintainTableOperator(task_id="maintain", table="demo.flights", actions=needless))

    assert outcome.state == "success", outcome.error
    assert [result["outcome"] for result in outcome.xcom["results"]] == ["skipped"] * 3
    assert outcome.xcom["before"] == outcome.xcom["after"]
    assert spark_sessions == []
    assert jobs.locks.get(flights) is None


@pytest.mark.parametrize(
    ("actions", "only_if_needed"),
    [(["expire_snapshots"], False), (["expire_snapshots"], "{{ params.only_if_needed }}"), (["rewrite_data_files"], True)],
)
def test_a_task_starts_spark_when_it_is_needed_or_wanted(
    run_operator: Runner, flights: TableName, spark_sessions: list[str], actions: list[str], only_if_needed: bool | str
) -> None:
    task = operators.MaintainTableOperator(
        task_id="maintain", table="demo.flights", actions=actions, only_if_needed=only_if_needed
    )
    outcome = run_operator(task, params={"only_if_needed": False})

    assert "Spark starts" in str(outcome.error)
    assert len(spark_sessions) == 1


def test_the_asset_of_a_task_is_its_table_the_alias_of_one_known_later_or_what_the_caller_declares() -> None:
    from airflow.sdk import Asset

    task = operators.MaintainTableOperator(task_id="maintain", table="demo.flights")

    assert [outlet.uri for outlet in task.outlets if isinstance(outlet, Asset)] == ["iceberg://lake/demo/flights"]

    task = operators.MaintainTableOperator(task_id="maintain", table="{{ params.table }}")

    assert [outlet.name for outlet in task.outlets] == ["snowpack_maintained_tables"]

    from airflow_snowpack.assets import maintained_tables

    task = operators.MaintainTableOperator(task_id="maintain", table="demo.flights", outlets=[maintained_tables()])

    assert task.outlets == [maintained_tables()]


@pytest.mark.parametrize("form", ["asset", "list", "expression"])
def test_a_dag_that_maintains_the_table_that_starts_it_does_not_start_itself_again(form: str) -> None:
    from airflow.sdk import DAG, Asset

    from airflow_snowpack.assets import iceberg_asset

    schedules = {
        "asset": iceberg_asset("demo.flights"),
        "list": [Asset("iceberg://lake/demo/flights")],
        "expression": Asset("x://other") | (iceberg_asset("demo.flights") & Asset("x://another")),
    }
    with DAG("guard", schedule=schedules[form]):
        task = operators.MaintainTableOperator(task_id="maintain", table="demo.flights")
        other = operators.MaintainTableOperator(task_id="other", table="demo.airports")

    assert task.outlets == []
    assert len(other.outlets) == 1


def test_nor_does_one_that_learns_its_table_when_it_runs(flights: TableName) -> None:
    from airflow.sdk import DAG

    from airflow_snowpack.assets import iceberg_asset, maintained_tables, record_maintenance

    with DAG("guard", schedule=iceberg_asset(flights.dotted)) as own:
        pass
    with DAG("guard", schedule=iceberg_asset("demo.airports")) as other:
        pass
    left: list[tuple[Asset, Any]] = []

    class Events:
        def __getitem__(self, alias: AssetAlias) -> Any:
            assert alias == maintained_tables()
            return SimpleNamespace(add=lambda asset, extra: left.append((asset, extra)))

    events = Events()

    record_maintenance(cast("Context", {"dag": own, "outlet_events": events}), maintained_tables(), flights, {"job_id": "1"})
    assert left == []
    record_maintenance(cast("Context", {"dag": other, "outlet_events": events}), maintained_tables(), flights, {"job_id": "1"})
    assert left == [(iceberg_asset(flights.dotted), {"job_id": "1"})]


def test_with_nothing_in_the_queue_the_worker_task_is_skipped_and_a_job_that_does_not_exist_fails_it(
    run_operator: Runner, jobs: Jobs
) -> None:
    assert run_operator(operators.RunMaintenanceJobOperator(task_id="work")).state == "skipped"

    outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id="0123"))

    assert outcome.state == "failed"
    assert "Job '0123' does not exist" in str(outcome.error)


@pytest.mark.parametrize("draining", [False, True])
def test_a_job_that_has_ended_cannot_be_claimed_and_the_task_is_skipped(
    run_operator: Runner, jobs: Jobs, flights: TableName, draining: bool
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    jobs.cancel(job.job_id)
    jobs.set_drain(draining)

    assert run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=job.job_id)).state == "skipped"


def test_in_drain_mode_a_task_with_its_job_is_retried_and_one_that_takes_any_is_skipped(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    jobs.set_drain(True, by="ops", reason="moving the store")

    named = run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=job.job_id))
    assert named.state == "up_for_retry"
    assert str(named.error).endswith("by ops (moving the store): no job is claimed. Run the task again when it is off.")
    assert run_operator(operators.RunMaintenanceJobOperator(task_id="work")).state == "skipped"
    assert jobs.get(job.job_id).status is JobStatus.PENDING


@pytest.mark.parametrize("named", [True, False], ids=["by its id", "from the queue"])
def test_a_retry_of_a_worker_task_takes_the_job_over_that_its_try_before_holds(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"], owner="guard/run1/submit")
    left_behind = jobs.claim("guard/run1/work try 1 on gone:1", catalog_id=flights.catalog_id)
    jobs.flush()  # a moment later than the claim, see history.py
    taken: list[Claim] = []

    def claim_only(_self: object, _context: object, claim: Claim) -> Job:
        taken.append(claim)
        return claim.job

    monkeypatch.setattr(operators.RunMaintenanceJobOperator, "run_attempt", claim_only)
    operator = operators.RunMaintenanceJobOperator(task_id="work", job_id=job.job_id if named else None)
    outcome = run_operator(operator, try_number=2)

    assert outcome.state == "success", outcome.error
    assert taken[0].job.job_id == job.job_id
    assert taken[0].attempt == 2
    assert left_behind is not None
    assert jobs.holds(left_behind) is False


def test_a_retry_leaves_a_job_to_the_other_worker_that_holds_it(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"], owner="guard/run1/submit")
    other = jobs.claim("guard/run1/another_task try 1 on host:1", catalog_id=flights.catalog_id)
    jobs.flush()

    assert run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=job.job_id), try_number=2).state == "skipped"
    assert other is not None
    assert jobs.holds(other) is True


def test_a_job_id_that_renders_to_nothing_takes_no_other_job_instead(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    for job_id in ["{{ params.nothing }}", "{{ '' }}", ""]:
        outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=job_id), params={"nothing": None})

        assert outcome.state == "failed"
        assert "The argument job_id =" in str(outcome.error)
        assert jobs.get(job.job_id).status is JobStatus.PENDING


def test_a_cancelled_job_names_its_user_and_releases_its_table(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    outcome = run_operator(operators.CancelMaintenanceOperator(task_id="stop", job_id=job.job_id))

    assert outcome.xcom["status"] == "cancelled"
    assert outcome.xcom["error"] == "Cancelled by user"
    assert "guard/run1/stop" in str(jobs.get(job.job_id).cancelled_by)
    assert jobs.locks.get(flights) is None
    assert run_operator(operators.CancelMaintenanceOperator(task_id="stop", job_id=job.job_id)).state == "skipped"


def test_a_sweep_of_a_tidy_store_finds_nothing(run_operator: Runner, jobs: Jobs) -> None:
    assert run_operator(operators.SweepOperator(task_id="sweep")).xcom == {
        "requeued": [],
        "failed": [],
        "cancelled": [],
        "unlocked": [],
        "paused": False,
    }


def test_a_prune_deletes_what_is_old_and_is_refused_for_good_when_it_might_be_needed(run_operator: Runner, jobs: Jobs) -> None:
    jobs.submit(TableName("lake", "demo", "airports"), ["expire_snapshots"])

    planned = run_operator(operators.PruneStoreOperator(task_id="prune", older_than="180d", dry_run=True))
    done = run_operator(operators.PruneStoreOperator(task_id="prune", older_than="P180D"))
    assert planned.xcom == done.xcom
    assert (done.xcom["jobs"], set(done.xcom.values())) == (0, {0})
    (entry,) = AuditTrail(jobs.store).of("store")
    assert (entry.actor, entry.via, entry.change) == ("guard/run1/prune", "task", "prune")
    for period in ("6d", "soon"):
        assert run_operator(operators.PruneStoreOperator(task_id="prune", older_than=period)).state == "failed"


def test_the_job_sensor_waits_in_the_triggerer_while_the_job_is_active(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    outcome = run_operator(sensors.MaintenanceJobSensor(task_id="done", job_id=job.job_id))

    assert outcome.state == "deferred"
    assert outcome.message.classpath == "airflow_snowpack.triggers.waits.MaintenanceJobTrigger"


@pytest.mark.parametrize(
    ("status", "error", "state"),
    [(JobStatus.COMPLETED, None, "success"), (JobStatus.FAILED, "expire_snapshots failed: no space left", "failed")],
)
def test_the_job_sensor_returns_a_completed_job_and_fails_for_good_with_the_error_of_a_failed_one(
    run_operator: Runner, jobs: Jobs, flights: TableName, status: JobStatus, error: str | None, state: str
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])
    claim = jobs.claim("worker", catalog_id=flights.catalog_id)
    assert claim is not None
    jobs.finish(claim, status, [], error=error)
    event = {"event": {"job_id": job.job_id, "status": status.value}, "until": "9999-01-01T00:00:00+00:00"}
    sensor = sensors.MaintenanceJobSensor(task_id="done", job_id=job.job_id)
    for outcome in (run_operator(sensor), run_operator(sensor, resume=("execute_complete", event))):
        assert outcome.state == state
        assert outcome.error is None if error is None else error in str(outcome.error)
    assert error is not None or outcome.xcom["status"] == "completed"
