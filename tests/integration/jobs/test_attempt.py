"""One attempt from its claim to its end, with an engine that does what the test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from clocks import MovedClock
from scripted_engine import PATIENCE_S, ScriptedEngine
from sqlalchemy.exc import OperationalError

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Attempt, Claim, Jobs, JobStatus, LeaseRanOut, LifecyclePolicy, StaleAttempt, TableLocks
from airflow_snowpack.store import Store, StoreUnreachable

QUICK = LifecyclePolicy(fence_check=timedelta(milliseconds=20))
ACTIONS = ["rewrite_data_files", "expire_snapshots", "rewrite_manifests"]


@pytest.fixture
def quick(store: Store) -> Iterator[Jobs]:
    """Jobs whose workers look at the fence every 20 ms."""
    with Jobs(store, QUICK) as jobs:
        yield jobs


@pytest.fixture
def claim(quick: Jobs, table: TableName) -> Claim:
    return quick.submit_and_claim(table, ACTIONS, "try-1", owner="dag/task")


class Running:
    """An attempt that runs in a thread of its own, blocked in its first action."""

    def __init__(self, jobs: Jobs, claim: Claim) -> None:
        self.engine = ScriptedEngine({ACTIONS[0]: "block"})
        self.attempt = Attempt(jobs, claim, self.engine)
        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(self.attempt.run)
        assert self.engine.started.wait(PATIENCE_S)

    def end(self) -> Any:
        """What ``run`` gave or raised."""
        self._pool.shutdown()
        return self._future.exception(PATIENCE_S) or self._future.result()


@pytest.mark.one_database
def test_the_actions_run_in_order_and_their_results_are_kept(quick: Jobs, claim: Claim, locks: TableLocks) -> None:
    engine = ScriptedEngine()
    job = Attempt(quick, claim, engine).run()

    assert engine.ran == ACTIONS
    assert [result.action for result in job.results] == ACTIONS
    assert (job.status, job.attempt_id, job.error) == (JobStatus.COMPLETED, claim.attempt_id, None)
    assert locks.list() == []
    assert not engine.interrupted.is_set()


@pytest.mark.one_database
def test_a_failed_action_stops_the_job_and_says_why(quick: Jobs, claim: Claim) -> None:
    engine = ScriptedEngine({"expire_snapshots": "fail"})
    job = Attempt(quick, claim, engine).run()

    assert engine.ran == ACTIONS[:2]
    assert (job.status, job.error) == (JobStatus.FAILED, "expire_snapshots failed: no such file")
    assert [result.success for result in job.results] == [True, False]


@pytest.mark.one_database
def test_a_job_that_goes_on_after_an_error_runs_every_action_and_fails_with_the_first(
    quick: Jobs, claim: Claim, locks: TableLocks
) -> None:
    engine = ScriptedEngine({"rewrite_data_files": "raise", "expire_snapshots": "fail"})
    job = Attempt(quick, claim, engine, continue_on_error=True).run()

    assert engine.ran == ACTIONS
    assert (job.status, job.error) == (JobStatus.FAILED, "rewrite_data_files failed: RuntimeError: the engine broke")
    assert [result.success for result in job.results] == [False, False, True]
    assert job.results[0].error == "RuntimeError: the engine broke"
    assert locks.list() == []


def test_an_attempt_that_was_taken_over_stops_its_work_and_only_the_new_one_ends_the_job(quick: Jobs, claim: Claim) -> None:
    old = Running(quick, claim)
    new = quick.take_over(claim.job.job_id, "try-2", owner="dag/task")

    ended = old.end()
    assert isinstance(ended, StaleAttempt)
    assert ended.status is JobStatus.RUNNING
    assert old.engine.ran == ACTIONS[:1]
    assert old.engine.interrupted.is_set()
    assert quick.locks.get(claim.job.table) is not None, "the table is the new attempt's"
    assert Attempt(quick, new, ScriptedEngine()).run().attempt_id == new.attempt_id
    events = [entry.event for entry in quick.history(claim.job.job_id)]
    assert [event for event in events if event in ("completed", "failed")] == ["completed"]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_cancelled_attempt_stops_its_work_and_frees_the_table_itself(
    quick: Jobs, claim: Claim, locks: TableLocks, deleted: bool
) -> None:
    running = Running(quick, claim)
    quick.cancel(claim.job.job_id)
    if deleted:
        quick.delete(claim.job.job_id)

    ended = running.end()
    assert isinstance(ended, StaleAttempt)
    assert ended.status is JobStatus.CANCELLED
    assert running.engine.interrupted.is_set()
    assert locks.list() == []
    assert quick.find(claim.job.job_id).status is JobStatus.CANCELLED


def test_a_cancel_between_two_actions_lets_no_further_action_start(quick: Jobs, claim: Claim) -> None:
    engine = ScriptedEngine(between=lambda _action: quick.cancel(claim.job.job_id) and None)

    with pytest.raises(StaleAttempt):
        Attempt(quick, claim, engine).run()
    assert engine.ran == ACTIONS[:1]


def test_an_abandoned_attempt_fails_with_its_reason_at_once(quick: Jobs, claim: Claim, locks: TableLocks) -> None:
    running = Running(quick, claim)
    assert running.attempt.abandon("Worker received SIGTERM")

    job = quick.get(claim.job.job_id)
    assert (job.status, job.error) == (JobStatus.FAILED, "Worker received SIGTERM")
    assert locks.list() == []
    assert running.end().status is JobStatus.FAILED
    assert running.engine.ran == ACTIONS[:1]


def test_an_attempt_is_abandoned_once_however_many_threads_ask_and_each_waits_for_the_write(quick: Jobs, claim: Claim) -> None:
    running = Running(quick, claim)
    seen: list[JobStatus] = []

    def abandon(number: int) -> None:
        running.attempt.abandon(f"reason {number}")
        seen.append(quick.get(claim.job.job_id).status)

    threads = [threading.Thread(target=abandon, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    running.end()

    assert seen == [JobStatus.FAILED] * 8
    events = [entry.event for entry in quick.history(claim.job.job_id)]
    assert events.count("failed") == 1
    assert "writeback_stale_attempt" not in events


def test_a_cancelled_attempt_that_is_abandoned_frees_the_table(quick: Jobs, claim: Claim, locks: TableLocks) -> None:
    attempt = Attempt(Jobs(quick.store), claim, ScriptedEngine())  # looks at the fence every two seconds: abandon is first
    quick.cancel(claim.job.job_id)
    attempt.abandon("Worker received SIGTERM")

    assert quick.get(claim.job.job_id).status is JobStatus.CANCELLED
    assert locks.list() == []


@pytest.mark.one_database
def test_abandoning_an_attempt_that_has_ended_changes_nothing(quick: Jobs, claim: Claim) -> None:
    attempt = Attempt(quick, claim, ScriptedEngine())
    job = attempt.run()

    assert not attempt.abandon("too late")
    assert quick.get(job.job_id) == job


@pytest.mark.one_database
def test_an_exception_from_a_signal_handler_fails_the_job_and_goes_on_up(quick: Jobs, claim: Claim, locks: TableLocks) -> None:
    def interrupt(_action: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Attempt(quick, claim, ScriptedEngine(between=interrupt)).run()
    job = quick.get(claim.job.job_id)
    assert (job.status, job.error) == (JobStatus.FAILED, "The attempt was ended by KeyboardInterrupt")
    assert locks.list() == []


class ShakyStore(Store):
    """A store whose database is away while ``away`` is set, or whose answers get lost after the commit."""

    away = False
    lose_answers = 0

    def _retried(self, once: Callable[[], Any]) -> Any:
        if self.away:
            raise StoreUnreachable("test", ConnectionError("the database is away"))
        answer = super()._retried(once)
        if self.lose_answers:
            self.lose_answers -= 1
            raise StoreUnreachable("test", ConnectionError("the answer was lost"))
        return answer


@pytest.fixture
def shaky(store: Store) -> ShakyStore:
    return ShakyStore(store.engine, store.clock)


def test_a_database_that_is_away_between_two_actions_does_not_end_the_attempt(shaky: ShakyStore, claim: Claim) -> None:
    def go_away(action: str) -> None:
        shaky.away = action != ACTIONS[-1]

    job = Attempt(Jobs(shaky, QUICK), claim, ScriptedEngine(between=go_away)).run()
    assert job.status is JobStatus.COMPLETED
    assert [result.action for result in job.results] == ACTIONS


def test_the_terminal_write_outlasts_a_database_that_is_away_for_a_while(shaky: ShakyStore, claim: Claim) -> None:
    def go_away(action: str) -> None:
        if action == ACTIONS[-1]:
            shaky.away = True
            threading.Timer(0.3, lambda: setattr(shaky, "away", False)).start()

    assert Attempt(Jobs(shaky, QUICK), claim, ScriptedEngine(between=go_away)).run().status is JobStatus.COMPLETED


def test_a_terminal_write_whose_answers_were_all_lost_is_recognised_as_our_own(shaky: ShakyStore, claim: Claim) -> None:
    class LosesItsTerminalAnswer(Jobs):
        lost = False

        def finish(self, *arguments: Any, **named: Any) -> bool:
            shaky.lose_answers, self.lost = (0, True) if self.lost else (1, True)
            return super().finish(*arguments, **named)

    job = Attempt(LosesItsTerminalAnswer(shaky, LifecyclePolicy()), claim, ScriptedEngine()).run()
    assert (job.status, job.attempt_id) == (JobStatus.COMPLETED, claim.attempt_id)


def test_an_attempt_without_a_database_leaves_its_job_to_the_sweep(shaky: ShakyStore, claim: Claim) -> None:
    attempt = Attempt(Jobs(shaky, QUICK), claim, ScriptedEngine())
    shaky.away = True
    assert attempt.abandon("Worker received SIGTERM")

    shaky.away = False
    assert Jobs(shaky).get(claim.job.job_id).status is JobStatus.RUNNING


def test_an_error_of_the_store_that_does_not_pass_ends_the_attempt_and_is_raised(
    store: Store, quick: Jobs, claim: Claim, locks: TableLocks
) -> None:
    class BreaksAtTheEnd(Jobs):
        def finish(self, claim: Claim, status: JobStatus, *rest: Any, **named: Any) -> bool:
            if status is JobStatus.COMPLETED:
                raise OperationalError("COMMIT", {}, Exception("disk full"))
            return super().finish(claim, status, *rest, **named)

    with pytest.raises(OperationalError, match="disk full"):
        Attempt(BreaksAtTheEnd(store, QUICK), claim, ScriptedEngine()).run()
    job = quick.get(claim.job.job_id)
    assert job.status is JobStatus.FAILED
    assert "disk full" in (job.error or "")
    assert locks.list() == []


@pytest.mark.parametrize("is_back", [False, True])
def test_an_attempt_whose_lease_ran_out_in_an_outage_was_not_replaced_and_its_successor_continues(
    shaky: ShakyStore, store: Store, claim: Claim, clock: MovedClock, is_back: bool
) -> None:
    def go_away(_action: str) -> None:
        shaky.away = True
        clock.move(seconds=1801)

    engine = ScriptedEngine({ACTIONS[0]: "block"}, between=go_away)

    def come_back() -> None:
        assert engine.interrupted.wait(PATIENCE_S)
        shaky.away = not is_back

    with ThreadPoolExecutor(1) as beside:
        beside.submit(come_back)
        with pytest.raises(LeaseRanOut, match=r"ran out at 2026-11-21T22:30:00\+00:00.*No other attempt has replaced it"):
            Attempt(Jobs(shaky, QUICK), claim, engine).run()
    jobs = Jobs(store)
    assert jobs.get(claim.job.job_id).status is JobStatus.RUNNING
    successor = jobs.take_over(claim.job.job_id, "try-2", owner="dag/task")
    assert Attempt(jobs, successor, ScriptedEngine()).run().status is JobStatus.COMPLETED


def test_a_terminal_write_stops_trying_when_the_lease_ends(shaky: ShakyStore, claim: Claim, clock: MovedClock) -> None:
    def go_away(action: str) -> None:
        if action == ACTIONS[-1]:
            shaky.away = True
            clock.move(seconds=1801)

    with pytest.raises(LeaseRanOut):
        Attempt(Jobs(shaky), claim, ScriptedEngine(between=go_away)).run()
    shaky.away = False
    assert Jobs(shaky).get(claim.job.job_id).status is JobStatus.RUNNING


def test_an_attempt_that_was_replaced_in_a_long_outage_is_told_so(shaky: ShakyStore, store: Store, claim: Claim) -> None:
    def go_away(_action: str) -> None:
        Jobs(store).take_over(claim.job.job_id, "try-2", owner="dag/task")

    with pytest.raises(StaleAttempt, match="was replaced; the job is running now"):
        Attempt(Jobs(shaky, QUICK), claim, ScriptedEngine(between=go_away)).run()
