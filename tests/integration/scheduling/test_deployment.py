"""What a deployment does to the schedules of the store (the specification's semantics of app deployment)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    Every,
    InvalidSchedule,
    Schedule,
    ScheduleOrigin,
    SyncReport,
    sync,
)

pytestmark = pytest.mark.one_database


def declared(name: str, period: str = "4h", dag_id: str = "maintain", *, enabled: bool = True) -> Schedule:
    return Schedule(name, dag_id=dag_id, trigger=Every(period), enabled=enabled)


def names(scheduler: Any) -> list[str]:
    return [one.schedule.name for one in scheduler.schedules.list()]


def test_syncing_the_same_again_changes_nothing_and_discards_nothing(scheduler: Any) -> None:
    sync(scheduler.schedules, [declared("kept")], update=True)
    before = scheduler.schedules.get("kept")

    assert sync(scheduler.schedules, [declared("kept")], update=True) == SyncReport()
    assert scheduler.schedules.get("kept") == before


def test_without_update_schedules_are_left_as_they_are_and_none_is_created(scheduler: Any) -> None:
    sync(scheduler.schedules, [declared("old")], update=True)
    report = sync(scheduler.schedules, [declared("old", "1h"), declared("new")], update=False)

    assert report == SyncReport(left=("new", "old"))
    assert scheduler.schedules.get("old").schedule == declared("old")
    assert names(scheduler) == ["old"]


def test_a_schedule_that_was_made_by_hand_is_no_files_to_delete(scheduler: Any) -> None:
    scheduler.schedules.create(declared("by_hand"))

    assert sync(scheduler.schedules, [], update=True) == SyncReport()
    assert names(scheduler) == ["by_hand"]


def test_what_was_changed_by_hand_is_marked_survives_without_update_and_follows_the_file_with_it(scheduler: Any) -> None:
    sync(scheduler.schedules, [declared("tuned")], update=True)
    changed = scheduler.schedules.update(declared("tuned", "1h"), by="ops")
    assert changed.origin is ScheduleOrigin.EDITED

    sync(scheduler.schedules, [declared("tuned")], update=False)
    assert scheduler.schedules.get("tuned").schedule.trigger == Every("1h")

    sync(scheduler.schedules, [declared("tuned")], update=True)
    assert scheduler.schedules.get("tuned").schedule.trigger == Every("4h")
    assert scheduler.schedules.get("tuned").origin is ScheduleOrigin.FILE


def test_a_name_that_is_declared_twice_changes_nothing(scheduler: Any) -> None:
    sync(scheduler.schedules, [declared("there")], update=True)
    with pytest.raises(InvalidSchedule, match="must be unique"):
        sync(scheduler.schedules, [declared("twice"), declared("twice", "1h")], update=True)

    assert names(scheduler) == ["there"]
