"""The queue as people look at it."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus, QueueSample, QueueState
from airflow_snowpack.store.schema import job_queue, table_locks
from airflow_snowpack.store.schema import jobs as jobs_table

if TYPE_CHECKING:
    from conftest import MovedClock

ACTIONS = ["expire_snapshots"]
FRESH = count(1)


def fresh() -> TableName:
    return TableName("lake", "db", f"t{next(FRESH)}")


def test_an_empty_queue_has_no_oldest(jobs: Jobs) -> None:
    assert jobs.queue() == QueueState(depth=0, oldest=None, delayed=0, running=0)


def test_the_queue_tells_what_could_be_claimed_what_waits_and_what_runs(jobs: Jobs, clock: MovedClock) -> None:
    jobs.submit(fresh(), ACTIONS)
    lost = jobs.claim("w1")
    assert lost is not None
    clock.forward(hours=1)
    jobs.sweep()  # back in the queue, behind a back-off
    waiting = jobs.submit(fresh(), ACTIONS)
    clock.forward(seconds=1)
    jobs.submit(fresh(), ACTIONS)
    running = jobs.submit(fresh(), ACTIONS)
    jobs.claim("w2", job_id=running.job_id)

    assert jobs.queue() == QueueState(depth=2, oldest=waiting.submitted_at, delayed=1, running=1)
    assert jobs.queue().depth == jobs.queue_depth()
    clock.forward(minutes=5)
    assert jobs.queue() == QueueState(depth=3, oldest=lost.job.submitted_at, delayed=0, running=1)


def test_only_what_could_be_claimed_before_it_is_ahead_of_a_job(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for _ in range(5):
        made.append(jobs.submit(fresh(), ACTIONS))
        clock.forward(seconds=1)
    jobs.claim("w", job_id=made[1].job_id)
    jobs.cancel(made[2].job_id)
    places = jobs.places(job.job_id for job in made)

    assert made[2].job_id not in places
    assert [jobs.ahead_of(places[made[number].job_id]) for number in (0, 3, 4)] == [0, 1, 2]
    assert (places[made[1].job_id].claimed_by, places[made[1].job_id].attempt) == ("w", 1)
    assert (places[made[0].job_id].claimed_by, places[made[0].job_id].attempt) == (None, 0)
    assert jobs.places([]) == {}


# -- over time ---------------------------------------------------------------------------------------------------------

Lived = tuple[int, int | None, int | None]
"""Minutes before the end of the period: submitted, and then how long until the start and the end."""

lives = st.tuples(st.integers(-30, 200), st.none() | st.integers(0, 60), st.none() | st.integers(0, 90))


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(lived=st.lists(lives, max_size=8), steps=st.integers(1, 30), minutes=st.integers(1, 120))
def test_samples_are_what_counting_each_moment_gives(
    jobs: Jobs, clock: MovedClock, lived: list[Lived], steps: int, minutes: int
) -> None:
    for table in (jobs_table, job_queue, table_locks):
        jobs.store.transact(lambda conn, table=table: conn.execute(sa.delete(table)))
    now, period = clock.now, timedelta(minutes=minutes)
    spans = [live(jobs, clock, now, *minutes_of) for minutes_of in lived]
    clock.now = now

    def counted(moment: datetime) -> QueueSample:
        waiting = sum(begin <= moment < start for begin, start, _ in spans)
        return QueueSample(moment, waiting, sum(start <= moment < end for _, start, end in spans))

    moments = [now - period + period * step / steps for step in range(1, steps + 1)]
    assert jobs.queue_over_time(period, steps) == [counted(moment) for moment in moments]


def live(
    jobs: Jobs, clock: MovedClock, now: datetime, before: int, until_start: int | None, until_end: int | None
) -> tuple[datetime, datetime, datetime]:
    """Let a job live, as far as it got by now; gives when it was submitted, started and ended, or a moment that never comes."""
    never = now + timedelta(days=999)
    clock.now = begin = now - timedelta(minutes=max(before, 0))
    job, start, end = jobs.submit(fresh(), ACTIONS), never, never
    if until_start is not None and begin + timedelta(minutes=until_start) <= now:
        clock.now = start = begin + timedelta(minutes=until_start)
        claim = jobs.claim("w", job_id=job.job_id)
        assert claim is not None
        if until_end is not None and start + timedelta(minutes=until_end) <= now:
            clock.now = end = start + timedelta(minutes=until_end)
            assert jobs.finish(claim, JobStatus.COMPLETED, [])
    elif until_end is not None and begin + timedelta(minutes=until_end) <= now:
        clock.now = start = end = begin + timedelta(minutes=until_end)
        jobs.cancel(job.job_id)
    return begin, start, end


def test_deleted_jobs_and_dry_runs_are_no_part_of_the_samples(jobs: Jobs, clock: MovedClock) -> None:
    job = jobs.submit(fresh(), ACTIONS)
    jobs.record_dry_run(fresh(), ACTIONS, [])
    clock.forward(minutes=10)
    jobs.cancel(job.job_id)
    clock.forward(minutes=10)
    assert {sample.waiting for sample in jobs.queue_over_time(timedelta(hours=1), 60)} == {0, 1}

    jobs.delete(job.job_id)
    assert {(sample.waiting, sample.running) for sample in jobs.queue_over_time(timedelta(hours=1), 60)} == {(0, 0)}


def test_a_job_that_has_waited_for_weeks_is_seen_as_long_as_it_waits(jobs: Jobs, clock: MovedClock) -> None:
    jobs.submit(fresh(), ACTIONS)
    clock.forward(days=30)

    assert {sample.waiting for sample in jobs.queue_over_time(timedelta(hours=1), 4)} == {1}
