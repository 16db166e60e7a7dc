"""Tasks that wait for their queued jobs, in Airflow's own runner of triggers: what they cost, and what ends a job with its task.

Only the supervisor at the other end of the runner's socket is replaced; it answers which state the tasks are in.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from airflow_since import VERSION, since_airflow
from counted_reads import counted_reads
from trigger_rounds import TriggerRounds, connections

from airflow_snowpack import triggers
from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, Jobs, JobStatus
from airflow_snowpack.store import Store, StoreUnreachable

if TYPE_CHECKING:
    from airflow.jobs.triggerer_job_runner import TriggerRunner

pytestmark = pytest.mark.usefixtures("settled")
LIMIT_S = 300


class TaskStates:
    """Airflow's answers to questions for the states of tasks.

    :ivar state: of every task; an exception is raised.
    :ivar asked: how often it was asked.
    :ivar ready: it answers when this is set.
    """

    def __init__(self) -> None:
        self.state: str | Exception | None = "deferred"
        self.asked = 0
        self.ready = threading.Event()
        self.ready.set()

    def send(self, message: Any) -> Any:
        from airflow.sdk.execution_time.comms import TaskStatesResult

        assert type(message).__name__ == "GetTaskStates", message
        self.asked += 1
        assert self.ready.wait(LIMIT_S)
        if isinstance(self.state, Exception):
            raise self.state
        (task_id,) = message.task_ids
        return TaskStatesResult(
            task_states={run: {f"{task_id}_{index}": self.state for index in range(1_000)} for run in message.run_ids}
        )


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> TaskStates:
    from airflow.sdk.execution_time import task_runner

    states = TaskStates()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", states, raising=False)
    return states


def ref(index: int) -> TaskRef:
    return TaskRef("guard", "run1", "maintain", index)


def queued(jobs: Jobs, count: int) -> list[str]:
    """Submit jobs as the mapped instances of one task do; gives their ids."""
    tables = (TableName("lake", "db", f"t{index}") for index in range(count))
    return [jobs.submit(table, ["expire_snapshots"], owner=ref(index).name).job_id for index, table in enumerate(tables)]


class Triggerer:
    """Airflow's runner of triggers, without the process around it."""

    def __init__(self) -> None:
        from airflow.jobs.triggerer_job_runner import TriggerRunner

        self.runner: TriggerRunner = TriggerRunner()
        self._ids = itertools.count(1)

    async def start(self, waits: list[triggers.MaintenanceJobTrigger]) -> list[int]:
        """Create triggers as Airflow does for deferred tasks, from what is stored of them; gives their ids."""
        started = [next(self._ids) for _ in waits]
        self.runner.to_create.extend(
            workload(number, index, trigger) for index, (number, trigger) in enumerate(zip(started, waits, strict=True))
        )
        await self.runner.create_triggers()
        assert not self.runner.failed_triggers
        return started

    async def remove(self, ids: list[int]) -> None:
        """What Airflow does with triggers that it has no longer assigned to this triggerer."""
        tasks = [self.runner.triggers[each]["task"] for each in ids]
        self.runner.to_cancel.extend(ids)
        await self.runner.cancel_triggers()
        await asyncio.wait(tasks, timeout=LIMIT_S)

    async def stop(self) -> None:
        """What Airflow does when the triggerer stops: it cancels the triggers without a message."""
        tasks = [details["task"] for details in self.runner.triggers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def events(self) -> list[Any]:
        return [entry.event.payload for entry in self.runner.events]


def workload(number: int, index: int, trigger: triggers.MaintenanceJobTrigger) -> Any:
    from airflow.executors import workloads
    from airflow.models.trigger import Trigger

    classpath, kwargs = trigger.serialize()
    task = ref(index)
    task_instance = workloads.TaskInstanceDTO if VERSION >= (3, 2) else workloads.TaskInstance
    instance = task_instance(
        id=uuid4(),
        dag_version_id=uuid4(),
        task_id=task.task_id,
        dag_id=task.dag_id,
        run_id=task.run_id,
        try_number=1,
        map_index=task.map_index,
        pool_slots=1,
        queue="default",
        priority_weight=1,
    )
    return workloads.RunTrigger(id=number, classpath=classpath, encrypted_kwargs=Trigger.encrypt_kwargs(kwargs), ti=instance)


def waiting(job_ids: list[str]) -> list[triggers.MaintenanceJobTrigger]:
    return [triggers.MaintenanceJobTrigger(job_id, owner=ref(index).name) for index, job_id in enumerate(job_ids)]


def in_triggerer(act: Callable[[Triggerer], Awaitable[None]]) -> None:
    """Run what a test does in the event loop of a triggerer, and stop that."""

    async def run() -> None:
        triggerer = Triggerer()
        try:
            await act(triggerer)
        finally:
            await triggerer.stop()

    asyncio.run(asyncio.wait_for(run(), timeout=LIMIT_S))


def end_tasks(
    rounds: TriggerRounds,
    states: TaskStates,
    waits: list[triggers.MaintenanceJobTrigger],
    state: str | Exception | None,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Remove triggers that wait, while Airflow reports this state of their tasks; ``meanwhile`` happens before."""

    async def act(triggerer: Triggerer) -> None:
        started = await triggerer.start(waits)
        await rounds.over(len(waits))
        await asyncio.to_thread(meanwhile)
        states.state = state
        await triggerer.remove(started)

    in_triggerer(act)


@pytest.mark.one_database
@since_airflow(3, 3)
def test_a_thousand_waiting_tasks_share_one_statement_for_each_round_and_one_connection(
    rounds: TriggerRounds, far_store: Store, postgres_database: str
) -> None:
    jobs = Jobs(far_store)
    job_ids = queued(jobs, 1_000)

    async def act(triggerer: Triggerer) -> None:
        await triggerer.start(waiting(job_ids))
        await rounds.over(1_000)
        for _ in range(3):
            reads.statements.clear()
            await rounds.run(1_000)
            assert len(reads.of_store) == 1
        assert await asyncio.to_thread(connections, postgres_database) == 1

        await asyncio.to_thread(lambda: [jobs.cancel(job_id, by="vera") for job_id in job_ids[:10]])
        await asyncio.to_thread(jobs.close)
        await rounds.run(990)
        while len(triggerer.events()) < 10:
            await asyncio.sleep(0.01)
        assert {event["job_id"] for event in triggerer.events()} == {*job_ids[:10]}

    jobs.close()
    with counted_reads(far_store.engine) as reads:
        in_triggerer(act)


@pytest.mark.one_database
@since_airflow(3, 3)
def test_tasks_that_are_marked_failed_end_with_their_jobs_in_few_batches(
    rounds: TriggerRounds, far_store: Store, states: TaskStates, postgres_database: str
) -> None:
    jobs = Jobs(far_store)
    job_ids = queued(jobs, 50)
    claim = jobs.claim("pod-1", job_id=job_ids[0])
    assert claim is not None
    jobs.close()

    async def act(triggerer: Triggerer) -> None:
        started = await triggerer.start(waiting(job_ids))
        await rounds.over(50)
        states.state = "failed"
        await triggerer.remove(started)
        assert await asyncio.to_thread(connections, postgres_database) == 1

    in_triggerer(act)
    assert states.asked < 10, "Airflow cancels one after the other; those that come during a question share the next one"
    assert {jobs.get(job_id).status for job_id in job_ids} == {JobStatus.CANCELLED}
    assert [jobs.get(job_id).cancelled_by for job_id in job_ids[:2]] == ["guard/run1/maintain[0]", "guard/run1/maintain[1]"]
    assert jobs.holds(claim) is False, "its worker is fenced"
    assert [lock.holder for lock in jobs.locks.list()] == [job_ids[0]], "until its worker has left; the others are free at once"


@since_airflow(3, 3)
def test_a_trigger_that_is_cancelled_again_while_airflow_is_slow_ends_with_its_job(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates
) -> None:
    (job_id,) = queued(jobs, 1)
    states.state = "failed"
    states.ready.clear()

    async def act(triggerer: Triggerer) -> None:
        started = await triggerer.start(waiting([job_id]))
        await rounds.over(1)
        removing = asyncio.create_task(triggerer.remove(started))
        while not states.asked:
            await asyncio.sleep(0.01)
        await triggerer.remove(started)
        states.ready.set()
        await removing
        while jobs.get(job_id).status is not JobStatus.CANCELLED:
            await asyncio.sleep(0.01)

    in_triggerer(act)


@pytest.mark.parametrize("state", [None, "scheduled", "success", "failed", "removed", RuntimeError("no answer")])
@since_airflow(3, 3)
def test_a_task_that_no_longer_waits_ends_with_its_job(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates, state: str | Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Cleared, marked as successful or failed, removed with its run, or in a state that Airflow does not report."""
    (job_id,) = queued(jobs, 1)
    end_tasks(rounds, states, waiting([job_id]), state)

    assert (jobs.get(job_id).status, jobs.locks.list()) == (JobStatus.CANCELLED, [])
    assert ("although the state of its task is unknown: no answer" in caplog.text) is isinstance(state, Exception)


@since_airflow(3, 3)
def test_a_job_goes_on_when_its_triggerer_stops_and_another_waits_for_it(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates
) -> None:
    job_ids = queued(jobs, 3)

    async def act(triggerer: Triggerer) -> None:
        await triggerer.start(waiting(job_ids))
        await rounds.over(3)
        await triggerer.stop()
        assert {jobs.get(job_id).status for job_id in job_ids} == {JobStatus.PENDING}

        successor = Triggerer()
        await successor.start(waiting(job_ids))
        await rounds.over(6)
        jobs.cancel(job_ids[1], by="vera")
        await rounds.run(2)
        while not successor.events():
            await asyncio.sleep(0.01)
        assert successor.events() == [{"job_id": job_ids[1], "status": "cancelled"}]
        await successor.stop()

    in_triggerer(act)
    assert states.asked == 0


@since_airflow(3, 3)
def test_a_job_goes_on_when_another_triggerer_takes_its_trigger_over(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates
) -> None:
    """Airflow cancels the trigger in the triggerer that it took it from as if a user had ended the task."""
    job_ids = queued(jobs, 3)
    end_tasks(rounds, states, waiting(job_ids), "deferred")

    assert states.asked > 0
    assert {jobs.get(job_id).status for job_id in job_ids} == {JobStatus.PENDING}


def test_the_sensor_of_a_job_leaves_the_job_alone_when_it_is_killed(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates
) -> None:
    (job_id,) = queued(jobs, 1)
    end_tasks(rounds, states, [triggers.MaintenanceJobTrigger(job_id)], "failed")

    assert jobs.get(job_id).status is JobStatus.PENDING


def test_a_job_that_its_task_has_taken_over_since_goes_on(rounds: TriggerRounds, jobs: Jobs, states: TaskStates) -> None:
    """The task was cleared and runs inline now; Airflow ends the trigger of the try before only after that."""
    (job_id,) = queued(jobs, 1)
    claims: list[Claim] = []

    def take_over() -> None:
        claims.append(jobs.take_over(job_id, "try 2", owner=ref(0).name))

    end_tasks(rounds, states, waiting([job_id]), "running", take_over)

    assert jobs.holds(claims[0])


def test_a_job_that_has_ended_stays_as_it_is_when_its_task_is_killed(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates
) -> None:
    (job_id,) = queued(jobs, 1)
    claim = jobs.claim("pod-1")
    assert claim is not None
    end_tasks(rounds, states, waiting([job_id]), "failed", lambda: jobs.finish(claim, JobStatus.COMPLETED, []))

    assert jobs.get(job_id).status is JobStatus.COMPLETED


@since_airflow(3, 3)
def test_a_job_is_cancelled_when_the_store_answers_again_however_long_that_takes(
    rounds: TriggerRounds, jobs: Jobs, states: TaskStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than Airflow waits for a trigger's end."""
    from airflow.jobs import triggerer_job_runner

    from airflow_snowpack.triggers import waits

    (job_id,) = queued(jobs, 1)
    really, away, tried = waits._cancel_jobs, [True], []

    def cancel(store: Store, keys: Any) -> Any:
        tried.append(keys)
        if away[0]:
            raise StoreUnreachable("localhost", OSError("no route"))
        return really(store, keys)

    monkeypatch.setattr(waits, "_cancel_jobs", cancel)
    monkeypatch.setattr(waits, "next_round", lambda _period_s: asyncio.sleep(0.01))
    monkeypatch.setattr(triggerer_job_runner, "_ON_CANCEL_TIMEOUT", 0.05)

    async def act(triggerer: Triggerer) -> None:
        started = await triggerer.start(waiting([job_id]))
        await rounds.over(1)
        states.state = "failed"
        await triggerer.remove(started)
        assert jobs.get(job_id).status is JobStatus.PENDING
        assert len(tried) > 1
        away[0] = False
        while jobs.get(job_id).status is not JobStatus.CANCELLED:
            await asyncio.sleep(0.01)

    in_triggerer(act)
    assert waits._cancelling == set()
