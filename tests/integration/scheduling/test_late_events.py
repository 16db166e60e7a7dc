"""What arrives after a pending run has expired belongs to the next one, and is never discarded with the expired one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from crew import crew_of
from effort import rounds

from airflow_snowpack.scheduling import CustomEvents, Event, PoolSlots, Timeout
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store.tables.schedules import events, pending_events, pending_jobs

GO = CustomEvents("go")
FULL = PoolSlots("spark", 1)
EXPIRED_RUNS = rounds(10, soak=300)
# Not from the history of the schedule, which is read up to a limit.
EXPIRED = sa.select(sa.func.count()).where(pending_jobs.c.state == PendingState.DISCARDED)


def declare(scheduler: Any, trigger: Any = GO, **fields: Any) -> None:
    """A schedule whose runs wait for a pool without free slots, for an hour at most."""
    scheduler.airflow.pools["spark"] = 0
    scheduler.declare("feed", trigger, FULL, **{"timeout": Timeout("1h")} | fields)


def counts(scheduler: Any) -> list[int]:
    return [launch.conf["snowpack"]["event_count"] for launch in scheduler.started]


def test_an_event_that_arrives_after_the_expiry_starts_a_run_of_its_own(scheduler: Any) -> None:
    declare(scheduler)
    scheduler.send("go")
    scheduler.work()
    scheduler.clock.move(hours=2)  # no scheduler is running
    scheduler.send("go", 2)
    scheduler.work()

    expired, pending = scheduler.pending("feed")
    assert (expired.state, pending.state) == (PendingState.DISCARDED, PendingState.TRIGGER)
    scheduler.airflow.pools["spark"] = 1
    scheduler.work()
    assert counts(scheduler) == [2]


def test_an_event_that_arrives_at_the_very_end_of_the_timeout_is_late_and_one_before_is_not(scheduler: Any) -> None:
    declare(scheduler)
    scheduler.send("go")
    scheduler.work()
    scheduler.clock.move(minutes=59, seconds=59)
    scheduler.send("go")
    scheduler.clock.move(seconds=1)
    scheduler.send("go")
    scheduler.work()

    scheduler.airflow.pools["spark"] = 1
    scheduler.work()
    assert counts(scheduler) == [1]


def test_a_run_that_expired_before_anybody_read_it_gives_back_what_came_later(scheduler: Any) -> None:
    declare(scheduler)
    for _ in range(3):
        scheduler.send("go")
        scheduler.clock.move(minutes=61)
    for _ in range(4):  # each expired run leaves the next one
        scheduler.work()

    assert [job.state for job in scheduler.pending("feed")] == [PendingState.DISCARDED] * 3
    assert scheduler.history("feed").count("timed_out") == 3
    assert counts(scheduler) == []


def test_a_run_that_the_timeout_launches_takes_late_events_with_it(scheduler: Any) -> None:
    declare(scheduler, timeout=Timeout("1h", then="launch"))
    scheduler.send("go")
    scheduler.work()
    scheduler.clock.move(hours=2)
    scheduler.send("go")
    scheduler.work()
    assert counts(scheduler) == [2]


@pytest.mark.parametrize("recorded_in_time", [0, 2])
def test_an_event_that_is_recorded_long_after_it_happened_waits_for_one_timeout(scheduler: Any, recorded_in_time: int) -> None:
    """After an outage of the poller or of a sender, an event may be older than the timeout when it is recorded."""
    declare(scheduler, CustomEvents("go", recorded_in_time + 1))
    scheduler.clock.move(days=1)
    scheduler.send("go", recorded_in_time)
    scheduler.clock.move(days=2)
    scheduler.log.publish([Event(custom_key("go"), scheduler.clock() - timedelta(days=2))])
    for _ in range(3):
        scheduler.work()
    assert [job.state for job in scheduler.pending("feed")] == [PendingState.CONSTRAINT]

    scheduler.go_on(minutes=59)
    assert [job.state for job in scheduler.pending("feed")] == [PendingState.CONSTRAINT]
    for _ in range(3):
        scheduler.go_on(minutes=1)
    assert [job.state for job in scheduler.pending("feed")] == [PendingState.DISCARDED]


def test_schedulers_at_once_lose_no_event_between_an_expired_run_and_the_next(store_url: str, scheduler: Any) -> None:
    """The subscriber may have read the expired job as open, and gets its row only when a checker has replaced it."""
    declare(scheduler)
    sent = 0
    with crew_of(store_url, scheduler.clock) as crew:
        for _ in range(2):
            store = crew.store()
            crew.hire(Subscriber(store).step)
            crew.hire(Checker(store, scheduler.airflow).step)
        while scheduler.store.read(lambda conn: conn.execute(EXPIRED).scalar_one()) < EXPIRED_RUNS:
            scheduler.send("go")
            sent += 1
            scheduler.clock.move(minutes=7)
    scheduler.work()

    query = sa.select(pending_events.c.event_id, events.c.recorded_at, pending_jobs.c.state, pending_jobs.c.expires_at)
    query = query.join(events, events.c.id == pending_events.c.event_id)
    query = query.join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id)
    taken = scheduler.store.read(lambda conn: conn.execute(query).all())
    assert sorted(row.event_id for row in taken) == list(range(1, sent + 1))
    discarded = [row for row in taken if row.state == PendingState.DISCARDED]
    assert discarded
    assert all(row.recorded_at < row.expires_at for row in discarded)
