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


def overwrite(scheduler: Any, name: str, definition: object) -> None:
    """As a newer version would, or somebody with a database client."""
    change = sa.update(schedules).where(schedules.c.name == name).values(definition=definition)
    scheduler.store.transact(lambda conn: conn.execute(change))


@pytest.fixture(params=BROKEN, ids=str)
def broken(scheduler: Any, request: pytest.FixtureRequest) -> Any:
    """One that cannot be read, between two that can."""
    for name in ("a_fine", "newer", "z_fine"):
        scheduler.declare(name, GO, dag_id=f"dag_{name}")
    overwrite(scheduler, "newer", request.param)
    return scheduler


def test_it_is_listed_with_the_reason(broken: Any) -> None:
    listed = broken.schedules.list()
    assert [one.name for one in listed] == ["a_fine", "newer", "z_fine"]
    assert [one.problem is None for one in listed] == [True, False, True]
    explained = explain_all(broken.schedules, listed)
    assert "Its definition cannot be read by this version" in str(explained["newer"])
    assert "not known" in explained["newer"].trigger.text
    with pytest.raises(ScheduleNotReadable, match="newer"):
        _ = listed[1].schedule


@pytest.mark.one_database
def test_the_others_go_on(broken: Any) -> None:
    broken.send("go")
    broken.work()
    assert sorted(launch.schedule for launch in broken.started) == ["a_fine", "z_fine"]


@pytest.mark.one_database
def test_what_happens_is_kept_for_it_and_counts_once_it_can_be_read(broken: Any) -> None:
    definition = Schedule("newer", dag_id="dag_newer", trigger=CustomEvents("go", 3), enabled=True).to_json()
    rounds = Scheduler(broken.store, broken.airflow, broken.airflow, "test")
    for _ in range(3):
        broken.send("go")
        rounds.step()
        broken.clock.move(seconds=31)
    (job,) = broken.pending("newer")
    assert "its definition cannot be read" in job.reasons[0].text
    overwrite(broken, "newer", definition)
    rounds.step()
    (launch,) = [launch for launch in broken.started if launch.schedule == "newer"]
    assert launch.conf["snowpack"]["event_count"] == 3


def test_it_can_be_deleted_and_what_was_pending_goes_with_it(broken: Any) -> None:
    broken.send("go")
    EventIntake(broken.store).step()
    broken.schedules.delete("newer")
    broken.go_on(minutes=1)
    assert [one.name for one in broken.schedules.list()] == ["a_fine", "z_fine"]
    assert [job.ended_because for job in broken.pending("newer")] == ["the schedule was deleted"]


@pytest.mark.one_database
def test_it_can_be_suspended_and_resumed_only_when_it_can_be_read(broken: Any) -> None:
    assert broken.schedules.suspend("newer").enabled is False
    broken.send("go")
    broken.work()
    assert all(job.ended_at for job in broken.pending("newer"))
    assert "suspended" in str(explain(broken.schedules, "newer"))
    with pytest.raises(ScheduleNotReadable, match="delete it"):
        broken.schedules.resume("newer")
    assert broken.schedules.get("newer").enabled is False


@pytest.mark.one_database
def test_it_can_be_changed_into_one_that_can_be_read(broken: Any) -> None:
    broken.schedules.update(Schedule("newer", dag_id="dag_newer", trigger=GO))
    assert broken.schedules.get("newer").problem is None
    broken.send("go")
    broken.work()
    assert len(broken.started) == 3


@pytest.mark.one_database
def test_a_file_that_declares_it_mends_it(broken: Any) -> None:
    declared = [Schedule("newer", dag_id="dag_newer", trigger=GO)]
    assert sync(broken.schedules, declared, update=False).left == ("newer",)
    report = sync(broken.schedules, declared, update=True)
    assert report.updated == ("newer",)
    assert broken.schedules.get("newer").problem is None


@pytest.mark.one_database
def test_nobody_can_run_it(broken: Any) -> None:
    with pytest.raises(ScheduleNotReadable, match="cannot be read by this version"):
        run_now(broken.schedules, "newer")


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
