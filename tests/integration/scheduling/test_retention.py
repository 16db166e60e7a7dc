"""What is old is forgotten, unless somebody may still need it."""

from __future__ import annotations

from typing import Any

from airflow_snowpack.scheduling import EventLog, PartitionsAdded, Schedule, explain, forget_old


def test_old_events_and_ended_jobs_are_forgotten(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("all", dag_id="maintain", trigger=PartitionsAdded("web.page_views"), enabled=True))
    scheduler.arrive()
    scheduler.work()
    scheduler.end_run()
    scheduler.work()
    scheduler.clock.forward(days=91)

    assert forget_old(scheduler.store) > 0
    assert EventLog(scheduler.store).latest() == []
    assert explain(scheduler.schedules, "all").ended == ()


def test_events_of_a_job_that_still_waits_stay_however_old_they_are(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("slow", dag_id="maintain", trigger=PartitionsAdded("web.page_views", 2), enabled=True))
    scheduler.arrive()
    scheduler.work()
    scheduler.clock.forward(days=400)
    forget_old(scheduler.store)
    scheduler.arrive()
    scheduler.work()

    (launch,) = scheduler.started
    assert launch.conf["snowpack"]["event_count"] == 2


def test_events_that_nobody_has_looked_at_stay(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("late", dag_id="maintain", trigger=PartitionsAdded("web.page_views"), enabled=True))
    scheduler.arrive()
    scheduler.clock.forward(days=91)
    forget_old(scheduler.store)
    scheduler.work()

    assert len(scheduler.started) == 1
