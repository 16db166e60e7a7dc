"""A batch of events is a few statements, whatever it brings; and nothing slips in between the look at a job and its lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from bounded import PATIENCE_S
from scripted_engine import eventually

from airflow_snowpack.scheduling import CustomEvents, Delay, EventIntake, Every
from airflow_snowpack.scheduling.events.clocks import restart_periods
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.pending_runs.model import PendingState, move
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.schedules import pending_events

if TYPE_CHECKING:
    from conftest import Scheduler

GO = CustomEvents("go")
MANY = 40
TRIGGER, CONSTRAINT, LAUNCH, LAUNCHED, DISCARDED = PendingState
WAITING_FOR_A_ROW = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def events_of(scheduler: Scheduler, name: str) -> list[list[int]]:
    """The events of each of its pending jobs."""

    def heard(pending_id: str) -> list[int]:
        query = sa.select(pending_events.c.event_id).where(pending_events.c.pending_id == pending_id).order_by(sa.text("1"))
        return list(scheduler.store.read(lambda conn: conn.execute(query).scalars().all()))

    return [heard(job.pending_id) for job in scheduler.pending(name)]


def sent_while(store: Store, do: Callable[[], object]) -> int:
    """How many statements the database gets meanwhile."""
    sent: list[str] = []

    def keep(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    sa.event.listen(store.engine, "before_cursor_execute", keep)
    try:
        do()
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", keep)
    return len(sent)


def test_one_batch_begins_what_is_missing_joins_what_waits_and_wakes_what_sleeps(scheduler: Scheduler) -> None:
    scheduler.declare("sleeps", CustomEvents("go", 5))
    scheduler.declare("waits", CustomEvents("early"), Delay("1h"))
    scheduler.declare("hears_twice", CustomEvents("go", 9) | CustomEvents("go", 8))
    scheduler.declare("suspended", GO)
    scheduler.schedules.suspend("suspended")
    scheduler.send("go")
    scheduler.send("early")
    scheduler.work()
    scheduler.declare("late", GO, Delay("1h"))
    (before,) = scheduler.pending("waits")
    scheduler.clock.move(minutes=1)
    scheduler.send("go", 2)
    scheduler.send("early")

    assert scheduler.subscriber.step() == 3
    assert events_of(scheduler, "sleeps") == [[1, 3, 4]]
    assert events_of(scheduler, "waits") == [[2, 5]]
    assert events_of(scheduler, "hears_twice") == [[1, 1, 3, 3, 4, 4]]
    assert events_of(scheduler, "late") == [[3, 4]]
    assert scheduler.pending("suspended") == []
    now = scheduler.clock()
    assert [scheduler.pending(name)[0].next_check_at for name in ("sleeps", "late")] == [now, now]
    assert scheduler.pending("waits")[0] == before, "more events change nothing about when its delay is over"
    assert scheduler.subscriber.step() == 0


def test_many_events_for_many_schedules_are_a_few_statements(scheduler: Scheduler) -> None:
    for number in range(MANY):
        scheduler.declare(f"s{number}", CustomEvents(f"e{number}", 9))
    intake = EventIntake(scheduler.store)
    for _ in range(2):  # with jobs to begin, and with jobs to wake
        for number in range(MANY):
            scheduler.send(f"e{number}", 2)
        assert sent_while(scheduler.store, scheduler.subscriber.step) < 15
        assert sent_while(scheduler.store, intake.step) < 15, "and so is counting them"
        scheduler.clock.move(minutes=1)
    assert {job.reasons[0].text for number in range(MANY) for job in scheduler.pending(f"s{number}")} == {
        f"4 of 9 events named e{number}" for number in range(MANY)
    }


def test_a_job_that_is_sent_off_while_the_subscriber_waits_for_it_gets_nothing_and_begins_its_period_anew(
    postgres_database: str, postgres_scheduler: Scheduler
) -> None:
    scheduler = postgres_scheduler
    declared = scheduler.declare("bursty", GO | Every("4h"))
    scheduler.send("go")
    scheduler.subscriber.step()
    scheduler.clock.move(hours=4)
    scheduler.clocks.step()
    (job,) = scheduler.pending("bursty")
    held, go_on = threading.Event(), threading.Event()

    def send_off(conn: sa.Connection) -> None:
        move(conn, job.pending_id, TRIGGER, CONSTRAINT)
        move(conn, job.pending_id, CONSTRAINT, LAUNCH, next_check_at=None)
        restart_periods(conn, scheduler.store, declared)
        held.set()
        assert go_on.wait(PATIENCE_S)

    with open_store(postgres_database, clock=scheduler.clock) as other:
        launching = threading.Thread(target=lambda: scheduler.store.transact(send_off))
        taken: list[int] = []
        taking = threading.Thread(target=lambda: taken.append(Subscriber(other).step()))
        launching.start()
        assert held.wait(PATIENCE_S)
        taking.start()
        with open_store(postgres_database) as onlooker:
            eventually(lambda: onlooker.read(lambda conn: conn.exec_driver_sql(WAITING_FOR_A_ROW).scalar()), PATIENCE_S)
        go_on.set()
        launching.join(PATIENCE_S)
        taking.join(PATIENCE_S)
    assert taken == [1]
    assert [one.state for one in scheduler.pending("bursty")] == [LAUNCH]
    assert events_of(scheduler, "bursty") == [[1]], "the period that was over is the launched run's"

    scheduler.send("go")
    scheduler.subscriber.step()
    assert events_of(scheduler, "bursty") == [[1], [3]]
