"""What is old is forgotten, unless somebody may still need it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.scheduling import CustomEvents, EventLog, MaxRuns, PartitionsAdded, Schedule, explain, forget_old, retention


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


def test_a_job_that_never_gets_enough_keeps_its_own_events_and_no_others(scheduler: Any) -> None:
    scheduler.declare("slow", PartitionsAdded("web.rare", 5))
    scheduler.arrive("web.rare")
    scheduler.work()
    scheduler.clock.forward(days=2)
    for _ in range(3):
        scheduler.arrive("web.busy")
    scheduler.work()
    scheduler.clock.forward(days=400)

    assert forget_old(scheduler.store) >= 3
    assert [recorded.event.key for recorded in EventLog(scheduler.store).latest()] == ["table:lake.web.rare"]


def test_everything_that_is_old_goes_in_one_call(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    scheduler.declare("each", CustomEvents("go"))
    for _ in range(5):
        scheduler.send("go")
        scheduler.work()
    scheduler.send("unheard", 5)
    scheduler.work()
    scheduler.clock.forward(days=91)

    forget_old(scheduler.store)
    assert EventLog(scheduler.store).latest() == []
    assert scheduler.pending("each") == []
    assert scheduler.history("each") == []


def test_launches_stay_for_as_long_as_they_are_counted(scheduler: Any) -> None:
    scheduler.declare("yearly", CustomEvents("go"), MaxRuns(1, per="365d"), timeout="1000d")
    scheduler.send("go")
    scheduler.work()
    scheduler.end_run()
    scheduler.clock.forward(days=100)
    forget_old(scheduler.store)
    scheduler.send("go")
    scheduler.work()
    assert len(scheduler.started) == 1

    scheduler.go_on(days=266)
    assert len(scheduler.started) == 2
