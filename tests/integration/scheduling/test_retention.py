"""What is old is forgotten, unless somebody may still need it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from forgetting import Killed, forget_old, killed_at
from query_plans import scans, sent_by

from airflow_snowpack.scheduling import (
    CustomEvents,
    EventLog,
    Gate,
    GatePlace,
    MaxRuns,
    PartitionsAdded,
    Schedule,
    ScheduleOrigin,
    explain,
)
from airflow_snowpack.scheduling.launches.missing_dags import MissingDags, delete_without_dag
from airflow_snowpack.scheduling.retention import FACT, KEEP, longest_of_gates, retained
from airflow_snowpack.scheduling.scheduler import TIDY_EVERY, Scheduler
from airflow_snowpack.store.retention import BATCH_SIZE, Pruner
from airflow_snowpack.store.schema import store_facts
from airflow_snowpack.store.tables.schedules import gated_runs, pending_events, pending_jobs, schedule_history


def test_old_events_and_ended_jobs_are_forgotten(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("all", dag_id="maintain", trigger=PartitionsAdded("web.page_views"), enabled=True))
    scheduler.arrive()
    scheduler.work()
    scheduler.end_run()
    scheduler.work()
    scheduler.clock.move(days=91)

    assert forget_old(scheduler.store) > 0
    assert EventLog(scheduler.store).latest() == []
    assert explain(scheduler.schedules, "all").ended == ()


@pytest.mark.one_database
def test_a_schedule_whose_dag_is_gone_stays_until_the_dag_has_been_missing_for_the_whole_retention(scheduler: Any) -> None:
    """However it was made; a DAG file that is away for a while deletes nothing."""
    for name, origin in (("gone", ScheduleOrigin.HAND), ("away", ScheduleOrigin.FILE), ("there", ScheduleOrigin.HAND)):
        scheduler.schedules.create(Schedule(name, dag_id=name, trigger=CustomEvents("go"), enabled=True), origin=origin)
    check = MissingDags(scheduler.store, scheduler.airflow)
    scheduler.airflow.gone = {"gone", "away"}

    def deleted_after(**period: float) -> list[str]:
        scheduler.clock.move(**period)
        not_checked = delete_without_dag(scheduler.schedules, older_than=KEEP)
        check.step()
        planned = delete_without_dag(scheduler.schedules, older_than=KEEP, dry_run=True)
        assert (not_checked, delete_without_dag(scheduler.schedules, older_than=KEEP)) == ([], planned)
        return planned

    assert deleted_after(days=1) == []
    assert "The DAG gone, which it starts, does not exist" in str(explain(scheduler.schedules, "gone"))
    scheduler.airflow.gone = {"gone"}
    assert deleted_after(days=50) == []
    scheduler.airflow.gone = {"gone", "away"}
    assert deleted_after(days=50) == ["gone"]
    assert [one.name for one in scheduler.schedules.list()] == ["away", "there"]
    assert scheduler.history("gone")[-1] == "deleted"


def test_events_of_a_job_that_still_waits_stay_however_old_they_are(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("slow", dag_id="maintain", trigger=PartitionsAdded("web.page_views", 2), enabled=True))
    scheduler.arrive()
    scheduler.work()
    scheduler.clock.move(days=400)
    forget_old(scheduler.store)
    scheduler.arrive()
    scheduler.work()

    (launch,) = scheduler.started
    assert launch.conf["snowpack"]["event_count"] == 2


def test_events_that_nobody_has_looked_at_stay(scheduler: Any) -> None:
    scheduler.schedules.create(Schedule("late", dag_id="maintain", trigger=PartitionsAdded("web.page_views"), enabled=True))
    scheduler.arrive()
    scheduler.clock.move(days=91)
    forget_old(scheduler.store)
    scheduler.work()

    assert len(scheduler.started) == 1


def test_a_job_that_never_gets_enough_keeps_its_own_events_and_no_others(scheduler: Any) -> None:
    scheduler.declare("slow", PartitionsAdded("web.rare", 5))
    scheduler.arrive("web.rare")
    scheduler.work()
    scheduler.clock.move(days=2)
    for _ in range(3):
        scheduler.arrive("web.busy")
    scheduler.work()
    scheduler.clock.move(days=400)

    assert forget_old(scheduler.store) >= 3
    assert [recorded.event.key for recorded in EventLog(scheduler.store).latest()] == ["table:lake.web.rare"]


def test_everything_that_is_old_goes_in_one_call(scheduler: Any) -> None:
    scheduler.declare("each", CustomEvents("go"))
    for _ in range(5):
        scheduler.send("go")
        scheduler.work()
    scheduler.send("unheard", 5)
    scheduler.work()
    scheduler.clock.move(days=91)

    forget_old(scheduler.store, batch_size=2)
    assert EventLog(scheduler.store).latest() == []
    assert scheduler.pending("each") == []
    assert scheduler.history("each") == []


def test_launches_stay_for_as_long_as_they_are_counted(scheduler: Any) -> None:
    scheduler.declare("yearly", CustomEvents("go"), MaxRuns(1, per="365d"), timeout="1000d")
    scheduler.send("go")
    scheduler.work()
    scheduler.end_run()
    scheduler.clock.move(days=100)
    forget_old(scheduler.store)
    scheduler.send("go")
    scheduler.work()
    assert len(scheduler.started) == 1

    scheduler.go_on(days=266)
    assert len(scheduler.started) == 2


def old_history(scheduler: Any, rows: int) -> None:
    """Write history of long ago in bulk."""
    row = {"schedule": "s", "at": scheduler.clock() - timedelta(days=400), "what": "launched", "detail": {}}
    scheduler.store.transact(lambda conn: conn.execute(sa.insert(schedule_history), [row] * rows))


def count_of(scheduler: Any, table: sa.Table) -> int:
    number: int = scheduler.store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
    return number


def test_a_round_deletes_one_small_batch_and_the_next_rounds_go_on(scheduler: Any) -> None:
    old_history(scheduler, 2 * BATCH_SIZE + 100)
    rounds = Scheduler(scheduler.store, scheduler.airflow, scheduler.airflow, "test")
    left = [count_of(scheduler, schedule_history)]
    while left[-1]:
        rounds.step()
        left.append(count_of(scheduler, schedule_history))
        assert left[-2] - left[-1] <= BATCH_SIZE
        assert len(left) < 20
    for _ in range(10):  # the other kinds of rows, of which none is old
        rounds.step()
    old_history(scheduler, 1)
    rounds.step()
    assert count_of(scheduler, schedule_history) == 1, "the next time is an hour later"
    scheduler.clock.now += TIDY_EVERY
    for _ in range(10):
        rounds.step()
    assert count_of(scheduler, schedule_history) == 0


def test_what_is_old_is_found_by_an_index_however_much_is_young(scheduler: Any) -> None:
    scheduler.declare("each", CustomEvents("go"))
    for _ in range(2):
        scheduler.send("go")
        scheduler.work()
        scheduler.end_run()
        scheduler.work()
    scheduler.clock.move(days=91)
    for _ in range(2):
        scheduler.send("go")
        scheduler.work()
    longest_of_gates(scheduler.store)  # a new store looks once through the runs of gates

    sent = sent_by(scheduler.store, lambda: forget_old(scheduler.store, batch_size=1))
    assert len(scheduler.pending("each")) == 2
    # Histories are read in the order of their numbers, up to the first young one or the end of a batch.
    assert scans(scheduler.store, sent, ["events", "pending_jobs", "pending_events", "schedule_runs", "gated_runs"]) == []


def test_the_longest_period_of_a_gate_is_known_without_a_look_at_its_runs(scheduler: Any) -> None:
    assert longest_of_gates(scheduler.store) == timedelta(0)
    sent = sent_by(scheduler.store, lambda: longest_of_gates(scheduler.store))
    assert len(sent) == 1
    assert not any(gated_runs.name in statement for statement, _ in sent)


@pytest.mark.one_database
def test_a_run_that_comes_to_a_gate_first_after_an_upgrade_hides_no_longer_period_of_another_gate(scheduler: Any) -> None:
    def come(run_id: str, period: str) -> None:
        Gate(scheduler.store, scheduler.airflow, GatePlace("maintain", run_id, "gate"), [MaxRuns(5, period)]).ask()

    come("before", "200d")
    scheduler.store.transact(lambda conn: conn.execute(sa.delete(store_facts).where(store_facts.c.name == FACT)))
    come("after", "1d")
    assert longest_of_gates(scheduler.store) == timedelta(days=200)


def test_no_period_is_so_short_that_an_event_which_comes_again_would_count_twice(scheduler: Any) -> None:
    scheduler.declare("each", CustomEvents("go"))
    scheduler.send("go")
    scheduler.work()
    scheduler.clock.move(days=89)
    Pruner(scheduler.store, retained(scheduler.store), older_than=timedelta(days=7)).run()

    assert len(EventLog(scheduler.store).latest()) == 1
    assert scheduler.history("each") != []
    assert all(kind.at_least >= KEEP for kind in retained(scheduler.store))


def test_a_kill_at_any_statement_leaves_no_event_of_a_job_without_its_job(scheduler: Any) -> None:
    scheduler.declare("each", CustomEvents("go"))
    for _ in range(4):
        scheduler.send("go", 2)
        scheduler.work()
    scheduler.clock.move(days=91)
    place = 0
    while count_of(scheduler, pending_jobs):
        place += 1
        with suppress(Killed), killed_at(scheduler.store, place):
            forget_old(scheduler.store, batch_size=2)
        orphans = sa.select(sa.func.count()).where(pending_events.c.pending_id.not_in(sa.select(pending_jobs.c.pending_id)))
        assert scheduler.store.read(lambda conn, orphans=orphans: conn.execute(orphans).scalar_one()) == 0
    assert place > 5
    assert count_of(scheduler, pending_events) == 0
