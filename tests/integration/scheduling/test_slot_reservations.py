"""What was let through counts against pools and loads until Airflow shows it, and the urgent and the old come first."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.scheduling import ClusterLoad, CustomEvents, PoolSlots, explain, run_now
from airflow_snowpack.scheduling.airflow_port import FreeSlots, NotStarted
from airflow_snowpack.store.tables.schedules import slot_holds

GO = CustomEvents("go")
LOAD = "load"


def declare_many(scheduler: Any, number: int, *constraints: Any) -> None:
    for each in range(number):
        scheduler.declare(f"s{each}", GO, *constraints, dag_id=f"dag_{each}")


def show(scheduler: Any, pool: str, slots: int) -> None:
    """Airflow has taken every run that was started into the pool, with one slot each."""
    runs = frozenset((launch.dag_id, launch.run_id) for launch in scheduler.started)
    scheduler.airflow.pools[pool] = FreeSlots(slots - len(runs), runs)


def holds(scheduler: Any) -> int:
    """How many are on record."""
    number: int = scheduler.store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(slot_holds)).scalar_one())
    return number


class TestPools:
    def test_of_ten_that_wait_two_start_where_two_slots_are_free(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 2
        declare_many(scheduler, 10, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 2
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 2, "Airflow still shows both slots free, since the two are on their way"

    def test_slots_that_airflow_shows_as_taken_are_not_counted_twice(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 2
        declare_many(scheduler, 10, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        show(scheduler, "spark", slots=3)
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 3
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 3

    @pytest.mark.one_database
    def test_a_run_takes_as_many_as_it_asked_for(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 5
        declare_many(scheduler, 5, PoolSlots("spark", 2))
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 2

    def test_a_run_that_ends_without_having_been_seen_gives_back_what_it_held(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        declare_many(scheduler, 2, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        scheduler.end_run()
        assert holds(scheduler) == 0
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 2

    def test_a_run_that_never_comes_into_the_pool_holds_its_slot_for_a_quarter_of_an_hour(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        declare_many(scheduler, 2, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(minutes=14)
        assert len(scheduler.started) == 1
        scheduler.go_on(minutes=1, seconds=1)
        assert len(scheduler.started) == 2

    @pytest.mark.one_database
    def test_a_launch_that_airflow_does_not_take_keeps_its_slot(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        scheduler.airflow.refusal = NotStarted("the DAG is paused")
        declare_many(scheduler, 2, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(hours=1)
        states = sorted(job.state for name in ("s0", "s1") for job in scheduler.pending(name))
        assert states == ["pending_constraint", "pending_launch"]

    def test_the_slot_of_a_schedule_that_is_deleted_before_its_launch_is_free_again(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        scheduler.airflow.refusal = NotStarted("the DAG is paused")
        declare_many(scheduler, 2, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        (held,) = [name for name in ("s0", "s1") if scheduler.pending(name)[0].state == "pending_launch"]
        scheduler.schedules.delete(held)
        assert holds(scheduler) == 0
        scheduler.airflow.refusal = None
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 1

    @pytest.mark.one_database
    def test_a_run_that_somebody_asked_for_takes_slots_too(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        declare_many(scheduler, 2, PoolSlots("spark"))
        run_now(scheduler.schedules, "s0")
        scheduler.send("go")
        scheduler.work()
        assert [launch.schedule for launch in scheduler.started] == ["s0"]

    @pytest.mark.one_database
    def test_another_pool_is_not_touched(self, scheduler: Any) -> None:
        scheduler.airflow.pools.update(spark=1, other=1)
        scheduler.declare("a", GO, PoolSlots("spark"))
        scheduler.declare("b", GO, PoolSlots("other"), dag_id="b")
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 2

    @pytest.mark.one_database
    def test_it_is_told_for_whom_slots_are_kept(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 1
        declare_many(scheduler, 2, PoolSlots("spark"))
        scheduler.send("go")
        scheduler.work()
        (waits,) = {"s0", "s1"} - {launch.schedule for launch in scheduler.started}
        said = str(explain(scheduler.schedules, waits))
        assert "pool spark has 1 free slot, 1 reserved for starting runs; 1 needed" in said


@pytest.mark.one_database
class TestOrder:
    def test_the_more_urgent_first_and_of_those_the_older(self, scheduler: Any) -> None:
        scheduler.airflow.pools["spark"] = 0
        for name, priority in (("low", -1), ("older", 0), ("newer", 0), ("high", 1)):
            scheduler.declare(name, CustomEvents(name), PoolSlots("spark"), dag_id=name, priority=priority)
        for name in ("low", "older", "newer", "high"):
            scheduler.send(name)
            scheduler.go_on(seconds=1)
        for free in range(1, 5):
            scheduler.airflow.pools["spark"] = free
            for _ in range(4):
                scheduler.go_on(seconds=31)
            assert len(scheduler.started) == free
        assert [launch.schedule for launch in scheduler.started] == ["high", "older", "newer", "low"]


class TestLoads:
    @pytest.fixture(autouse=True)
    def _load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SNOWPACK_TEST_LOAD", "0.5")

    @pytest.mark.one_database
    def test_without_knowing_what_a_run_adds_one_starts_at_a_time(self, scheduler: Any) -> None:
        declare_many(scheduler, 3, ClusterLoad(LOAD))
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 1
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 1, "the load cannot show it yet"
        for _ in range(4):
            scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 3

    def test_what_a_run_adds_counts_until_the_load_shows_it(self, scheduler: Any) -> None:
        declare_many(scheduler, 10, ClusterLoad(LOAD, below=0.8, each=0.1))
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 3, "at 0.5, 0.6 and 0.7"
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 3

    @pytest.mark.one_database
    def test_it_is_told_that_one_is_on_its_way(self, scheduler: Any) -> None:
        declare_many(scheduler, 2, ClusterLoad(LOAD))
        scheduler.send("go")
        scheduler.work()
        (waits,) = {"s0", "s1"} - {launch.schedule for launch in scheduler.started}
        assert "; 1 starting run not included" in str(explain(scheduler.schedules, waits))


def test_an_older_look_at_the_pool_does_not_give_away_what_a_newer_one_has_seen_taken(scheduler: Any) -> None:
    """One scheduler asks Airflow and is slow; another launches meanwhile, and sees its run in the pool."""
    declare_many(scheduler, 2, PoolSlots("spark"))
    scheduler.airflow.pools["spark"] = 1
    asked = scheduler.airflow.free_slots

    def slowly(pools: Any) -> Any:
        told = dict(asked(pools))
        scheduler.airflow.free_slots = asked
        scheduler.clock.move(seconds=1)
        scheduler.work()  # the other scheduler
        show(scheduler, "spark", slots=1)
        scheduler.clock.move(seconds=40)
        scheduler.checker.step()
        return told

    scheduler.airflow.free_slots = slowly
    scheduler.send("go")
    scheduler.subscriber.step()
    scheduler.checker.step()
    scheduler.launcher.step()
    assert len(scheduler.started) == 1
