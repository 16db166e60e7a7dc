"""The queue over time against a count of each moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from itertools import count

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from effort import rounds
from hypothesis import HealthCheck, given, settings, strategies as st
from query_plans import sent_by

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus, QueueSample
from airflow_snowpack.store.tables.jobs import job_queue, jobs as jobs_table, table_locks

ACTIONS = ["expire_snapshots"]
FRESH = count(1)


def fresh() -> TableName:
    return TableName("lake", "db", f"t{next(FRESH)}")


Lived = tuple[int, int | None, int | None]
"""Minutes before the end of the period: submitted, and then how long until the start and the end."""

lives = st.tuples(st.integers(-30, 200), st.none() | st.integers(0, 60), st.none() | st.integers(0, 90))


@settings(max_examples=rounds(20, soak=2000), deadline=None, database=None, suppress_health_check=list(HealthCheck))
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
        waiting = sum(begin <= moment < start for begin, start, *_ in spans)
        running = sum(start <= moment < end for _, start, end, _ in spans)
        before = moment - period / steps
        waits = sorted(start - begin for begin, start, _, ran in spans if ran and before < start <= moment)
        return QueueSample(
            moment, waiting, running, sum(ran and before < end <= moment for *_, end, ran in spans), 0, tuple(waits)
        )

    moments = [now - period + period * step / steps for step in range(1, steps + 1)]
    assert jobs.queue_over_time(period, steps) == [counted(moment) for moment in moments]


def live(
    jobs: Jobs, clock: MovedClock, now: datetime, before: int, until_start: int | None, until_end: int | None
) -> tuple[datetime, datetime, datetime, bool]:
    """Let a job live, as far as it got by now; gives when it was submitted, started and ended, or a moment that never comes, and
    whether a worker ran it."""
    never = now + timedelta(days=999)
    clock.now = begin = now - timedelta(minutes=max(before, 0))
    job, start, end = jobs.submit(fresh(), ACTIONS), never, never
    if until_start is not None and begin + timedelta(minutes=until_start) <= now:
        clock.now = start = begin + timedelta(minutes=until_start)
        claim = jobs.claim("w", job_id=job.job_id)
        if until_end is not None and start + timedelta(minutes=until_end) <= now:
            clock.now = end = start + timedelta(minutes=until_end)
            assert jobs.finish(claim, JobStatus.COMPLETED, [])
    elif until_end is not None and begin + timedelta(minutes=until_end) <= now:
        clock.now = start = end = begin + timedelta(minutes=until_end)
        jobs.cancel(job.job_id)
    return begin, start, end, jobs.get(job.job_id).attempt > 0


def test_the_samples_are_one_statement_and_begin_where_the_newest_jobs_begin(
    jobs: Jobs, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = clock.now
    for hour in range(10):
        clock.now = begin + timedelta(hours=hour)
        live(jobs, clock, clock.now + timedelta(minutes=9), 9, 1, 2)
    clock.now = begin + timedelta(hours=10)
    read = partial(jobs.queue_over_time, timedelta(hours=10), 10)
    jobs.flush()
    assert len(sent_by(jobs.store, read)) == 1
    assert [sample.completed for sample in read()] == [1] * 10
    assert {(sample.median_wait, sample.longest_wait) for sample in read()} == {(timedelta(minutes=1),) * 2}
    monkeypatch.setattr("airflow_snowpack.jobs.queue_samples.MOST_JOBS", 3)
    assert [sample.completed for sample in read()] == [1] * 3


def test_a_failed_job_is_counted_apart_and_the_wait_for_a_later_attempt_not_at_all(jobs: Jobs, clock: MovedClock) -> None:
    job = jobs.submit(fresh(), ACTIONS)
    clock.move(minutes=1)
    assert jobs.claim("w", job_id=job.job_id) is not None
    clock.move(hours=1)
    jobs.sweep()
    clock.move(hours=1)
    claim = jobs.claim("x", job_id=job.job_id)
    assert claim is not None
    jobs.finish(claim, JobStatus.FAILED, [], "no")
    (sample,) = jobs.queue_over_time(timedelta(hours=3), 1)
    assert (sample.completed, sample.failed, sample.waits) == (0, 1, ())
