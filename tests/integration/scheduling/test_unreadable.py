"""A schedule that this version cannot read is shown with the reason, keeps no other from working, and can be put right."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.scheduling import (
    Cron,
    CustomEvents,
    EventIntake,
    MaxConcurrent,
    Schedule,
    ScheduleNotReadable,
    Scheduler,
    explain,
    explain_all,
    run_now,
    sync,
)
from airflow_snowpack.scheduling.constraints.constraint import RECHECK
from airflow_snowpack.store.tables.schedules import pending_jobs, schedules

GO = CustomEvents("go")
NEWER = {"name": "newer", "dag_id": "maintain", "trigger": {"moon_phase": "full"}, "priority": "high"}
BROKEN = [NEWER, {"trigger": None}, {}, [], "what?", None, 7]
NAMES = [f"broken_{number}" for number in range(len(BROKEN))]


def overwrite(scheduler: Any, name: str, definition: object) -> None:
    """As a newer version would, or somebody with a database client."""
    change = sa.update(schedules).where(schedules.c.name == name).values(definition=definition)
    scheduler.store.transact(lambda conn: conn.execute(change))


@pytest.fixture
def broken(scheduler: Any) -> Any:
    """Those that cannot be read, between two that can."""
    for name in ("a_fine", *NAMES, "z_fine"):
        scheduler.declare(name, GO, dag_id=f"dag_{name}")
    for name, definition in zip(NAMES, BROKEN, strict=True):
        overwrite(scheduler, name, definition)
    return scheduler


def test_they_are_listed_with_the_reason_and_nobody_can_run_them(broken: Any) -> None:
    listed = broken.schedules.list()
    assert [one.name for one in listed] == ["a_fine", *NAMES, "z_fine"]
    assert [one.name for one in listed if one.problem is None] == ["a_fine", "z_fine"]
    explained = explain_all(broken.schedules, listed)
    for one in listed[1:-1]:
        assert "Its definition cannot be read by this version" in str(explained[one.name])
        assert "not known" in explained[one.name].trigger.text
        with pytest.raises(ScheduleNotReadable, match=one.name):
            _ = one.schedule
        with pytest.raises(ScheduleNotReadable, match="cannot be read by this version"):
            run_now(broken.schedules, one.name)


@pytest.mark.one_database
def test_what_happens_is_kept_for_it_and_counts_once_it_can_be_read_and_the_others_go_on(broken: Any) -> None:
    rounds = Scheduler(broken.store, broken.airflow, broken.airflow, "test")
    for _ in range(3):
        broken.send("go")
        rounds.step()
        broken.clock.move(seconds=31)
    assert {launch.schedule for launch in broken.started} == {"a_fine", "z_fine"}
    for name in NAMES:
        (job,) = broken.pending(name)
        assert "its definition cannot be read" in job.reasons[0].text
        overwrite(broken, name, Schedule(name, dag_id=f"dag_{name}", trigger=CustomEvents("go", 3), enabled=True).to_json())
    rounds.step()
    counted = [(launch.schedule, launch.conf["snowpack"]["event_count"]) for launch in broken.started if launch.schedule in NAMES]
    assert sorted(counted) == [(name, 3) for name in NAMES]


def test_it_can_be_deleted_and_what_was_pending_goes_with_it(broken: Any) -> None:
    broken.send("go")
    EventIntake(broken.store).step()
    for name in NAMES:
        broken.schedules.delete(name)
    broken.go_on(minutes=1)
    assert [one.name for one in broken.schedules.list()] == ["a_fine", "z_fine"]
    for name in NAMES:
        assert [job.ended_because for job in broken.pending(name)] == ["the schedule was deleted"]


@pytest.mark.one_database
def test_it_can_be_suspended_and_resumed_only_when_it_can_be_read(broken: Any) -> None:
    for name in NAMES:
        assert broken.schedules.suspend(name).enabled is False
    broken.send("go")
    broken.work()
    for name in NAMES:
        assert all(job.ended_at for job in broken.pending(name))
        assert "suspended" in str(explain(broken.schedules, name))
        with pytest.raises(ScheduleNotReadable, match="delete it"):
            broken.schedules.resume(name)
        assert broken.schedules.get(name).enabled is False


@pytest.mark.one_database
def test_it_can_be_changed_into_one_that_can_be_read_also_by_a_file_that_declares_it(broken: Any) -> None:
    *by_hand, last = NAMES
    for name in by_hand:
        broken.schedules.update(Schedule(name, dag_id=f"dag_{name}", trigger=GO))
        assert broken.schedules.get(name).problem is None
    declared = [Schedule(last, dag_id=f"dag_{last}", trigger=GO)]
    assert sync(broken.schedules, declared, update=False).left == (last,)
    assert sync(broken.schedules, declared, update=True).updated == (last,)
    assert broken.schedules.get(last).problem is None
    broken.send("go")
    broken.work()
    assert len(broken.started) == 2 + len(NAMES)


@pytest.mark.one_database
def test_its_clock_waits_for_a_version_that_knows_it(scheduler: Any) -> None:
    daily = scheduler.declare("daily", Cron("0 13 * * *"), missed="one")
    overwrite(scheduler, "daily", NEWER)
    for _ in range(3):
        scheduler.go_on(hours=1)
    assert scheduler.log.latest() == []
    overwrite(scheduler, "daily", daily.to_json())
    scheduler.go_on(minutes=2)
    assert len(scheduler.started) == 1


@pytest.mark.one_database
def test_its_dag_stays_in_the_group_that_it_named(scheduler: Any) -> None:
    """Its runs count for the others, whether anybody can read it or not."""
    scheduler.declare("newer", GO, MaxConcurrent(1, group="g"), dag_id="heavy")
    scheduler.declare("other", CustomEvents("other"), MaxConcurrent(1, group="g"))
    overwrite(scheduler, "newer", NEWER)
    scheduler.schedules.suspend("newer")
    scheduler.airflow.running["heavy"] = {"manual__1"}
    scheduler.send("other")
    scheduler.go_on(seconds=timedelta(seconds=1).total_seconds())
    assert scheduler.started == []


@pytest.mark.one_database
def test_a_job_whose_evaluation_fails_is_set_aside_and_the_others_of_its_batch_start(scheduler: Any) -> None:
    for number in range(9):
        scheduler.declare(f"s{number}", GO, dag_id=f"dag_{number}")
    scheduler.send("go")
    EventIntake(scheduler.store).step()
    strange = {"0": {"events": 1, "first_at": "the day before yesterday"}}
    change = sa.update(pending_jobs).where(pending_jobs.c.schedule == "s4")
    scheduler.store.transact(lambda conn: conn.execute(change.values(progress=strange)))
    scheduler.work()
    assert sorted(launch.schedule for launch in scheduler.started) == [f"s{number}" for number in range(9) if number != 4]
    (job,) = scheduler.pending("s4")
    assert "it cannot be evaluated (KeyError: 'last_at')" in job.reasons[0].text
    assert job.next_check_at == scheduler.clock() + RECHECK


@pytest.mark.one_database
@pytest.mark.parametrize("constraints", [["unlimited"], {"max_concurrent": 1}, None], ids=str)
def test_one_that_waits_in_a_line_and_cannot_be_read_any_more_keeps_no_other_from_its_turn(
    scheduler: Any, constraints: object
) -> None:
    for name in ("first", "second", "third"):
        scheduler.declare(name, CustomEvents(name), MaxConcurrent(1, group="g"), dag_id=f"dag_{name}")
        scheduler.send(name)
        scheduler.go_on(seconds=1)
    changed = {**scheduler.schedules.get("second").schedule.to_json(), "constraints": constraints}
    overwrite(scheduler, "second", changed)
    scheduler.end_run()
    scheduler.work()
    scheduler.go_on(seconds=1)
    assert [launch.schedule for launch in scheduler.started] == ["first", "third"]
