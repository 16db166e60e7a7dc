"""The half of a round that needs no Airflow, and when the other half has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_snowpack.scheduling import (
    CommitsAdded,
    CustomEvents,
    Delay,
    Event,
    EventIntake,
    PartitionsAdded,
    Schedule,
    Scheduler,
    Since,
    explain,
    work_is_due,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted

if TYPE_CHECKING:
    from conftest import Scheduler as ScheduledWorld


@pytest.fixture
def intake(scheduler: ScheduledWorld) -> EventIntake:
    return EventIntake(scheduler.store)


@pytest.mark.one_database
def test_a_busy_table_wakes_nobody_before_its_trigger_is_satisfied(scheduler: ScheduledWorld, intake: EventIntake) -> None:
    scheduler.schedules.create(Schedule("s", dag_id="d", trigger=PartitionsAdded("web.page_views", 5), enabled=True))
    for _ in range(4):
        scheduler.arrive()
        intake.step()
        assert not work_is_due(scheduler.store)
    assert "4 of 5 partitions" in str(explain(scheduler.schedules, "s"))

    scheduler.arrive()
    intake.step()
    assert work_is_due(scheduler.store)
    assert scheduler.started == []


@pytest.mark.one_database
def test_what_the_intake_counted_the_checker_does_not_count_again(scheduler: ScheduledWorld, intake: EventIntake) -> None:
    scheduler.schedules.create(Schedule("s", dag_id="d", trigger=CommitsAdded("web.page_views", 3), enabled=True))
    for _ in range(3):
        scheduler.arrive()
        intake.step()
        scheduler.checker.step()
    scheduler.launcher.step()
    (launch,) = scheduler.started
    assert launch.conf["snowpack"]["event_count"] == 3


def test_nothing_is_due_while_a_moment_is_waited_for(scheduler: ScheduledWorld, intake: EventIntake) -> None:
    trigger = Since(CustomEvents("file"), "10m")
    scheduler.schedules.create(Schedule("s", dag_id="d", trigger=trigger, constraints=[Delay("1h")], enabled=True))
    scheduler.log.publish([Event("event:file", scheduler.clock())])
    intake.step()
    assert not work_is_due(scheduler.store)

    scheduler.clock.move(minutes=10)
    assert work_is_due(scheduler.store)
    scheduler.work()
    assert not work_is_due(scheduler.store)

    scheduler.clock.move(hours=1)
    assert work_is_due(scheduler.store)


def test_a_launch_that_waits_is_due_when_its_pause_is_over(scheduler: ScheduledWorld) -> None:
    scheduler.schedules.create(Schedule("s", dag_id="d", trigger=CommitsAdded("web.page_views"), enabled=True))
    scheduler.airflow.refusal = NotStarted("the DAG is paused")
    rounds = Scheduler(scheduler.store, scheduler.airflow, scheduler.airflow, "test")
    scheduler.arrive()

    report = rounds.step()
    assert (report.launched, len(report.waiting), report.is_idle) == ((), 1, False)
    assert not work_is_due(scheduler.store)
    assert rounds.step().is_idle

    scheduler.airflow.refusal = None
    scheduler.clock.move(minutes=1)
    assert work_is_due(scheduler.store)
    assert len(rounds.step().launched) == 1
    assert not work_is_due(scheduler.store)


@pytest.mark.one_database
def test_a_suspended_schedule_gives_nobody_work(scheduler: ScheduledWorld, intake: EventIntake) -> None:
    scheduler.schedules.create(Schedule("s", dag_id="d", trigger=CommitsAdded("web.page_views"), enabled=True))
    scheduler.arrive()
    scheduler.schedules.suspend("s")
    intake.step()
    assert not work_is_due(scheduler.store)
