"""``on_unmet="skip"`` ends a request; what the triggers that were not met had collected stays, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from scripted_engine import eventually

from airflow_snowpack.scheduling import (
    CustomEvents,
    Delay,
    MaxConcurrent,
    PartitionsAdded,
    Since,
    Timeout,
    TimeWindow,
    explain,
)
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.store import open_store
from airflow_snowpack.store.opening import STATEMENT_BY_STATEMENT

WAITING_FOR_A_ROW = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

SHUT = TimeWindow("18:00", "20:00", on_unmet="skip")
A, B, C = CustomEvents("a"), CustomEvents("b", 3), CustomEvents("c")


def skipped(scheduler: Any, name: str) -> int:
    count: int = scheduler.history(name).count("skipped")
    return count


def event_keys(scheduler: Any, number: int = -1) -> list[str]:
    return [event["key"] for event in scheduler.started[number].conf["snowpack"]["events"]]


def test_what_an_unmet_alternative_had_counted_survives_a_skip(scheduler: Any) -> None:
    scheduler.declare("either", A | B, SHUT)
    scheduler.send("b", 2)
    scheduler.send("a")
    scheduler.work()
    assert (skipped(scheduler, "either"), scheduler.started) == (1, [])
    assert explain(scheduler.schedules, "either").trigger.parts[1].have == 2
    scheduler.clock.move(hours=6)
    scheduler.send("b")
    scheduler.work()
    assert event_keys(scheduler) == ["event:b"] * 3, "the run names the events from before the skip, and not those that it ended"


def test_partitions_that_were_counted_before_a_skip_count_once_after_it(scheduler: Any) -> None:
    scheduler.declare("named", A | PartitionsAdded("web.page_views", 3), SHUT)
    scheduler.arrive(partitions=2)
    scheduler.send("a")
    scheduler.work()
    scheduler.clock.move(hours=6)
    scheduler.work()
    assert scheduler.started == []
    scheduler.arrive()
    scheduler.work()
    assert len(scheduler.started) == 1


def test_a_period_that_an_unmet_trigger_waits_out_goes_on_after_a_skip(scheduler: Any) -> None:
    scheduler.declare("quiet", Since(C, "6h") | A, SHUT)
    scheduler.send("c")
    scheduler.send("a")
    scheduler.work()
    assert skipped(scheduler, "quiet") == 1
    scheduler.go_on(hours=6)
    assert event_keys(scheduler) == ["event:c"]


@pytest.mark.parametrize("with_late", [False, True])
def test_what_an_unmet_alternative_had_counted_survives_a_timeout(scheduler: Any, with_late: bool) -> None:
    scheduler.declare("either", A | B, MaxConcurrent(1), timeout=Timeout("1h"))
    scheduler.airflow.running["maintain"] = {"manual"}
    scheduler.send("b", 2)
    scheduler.send("a")
    scheduler.work()
    scheduler.clock.move(hours=1)
    if with_late:
        scheduler.send("c")
        scheduler.send("b")
    scheduler.work()
    assert scheduler.history("either").count("timed_out") == 1
    if not with_late:
        scheduler.send("b")
    scheduler.airflow.running["maintain"].clear()
    scheduler.go_on(minutes=1)
    assert event_keys(scheduler) == ["event:b"] * 3


def test_a_skip_after_the_expiry_keeps_the_events_that_arrived_since(scheduler: Any) -> None:
    scheduler.declare("one", A, TimeWindow("14:00", "15:00", on_unmet="skip"), Delay("30m"), timeout=Timeout("1h"))
    scheduler.send("a")
    scheduler.subscriber.step()
    scheduler.clock.move(hours=1, minutes=45)
    scheduler.send("a")
    scheduler.work()
    assert (skipped(scheduler, "one"), scheduler.history("one").count("timed_out")) == (0, 1)
    scheduler.go_on(minutes=35)
    assert len(event_keys(scheduler)) == 1


def test_events_that_arrive_while_a_request_is_skipped_join_the_progress_that_it_leaves(
    postgres_scheduler: Any, postgres_database: str
) -> None:
    """The subscriber waits for the row of a job that is open, and finds another one open in its place."""
    scheduler = postgres_scheduler
    scheduler.declare("either", A | B, SHUT)
    scheduler.send("b")
    scheduler.send("a")
    scheduler.subscriber.step()
    scheduler.send("b")
    with open_store(postgres_database, clock=scheduler.clock) as other, ThreadPoolExecutor() as pool:
        skip_committed = threading.Event()

        def wait_for_the_subscriber(conn: sa.Connection) -> None:
            if conn.get_execution_options().get(STATEMENT_BY_STATEMENT) or taking:
                return  # a single statement that reads, or what follows the skip
            taking.append(pool.submit(Subscriber(other).step))
            with open_store(postgres_database) as onlooker:
                eventually(lambda: bool(onlooker.read(lambda conn: conn.exec_driver_sql(WAITING_FOR_A_ROW).scalar())))
            skip_committed.set()

        taking: list[Future[int]] = []
        sa.event.listen(scheduler.store.engine, "commit", wait_for_the_subscriber)
        assert len(scheduler.checker.step().discarded) == 1
        assert skip_committed.is_set()
        assert taking[0].result(PATIENCE_S) == 1
    scheduler.clock.move(hours=6)
    scheduler.send("b")
    scheduler.work()
    assert event_keys(scheduler) == ["event:b"] * 3
