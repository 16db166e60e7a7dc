"""What the ends of jobs add to the counters, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.store.counters import Counts, add_counts, read_counters, sum_increments
from airflow_snowpack.store.tables.counters import counter_increments
from airflow_snowpack.store.tables.jobs import jobs as jobs_table

DATA, SNAPSHOTS = "rewrite_data_files", "expire_snapshots"
WORK = {"rewritten_data_files_count": 30, "added_data_files_count": 2, "rewritten_bytes_count": 4_096}


def counted(jobs: Jobs, name: str) -> dict[tuple[str, ...], float]:
    """A counter by the values of its labels."""
    return {tuple(value for _, value in labels): value for labels, value in read_counters(jobs.store).get(name, {}).items()}


def run(jobs: Jobs, table: TableName, *results: ActionResult, error: str | None = None) -> Any:
    claim = jobs.submit_and_claim(table, [DATA, SNAPSHOTS], "w1")
    assert jobs.finish(claim, JobStatus.FAILED if error else JobStatus.COMPLETED, results, error)
    return claim


def test_an_ended_job_is_counted_with_its_actions_and_what_they_changed(jobs: Jobs, table: TableName) -> None:
    done = ActionResult(DATA, ActionOutcome.SUCCEEDED, "done", 1.0, metrics=WORK)
    run(jobs, table, done, ActionResult(SNAPSHOTS, ActionOutcome.SKIPPED, "nothing to do", 0.0))
    run(jobs, table, done, ActionResult(SNAPSHOTS, ActionOutcome.FAILED, "no", 0.0, error="no"), error="no")

    assert counted(jobs, "jobs_ended") == {("completed",): 1, ("failed",): 1}
    assert counted(jobs, "actions") == {(DATA, "succeeded"): 2, (SNAPSHOTS, "skipped"): 1, (SNAPSHOTS, "failed"): 1}
    assert counted(jobs, "bytes_rewritten") == {(DATA,): 8_192}
    assert counted(jobs, "files_removed") == {(DATA,): 60}


def test_the_counters_keep_what_was_counted_when_the_jobs_are_deleted(jobs: Jobs, table: TableName) -> None:
    run(jobs, table)
    jobs.store.execute(sa.delete(jobs_table))
    assert counted(jobs, "jobs_ended") == {("completed",): 1}


def test_an_attempt_whose_fence_has_moved_counts_nothing(jobs: Jobs, table: TableName) -> None:
    claim = run(jobs, table)
    assert not jobs.finish(claim, JobStatus.FAILED, [], "late")
    assert counted(jobs, "jobs_ended") == {("completed",): 1}


def test_wait_and_run_are_counted_in_the_bucket_of_their_duration(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    job = jobs.submit(table, [DATA])
    clock.move(seconds=10)
    claim = jobs.claim("w1", job_id=job.job_id)
    assert claim is not None
    clock.move(hours=5)
    jobs.finish(claim, JobStatus.COMPLETED, [])

    assert counted(jobs, "job_wait_seconds") == {("15",): 1}
    assert counted(jobs, "job_run_seconds") == {("+Inf",): 1}
    assert counted(jobs, "job_run_seconds_sum") == {(): 18_000}


def test_cancelled_and_withdrawn_jobs_are_counted_as_cancelled(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    jobs.cancel(jobs.submit(table, [DATA]).job_id)
    waiting = jobs.submit(other_table, [DATA]).job_id
    jobs.store.transact(lambda conn: withdraw(conn, [waiting], "The time of the pass is over.", clock()))
    assert counted(jobs, "jobs_ended") == {("cancelled",): 2}


def test_a_job_whose_workers_were_all_lost_is_counted_as_failed_once(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.submit(table, [DATA])
    for _ in range(jobs.policy.max_attempts):
        assert jobs.claim("w1") is not None
        clock.move(hours=1)
        jobs.sweep()
        clock.move(days=1)
    jobs.sweep()
    assert counted(jobs, "jobs_ended") == {("failed",): 1}


def test_the_sweep_sums_what_jobs_recorded_and_the_counters_stay_equal(jobs: Jobs, table: TableName) -> None:
    for _ in range(5):
        run(jobs, table)
    before = read_counters(jobs.store)
    rows = sa.select(sa.func.count()).select_from(counter_increments)
    assert jobs.store.scalar(rows) == 5
    jobs.sweep()
    assert jobs.store.scalar(rows) == 0
    assert read_counters(jobs.store) == before
    assert counted(jobs, "jobs_ended") == {("completed",): 5}


def test_a_counter_of_seconds_never_falls_when_it_is_summed_as_prometheus_would_take_that_for_a_restart(jobs: Jobs) -> None:
    for seconds in (0.1, 0.2, 0.3):
        before = read_counters(jobs.store)
        counts = Counts()
        counts.observe("waits", seconds, [1.0])
        jobs.store.transact(partial(add_counts, counts=counts))
        if not before:
            sum_increments(jobs.store)
    before = read_counters(jobs.store)
    sum_increments(jobs.store)
    assert read_counters(jobs.store) == before
    assert before["waits_sum"][()] == pytest.approx(0.6, abs=0.002)


def test_in_drain_mode_the_sweep_sums_too(jobs: Jobs, table: TableName) -> None:
    run(jobs, table)
    jobs.set_drain(on=True, by="ada")
    jobs.sweep()
    assert jobs.store.scalar(sa.select(sa.func.count()).select_from(counter_increments)) == 0


def test_processes_that_sum_at_once_count_everything_once(jobs: Jobs, table: TableName) -> None:
    for _ in range(20):
        run(jobs, table)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sum_increments(jobs.store), range(8)))
    assert counted(jobs, "jobs_ended") == {("completed",): 20}


def test_a_longer_wait_of_a_later_attempt_is_not_observed_again(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.submit(table, [DATA])
    assert jobs.claim("w1") is not None
    clock.move(hours=1)
    jobs.sweep()
    clock.now += timedelta(days=1)
    claim = jobs.claim("w2")
    assert claim is not None
    jobs.finish(claim, JobStatus.COMPLETED, [])
    assert counted(jobs, "job_wait_seconds") == {}
