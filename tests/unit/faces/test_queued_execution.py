"""Maintenance that a task queues for a worker, with a real store, a real catalog and a worker whose engine has nothing to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_snowpack import hooks, operators, triggers
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, Jobs, JobStatus, JobWorker
from airflow_snowpack.jobs.model import TableChange
from airflow_snowpack.maintenance import submit
from airflow_snowpack.store import StoreUnreachable
from tests.unit.faces.conftest import Outcome, Runner, no_answer

OWNER = "guard/run1/maintain"
LINK = "_link_MaintenanceJobLink"


class WorkerEngine:
    """Does nothing and says how that ended."""

    server: str | None = None
    gb_hours: float | None = None

    def __init__(self, outcome: ActionOutcome = ActionOutcome.SUCCEEDED, *, final: bool = False) -> None:
        self._outcome, self._final = outcome, final

    def run(self, job: Job, action: str) -> ActionResult:
        return ActionResult(action, self._outcome, "Expired 3 snapshots", 0.1, error="no space left", final=self._final)

    def interrupt(self) -> None: ...


def maintain(**arguments: Any) -> operators.MaintainTableOperator:
    given = {"table": "demo.flights", "actions": ["expire_snapshots"], "execution": "queued", **arguments}
    return operators.MaintainTableOperator(task_id="maintain", **given)


def work(jobs: Jobs, flights: TableName, engine: WorkerEngine | None = None) -> None:
    """What a worker does with the next job."""
    engine = engine or WorkerEngine()
    assert JobWorker(jobs, lambda: engine, worker_id="pod-1", catalog_id=flights.catalog_id).run_once() is not None


def only(jobs: Jobs) -> Job:
    (job,) = jobs.list()
    return job


def trigger_of(outcome: Outcome) -> triggers.MaintenanceJobTrigger:
    assert outcome.state == "deferred", outcome.error
    assert outcome.message.classpath == "airflow_snowpack.triggers.waits.MaintenanceJobTrigger"
    return triggers.MaintenanceJobTrigger(**outcome.message.trigger_kwargs)


def resume(
    run: Runner,
    outcome: Outcome,
    event: dict[str, Any] | None = None,
    *,
    began_ago: timedelta = timedelta(0),
    **arguments: Any,
) -> Outcome:
    """Let the task go on after its trigger has fired.

    :param began_ago: how long ago the try began, of which Airflow keeps the start.
    """
    waited = outcome.message
    kwargs = {"event": {"job_id": "another, for the event is a hint"} if event is None else event, **waited.next_kwargs}
    return run(maintain(**arguments), resume=(waited.next_method, kwargs), later=-began_ago)


def test_a_queued_task_leaves_its_slot_and_ends_as_an_inline_one_does(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    deferred = run_operator(maintain())
    trigger, job = trigger_of(deferred), only(jobs)
    assert (trigger.job_id, trigger.poll_seconds, trigger.owner) == (job.job_id, 10.0, OWNER)
    assert (job.status, job.owner, job.submitted_by, job.inline) == (JobStatus.PENDING, OWNER, OWNER, False)
    assert job.table_uuid == str(hooks.IcebergCatalogHook().catalog.load_table("demo.flights").metadata.table_uuid)
    assert links(deferred) == [f"/snowpack/ui/jobs/{job.job_id}"]
    assert deferred.message.trigger_timeout is None

    work(jobs, flights)
    ended = resume(run_operator, deferred)
    assert ended.state == "success", ended.error
    assert links(ended) == links(deferred), "the link is written again: Airflow empties it at the end of a task without it"

    inline = run_operator(maintain(execution="inline"), run_id="run2")
    assert inline.state == "success", inline.error
    assert ended.xcom.keys() == inline.xcom.keys()
    assert ended.xcom["before"] == inline.xcom["before"] == ended.xcom["after"]
    assert (ended.xcom["job_id"], ended.xcom["status"], ended.xcom["attempt"]) == (job.job_id, "completed", 1)
    assert [result["message"] for result in ended.xcom["results"]] == ["Expired 3 snapshots"]
    (event,), (of_inline,) = ended.events, inline.events
    assert event["extra"].keys() == of_inline["extra"].keys()
    assert (event["dest_asset_key"], event["extra"]["job_id"]) == (of_inline["dest_asset_key"], job.job_id)


def links(outcome: Outcome) -> list[Any]:
    return [each.value for each in outcome.sent if type(each).__name__ == "SetXCom" and each.key == LINK]


@pytest.mark.parametrize(
    ("setting", "argument", "state"),
    [
        ("inline", None, "success"),
        ("queued", None, "deferred"),
        ("queued", "inline", "success"),
        ("inline", "{{ params.execution }}", "deferred"),
        ("queued", "{{ params.nothing }}", "deferred"),
    ],
)
def test_the_argument_outranks_the_setting(
    run_operator: Runner,
    flights: TableName,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    argument: str | None,
    state: str,
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__EXECUTION", setting)
    outcome = run_operator(maintain(execution=argument), params={"execution": "queued", "nothing": None})

    assert outcome.state == state, outcome.error


def test_an_argument_that_cannot_take_effect_is_refused(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, message in [
        ({"execution": "later"}, "The argument execution = 'later' cannot be read. Give inline or queued."),
        ({"spark_conn_id": "spark"}, "The argument spark_conn_id = 'spark' has no effect with execution = 'queued'"),
        ({"continue_on_error": False}, "The argument continue_on_error = 'False' has no effect with execution = 'queued'"),
    ]:
        with pytest.raises(Exception, match="The argument") as when_parsed:
            maintain(**arguments)
        assert str(when_parsed.value).startswith(message)

        monkeypatch.setenv("AIRFLOW__SNOWPACK__EXECUTION", "queued")
        execution = "{{ params.execution }}"
        params = {"execution": arguments.get("execution", "queued")}
        when_run = run_operator(maintain(**{**arguments, "execution": execution}), params=params)
        assert when_run.state == "failed"
        assert str(when_run.error).startswith(message)
        assert jobs.list() == []


def test_a_dry_run_completes_at_once(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    outcome = run_operator(maintain(dry_run=True))

    assert (outcome.state, outcome.xcom["dry_run"]) == ("success", True)
    assert jobs.queue_depth() == 0


def test_drain_mode_refuses_a_new_job_and_finds_the_tasks_own(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    jobs.set_drain(True, by="ops", reason="moving the store")
    assert "Drain mode is on" in str(run_operator(maintain()).error)
    jobs.set_drain(False)
    first = trigger_of(run_operator(maintain()))
    jobs.set_drain(True)

    assert trigger_of(run_operator(maintain(), try_number=2)).job_id == first.job_id
    refused = run_operator(maintain(options={"expire_snapshots": {"retain_last": 7}}), try_number=3)
    assert "Drain mode is on" in str(refused.error)
    assert only(jobs).status is JobStatus.PENDING, "it was not cancelled for a job that cannot be submitted"


@pytest.mark.parametrize("running", [False, True], ids=["pending", "running"])
def test_a_retry_waits_for_the_job_of_the_try_before(run_operator: Runner, jobs: Jobs, flights: TableName, running: bool) -> None:
    first = trigger_of(run_operator(maintain()))
    if running:
        jobs.claim("pod-1", catalog_id=flights.catalog_id)

    assert trigger_of(run_operator(maintain(), try_number=2)).job_id == first.job_id
    assert only(jobs).attempt == int(running), "it was not taken from its worker"


@pytest.mark.parametrize("draining", [False, True])
def test_a_try_that_runs_inline_continues_the_queued_job_of_the_try_before_unless_drain_mode_is_on(
    run_operator: Runner, jobs: Jobs, flights: TableName, draining: bool
) -> None:
    first = trigger_of(run_operator(maintain()))
    jobs.set_drain(draining, by="ops", reason="moving the store")
    ended = run_operator(maintain(execution="inline"), try_number=2)

    assert ended.state == ("up_for_retry" if draining else "success"), ended.error
    assert ("Drain mode is on" in str(ended.error)) is draining
    expected = (JobStatus.PENDING, False) if draining else (JobStatus.COMPLETED, True)
    assert (only(jobs).job_id, only(jobs).status, only(jobs).inline) == (first.job_id, *expected)


@pytest.mark.parametrize("running", [False, True], ids=["pending", "running"])
def test_a_try_with_another_priority_queues_its_job_again_unless_a_worker_runs_it(
    run_operator: Runner, jobs: Jobs, flights: TableName, running: bool
) -> None:
    first = trigger_of(run_operator(maintain()))
    if running:
        jobs.claim("pod-1", catalog_id=flights.catalog_id)
    second = trigger_of(run_operator(maintain(priority=7), try_number=2))

    assert (second.job_id == first.job_id) is running
    assert jobs.get(second.job_id).priority == (0 if running else 7)
    assert jobs.get(first.job_id).status is (JobStatus.RUNNING if running else JobStatus.CANCELLED)


@pytest.mark.parametrize(("final", "state"), [(False, "up_for_retry"), (True, "failed")])
def test_a_retry_after_a_failed_job_submits_another_unless_it_would_fail_again(
    run_operator: Runner, jobs: Jobs, flights: TableName, final: bool, state: str
) -> None:
    deferred = run_operator(maintain())
    work(jobs, flights, WorkerEngine(ActionOutcome.FAILED, final=final))
    failed = resume(run_operator, deferred)

    assert (failed.state, str(failed.error)) == (
        state,
        f"The maintenance of {flights} ended as failed (job {only(jobs).job_id}): expire_snapshots failed: no space left",
    )
    assert trigger_of(run_operator(maintain(), try_number=2)).job_id != trigger_of(deferred).job_id


@pytest.mark.parametrize(
    ("deleted", "problem"), [(False, "ended as cancelled .*: Cancelled by user"), (True, "does not exist or was deleted")]
)
def test_a_job_that_a_user_cancels_or_deletes_fails_the_task_for_good(
    run_operator: Runner, jobs: Jobs, flights: TableName, deleted: bool, problem: str
) -> None:
    deferred = run_operator(maintain())
    jobs.cancel(only(jobs).job_id, by="vera")
    if deleted:
        jobs.delete(only(jobs).job_id)
    outcome = resume(run_operator, deferred)

    assert outcome.state == "failed"
    assert re.search(problem, str(outcome.error))


def test_an_event_that_is_wrong_or_early_makes_the_task_wait_again(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    for event in [{"status": "completed"}, {"status": "cancelled"}]:
        deferred = run_operator(maintain())
        again = resume(run_operator, deferred, event)

        assert trigger_of(again).serialize() == trigger_of(deferred).serialize()
        assert again.message.next_kwargs == deferred.message.next_kwargs


def test_a_worker_that_dies_leaves_the_job_to_the_next_one_while_the_task_waits(
    run_operator: Runner, jobs: Jobs, flights: TableName, later: Callable[[timedelta], None]
) -> None:
    deferred = run_operator(maintain())
    jobs.claim("pod that dies", catalog_id=flights.catalog_id)
    later(timedelta(minutes=31))
    assert jobs.sweep().requeued == (only(jobs).job_id,)
    again = resume(run_operator, deferred)
    assert trigger_of(again).job_id == only(jobs).job_id
    later(timedelta(minutes=2))
    work(jobs, flights)

    ended = resume(run_operator, again)
    assert ended.state == "success", ended.error
    assert (ended.xcom["attempt"], ended.xcom["status"]) == (2, "completed")


@pytest.fixture
def later(jobs: Jobs) -> Callable[[timedelta], None]:
    """Move the clock of the store's processes that claim and sweep."""
    offset, clock = [timedelta(0)], jobs.store.clock

    def move(by: timedelta) -> None:
        offset[0] += by

    jobs.store.clock = lambda: clock() + offset[0]
    return move


def test_the_store_that_is_away_when_the_task_resumes_makes_it_wait_again(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred = run_operator(maintain())
    with monkeypatch.context() as away:
        away.setenv("AIRFLOW_CONN_TEST_STORE", "postgres://user:secret@127.0.0.1:1/snowpack")
        again = resume(run_operator, deferred)
    assert trigger_of(again).serialize() == trigger_of(deferred).serialize()
    assert again.message.next_kwargs == deferred.message.next_kwargs

    work(jobs, flights)
    assert resume(run_operator, again).state == "success"


def test_a_connection_that_airflow_cannot_read_when_the_task_resumes_makes_it_wait_again(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred = run_operator(maintain())
    with monkeypatch.context() as away:
        away.delenv("AIRFLOW_CONN_TEST_STORE")
        away.setitem(run_operator.supervisor.answers, "GetConnection", no_answer)
        again = resume(run_operator, deferred)
    assert trigger_of(again).serialize() == trigger_of(deferred).serialize()
    assert only(jobs).status is JobStatus.PENDING


def test_a_store_that_goes_away_after_the_job_was_queued_does_not_keep_the_task_from_waiting(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_jobs: Jobs, _job: Job) -> str:
        raise StoreUnreachable("the database", ConnectionError("refused"))

    # An outage that begins between two statements of the task.
    monkeypatch.setattr("airflow_snowpack.jobs.explain", gone)
    deferred = run_operator(maintain())

    assert deferred.state == "deferred", deferred.error
    assert trigger_of(deferred).job_id == only(jobs).job_id


def test_a_trigger_that_cannot_wait_fails_the_task_and_its_job(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    deferred = run_operator(maintain())
    outcome = resume(run_operator, deferred, {"problem": "The Airflow connection 'nowhere' cannot be read"})

    assert (outcome.state, str(outcome.error)) == ("up_for_retry", "The Airflow connection 'nowhere' cannot be read")
    assert (only(jobs).status, only(jobs).cancelled_by) == (JobStatus.CANCELLED, OWNER)


@pytest.mark.parametrize("reason", ["Trigger timeout", "Trigger failure"])
def test_a_wait_that_airflow_ends_cancels_the_job(run_operator: Runner, jobs: Jobs, flights: TableName, reason: str) -> None:
    deferred = run_operator(maintain(execution_timeout=timedelta(hours=1)))
    assert timedelta(minutes=59) < deferred.message.trigger_timeout <= timedelta(hours=1)

    outcome = run_operator(maintain(), resume=("__fail__", {"error": reason}))
    assert (outcome.state, str(outcome.error)) == ("up_for_retry", reason)
    assert only(jobs).status is JobStatus.CANCELLED
    assert jobs.locks.get(flights) is None


@pytest.mark.parametrize("then", ["the same job", "another job", "a locked table", "a free table", "no time left"])
def test_every_wait_of_a_try_has_what_is_left_of_its_time_limit(
    run_operator: Runner, jobs: Jobs, flights: TableName, then: str
) -> None:
    deferred = run_operator(maintain(execution_timeout=timedelta(hours=1)))
    if then == "another job":
        jobs.cancel(only(jobs).job_id, by=OWNER)
    elif then in ("a locked table", "a free table"):
        claim = jobs.claim("pod-1", catalog_id=flights.catalog_id)
        assert claim is not None
        jobs.cancel(only(jobs).job_id, by=OWNER)
    limit = {"execution_timeout": timedelta(hours=1), "began_ago": timedelta(minutes=120 if then == "no time left" else 50)}
    again = resume(run_operator, deferred, **limit)
    if then == "a free table":
        jobs.release_lock(claim)
        again = resume(run_operator, again, {"free": True}, **limit)

    assert again.message.classpath.endswith(".TableLockTrigger" if then == "a locked table" else ".MaintenanceJobTrigger")
    if then == "no time left":
        assert again.message.trigger_timeout == timedelta(0)
    else:
        assert timedelta(minutes=9) < again.message.trigger_timeout <= timedelta(minutes=10)


def test_a_signal_while_the_task_submits_cancels_the_job_and_ends_the_process(
    run_operator: Runner, jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = submit.submit_own

    def interrupted(*arguments: Any, **named: Any) -> Job:
        job = really(*arguments, **named)
        run_operator.instance.task.on_kill()  # the signal
        return job

    monkeypatch.setattr(submit, "submit_own", interrupted)
    ended = run_operator(maintain())

    assert isinstance(ended.error, SystemExit)
    assert (only(jobs).status, only(jobs).cancelled_by) == (JobStatus.CANCELLED, OWNER)
    assert jobs.locks.get(flights) is None


def test_a_job_that_was_cancelled_with_an_earlier_try_is_submitted_again(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    """The task was cleared: its next try found the job before the trigger of the earlier one cancelled it."""
    waits = run_operator(maintain(), try_number=2)
    jobs.cancel(only(jobs).job_id, by=OWNER)
    again = resume(run_operator, waits)

    assert trigger_of(again).job_id != trigger_of(waits).job_id
    assert jobs.get(trigger_of(again).job_id).status is JobStatus.PENDING


@pytest.mark.parametrize("state", ["failed", None])
def test_the_sweep_cancels_the_job_of_a_task_that_ended_before_its_trigger_ran(
    run_operator: Runner, jobs: Jobs, flights: TableName, state: str | None
) -> None:
    """Marked failed, or cleared, right after it deferred: no triggerer calls ``on_kill``."""
    deferred = run_operator(maintain())
    states_in_airflow(run_operator, {"maintain": state})

    swept = run_operator(operators.SweepOperator(task_id="sweep"), run_id="run9")
    assert swept.xcom["cancelled"] == [only(jobs).job_id], swept.error
    assert run_operator(maintain(), run_id="run2").state == "deferred", "the table is free for the next run"
    jobs.cancel(jobs.list()[0].job_id)
    assert resume(run_operator, deferred).state == "deferred", "a task that was waiting all the same submits its job again"


@pytest.mark.parametrize(
    ("meanwhile", "arguments", "state"),
    [
        (None, {"retries": 2}, "success"),
        ("a commit of another writer", {"retries": 2}, "deferred"),
        (None, {"retries": 2, "actions": ["rewrite_data_files"]}, "deferred"),
        (None, {"retries": 1}, "deferred"),
    ],
    ids=["retry", "table changed", "another request", "clear"],
)
def test_a_retry_after_its_job_completed_returns_the_result_unless_anything_has_changed(
    run_operator: Runner, jobs: Jobs, flights: TableName, meanwhile: str | None, arguments: dict[str, Any], state: str
) -> None:
    """The process was killed after it had resumed. The runner allows two retries: with fewer, the task was cleared."""
    catalog = hooks.IcebergCatalogHook().catalog
    run_operator(maintain(retries=2))
    work(jobs, flights, ChangingEngine(catalog.load_table("demo.flights").metadata.current_snapshot_id))
    if meanwhile is not None:
        table = catalog.load_table("demo.flights")
        table.append(table.scan().to_arrow())
    done = only(jobs)

    again = run_operator(maintain(**arguments), try_number=2)

    assert again.state == state, again.error
    if state == "success":
        assert (again.xcom["job_id"], only(jobs)) == (done.job_id, done)
        assert [event["extra"]["job_id"] for event in again.events] == [done.job_id]


class ChangingEngine(WorkerEngine):
    """Does nothing and reports a change of the table to this snapshot."""

    def __init__(self, snapshot_id: int | None) -> None:
        super().__init__()
        self._snapshot_id = snapshot_id

    def run(self, job: Job, action: str) -> ActionResult:
        return replace(super().run(job, action), change=TableChange(1, self._snapshot_id))


def states_in_airflow(run_operator: Runner, states: dict[str, str | None]) -> None:
    """Let the supervisor report these states of the tasks of each run, all of which are active."""
    from airflow.sdk.execution_time import comms

    def run(_message: object) -> Any:
        from airflow.sdk.api.datamodels._generated import DagRunState

        return comms.DagRunStateResult.model_construct(state=DagRunState("running"))

    def tasks(message: Any) -> Any:
        found = {run_id: {task: states[task] for task in message.task_ids} for run_id in message.run_ids}
        return comms.TaskStatesResult.model_construct(task_states=found)

    run_operator.supervisor.answers |= {"GetDagRunState": run, "GetTaskStates": tasks}


@pytest.mark.parametrize("if_locked", ["fail", "skip", "wait"])
def test_a_try_waits_until_the_worker_of_its_own_cancelled_job_has_left_the_table(
    run_operator: Runner, jobs: Jobs, flights: TableName, if_locked: str
) -> None:
    waits = run_operator(maintain())
    claim = jobs.claim("pod-1", catalog_id=flights.catalog_id)
    assert claim is not None
    jobs.cancel(claim.job.job_id, by=OWNER)
    outcome = resume(run_operator, waits, if_locked=if_locked)

    assert outcome.state == "deferred", outcome.error
    assert outcome.message.classpath.endswith(".TableLockTrigger")
    jobs.release_lock(claim)
    free = {"event": {"table": "demo.flights", "free": True}, **outcome.message.next_kwargs}
    assert trigger_of(run_operator(maintain(), resume=(outcome.message.next_method, free))).job_id != claim.job.job_id


def test_a_locked_table_is_met_as_inline_and_the_wait_for_it_counts_to_the_time_limit(
    run_operator: Runner, jobs: Jobs, flights: TableName
) -> None:
    jobs.locks.acquire(flights, "etl/nightly", ttl=timedelta(hours=1))
    for if_locked, state in [("fail", "up_for_retry"), ("skip", "skipped"), ("wait", "deferred")]:
        assert run_operator(maintain(if_locked=if_locked)).state == state
        assert jobs.list() == []

    # Airflow itself limits the process of an inline task, and not its wait.
    for execution, limit in [("queued", timedelta(minutes=30)), ("inline", None)]:
        waits = run_operator(maintain(execution=execution, if_locked="wait", execution_timeout=timedelta(minutes=30))).message

        assert (waits.trigger_timeout is None) is (limit is None)
        assert limit is None or timedelta(minutes=29) < waits.trigger_timeout <= limit


@pytest.mark.parametrize("own", ["other request", "other table", "inline"])
def test_another_job_of_the_task_is_cancelled_for_the_new_one(
    run_operator: Runner, jobs: Jobs, flights: TableName, own: str
) -> None:
    table = TableName("lake", "demo", "airports") if own == "other table" else flights
    actions = ["rewrite_manifests"] if own == "other request" else ["expire_snapshots"]
    if own == "inline":
        before = jobs.submit_and_claim(table, actions, "a process that is gone", owner=OWNER).job
    else:
        before = jobs.submit(table, actions, owner=OWNER)
    outcome = run_operator(maintain(), try_number=2)

    assert (jobs.get(before.job_id).status, jobs.get(before.job_id).cancelled_by) == (JobStatus.CANCELLED, OWNER)
    assert outcome.state == "deferred", outcome.error
    waits_for_lock = outcome.message.classpath.endswith(".TableLockTrigger")
    assert waits_for_lock is (own == "inline"), "the process that ran it may still write"


def test_the_same_request_is_recognized_whatever_its_options(run_operator: Runner, jobs: Jobs, flights: TableName) -> None:
    arguments = {
        "actions": ["rewrite_data_files", "expire_snapshots"],
        "options": {"expire_snapshots": {"retain_last": 7, "max_age": "3d"}},
        "where": "month = 1",
        "only_if_needed": False,
    }
    first = trigger_of(run_operator(maintain(**arguments)))

    assert trigger_of(run_operator(maintain(**arguments), try_number=2)).job_id == first.job_id
