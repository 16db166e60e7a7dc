"""The queue over time against a count of each moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count

import sqlalchemy as sa
from clocks import MovedClock
from effort import rounds
from hypothesis import HealthCheck, given, settings, strategies as st

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
        if until_end is not None and start + timedelta(minutes=until_end) <= now:
            clock.now = end = start + timedelta(minutes=until_end)
            assert jobs.finish(claim, JobStatus.COMPLETED, [])
    elif until_end is not None and begin + timedelta(minutes=until_end) <= now:
        clock.now = start = end = begin + timedelta(minutes=until_end)
        jobs.cancel(job.job_id)
    return begin, start, end
