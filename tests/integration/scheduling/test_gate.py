"""A gate inside of a DAG: what it counts, when it asks, and who comes first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from effort import rounds
from forgetting import forget_old

from airflow_snowpack.scheduling import (
    ClusterLoad,
    CustomEvents,
    Delay,
    Gate,
    GatedRun,
    GatePlace,
    GateState,
    MaxConcurrent,
    MaxRuns,
    PoolSlots,
    SinceLastRun,
    TimeWindow,
    explain,
    gate_is_due,
)
from airflow_snowpack.scheduling.airflow_port import EndedRun
from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.gated_runs import read_gate
from airflow_snowpack.store import open_store
from airflow_snowpack.store.tables.schedules import slot_holds

TURNS = rounds(4, soak=200)
WAITING, PASSED, SKIPPED = GateState.WAITING, GateState.PASSED, GateState.SKIPPED


class Gates:
    """The gates of some DAGs, and the Airflow whose runs come to them."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.airflow, self.store = scheduler, scheduler.airflow, scheduler.store

    def start(self, *run_ids: str, dag_id: str = "maintain") -> None:
        """Airflow runs them; they have not come to a gate yet."""
        self.airflow.running.setdefault(dag_id, set()).update(run_ids)

    def gate(self, run_id: str, *constraints: Constraint, dag_id: str = "maintain", priority: int = 0) -> Gate:
        self.start(run_id, dag_id=dag_id)
        return Gate(self.store, self.airflow, GatePlace(dag_id, run_id, "gate"), constraints, priority=priority)

    def ask(self, run_id: str, *constraints: Constraint, **arguments: Any) -> GatedRun:
        return self.gate(run_id, *constraints, **arguments).ask()

    def state(self, run_id: str, *constraints: Constraint, **arguments: Any) -> GateState:
        return self.ask(run_id, *constraints, **arguments).state

    def end(self, run_id: str, state: str = "success", *, dag_id: str = "maintain") -> None:
        """The run ends, and the listener tells."""
        self.airflow.running[dag_id].discard(run_id)
        self.scheduler.runs.ended(dag_id, run_id, state, self.store.clock())

    def is_due(self, run_id: str, *, dag_id: str = "maintain") -> bool:
        return gate_is_due(self.store, GatePlace(dag_id, run_id, "gate"), timedelta(seconds=30))


@pytest.fixture
def gates(scheduler: Any) -> Gates:
    return Gates(scheduler)


class TestWhatCounts:
    @pytest.mark.one_database
    def test_a_run_does_not_count_itself(self, gates: Gates) -> None:
        assert gates.state("a", MaxConcurrent(1)) is PASSED

    def test_a_run_waits_for_one_that_has_passed_until_that_has_ended(self, gates: Gates) -> None:
        gates.ask("a", MaxConcurrent(1))
        waits = gates.ask("b", MaxConcurrent(1))
        assert (waits.state, waits.text) == (WAITING, "1 of at most 1 runs of maintain are active")

        gates.end("a", "failed")
        assert gates.state("b", MaxConcurrent(1)) is PASSED

    @pytest.mark.one_database
    def test_runs_that_wait_or_are_on_their_way_do_not_count(self, gates: Gates) -> None:
        gates.start("queued", "on_its_way")
        window = TimeWindow("20:00", "21:00")
        assert gates.state("waits", window, MaxConcurrent(1)) is WAITING
        assert gates.state("a", MaxConcurrent(1)) is PASSED

    @pytest.mark.one_database
    def test_a_scheduled_run_that_waits_at_its_gate_is_not_waited_for(self, gates: Gates) -> None:
        """Launched twice without a limit of the schedule's own: the first to ask passes, and the other waits for it."""
        for name in ("a", "b"):
            gates.scheduler.declare(name, CustomEvents("go"))
        gates.scheduler.send("go")
        gates.scheduler.work()
        first, second = (launch.run_id for launch in gates.scheduler.started)

        assert gates.state(first, MaxConcurrent(1)) is PASSED
        assert gates.state(second, MaxConcurrent(1)) is WAITING
        gates.end(first)
        assert gates.state(second, MaxConcurrent(1)) is PASSED

    def test_in_a_group_the_runs_of_dags_without_a_gate_count_whoever_started_them(self, gates: Gates) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("other", CustomEvents("go"), limit, dag_id="no_gate")
        gates.start("by_hand", dag_id="no_gate")
        assert gates.state("a", limit) is WAITING

        gates.airflow.running["no_gate"].clear()
        assert gates.state("a", limit) is PASSED

    def test_in_a_group_the_gates_of_different_dags_count_each_other(self, gates: Gates) -> None:
        limit = MaxConcurrent(1, group="g")
        assert gates.state("a", limit, dag_id="one") is PASSED
        assert gates.state("b", limit, dag_id="two") is WAITING
        gates.end("a", dag_id="one")
        assert gates.state("b", limit, dag_id="two") is PASSED

    @pytest.mark.one_database
    def test_a_run_that_is_active_again_since_its_tasks_were_cleared_counts_again(self, gates: Gates) -> None:
        gates.ask("a", MaxConcurrent(1))
        gates.end("a")
        gates.start("a")
        assert gates.state("b", MaxConcurrent(1)) is WAITING

        gates.airflow.running["maintain"].discard("a")
        assert gates.state("b", MaxConcurrent(1)) is PASSED

    def test_the_end_of_a_run_that_nobody_told_is_found_out(self, gates: Gates) -> None:
        gates.ask("a", MaxConcurrent(1))
        gates.airflow.running["maintain"].discard("a")
        gates.airflow.ended["a"] = EndedRun("success", gates.store.clock())
        assert gates.state("b", MaxConcurrent(1)) is PASSED


class TestBesideSchedules:
    def test_a_schedule_of_the_group_counts_a_run_from_when_it_passed_its_gate(self, gates: Gates) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("other", CustomEvents("go"), limit, dag_id="no_gate")
        gates.ask("a", TimeWindow("20:00", "21:00"), limit)
        gates.scheduler.send("go")
        gates.scheduler.work()
        assert len(gates.scheduler.started) == 1, "a run that waits at its gate keeps nobody from anything"

        gates.scheduler.end_run()
        gates.ask("b", limit)
        gates.scheduler.send("go")
        gates.scheduler.work()
        assert len(gates.scheduler.started) == 1
        gates.end("b")
        gates.scheduler.work()
        assert len(gates.scheduler.started) == 2

    @pytest.mark.one_database
    def test_a_schedule_of_the_dag_counts_a_run_from_its_start_so_that_none_pile_up_at_the_gate(self, gates: Gates) -> None:
        gates.scheduler.declare("own", CustomEvents("go"), MaxConcurrent(1))
        gates.ask("a", TimeWindow("20:00", "21:00"))
        gates.scheduler.send("go")
        gates.scheduler.work()
        assert gates.scheduler.started == []

    @pytest.mark.one_database
    def test_a_gate_does_not_wait_for_a_more_urgent_schedule_that_waits_for_it(self, gates: Gates) -> None:
        gates.scheduler.declare("own", CustomEvents("go"), MaxConcurrent(1), priority=9)
        gates.ask("a", MaxConcurrent(1))
        gates.ask("b", MaxConcurrent(1))
        gates.scheduler.send("go")
        gates.scheduler.work()
        gates.end("a")
        gates.scheduler.work()
        assert gates.scheduler.started == []
        assert gates.state("b", MaxConcurrent(1)) is PASSED

    def test_in_a_group_a_gate_gives_way_to_a_more_urgent_schedule(self, gates: Gates) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("urgent", CustomEvents("go"), limit, dag_id="no_gate", priority=9)
        gates.ask("a", limit)
        gates.scheduler.send("go")
        gates.scheduler.work()
        gates.airflow.running["maintain"].discard("a")
        gates.airflow.ended["a"] = EndedRun("success", gates.store.clock())

        waits = gates.ask("b", limit)
        assert (waits.state, "higher priority" in waits.text) == (WAITING, True)
        assert gates.state("c", limit, priority=9) is PASSED

    @pytest.mark.one_database
    def test_the_success_of_a_run_that_was_turned_away_is_none(self, gates: Gates) -> None:
        gates.ask("a", TimeWindow("20:00", "21:00", on_unmet="skip"))
        gates.end("a")
        assert gates.state("b", SinceLastRun("5m")) is PASSED


class TestTheOtherConstraints:
    def test_since_last_run_waits_for_who_has_passed_and_then_for_the_period(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", SinceLastRun("5m"))
        assert gates.ask("b", SinceLastRun("5m")).waits_for == "dag:maintain"

        gates.end("a")
        waits = gates.ask("b", SinceLastRun("5m"))
        assert waits.not_before == clock() + timedelta(minutes=5)
        clock.move(minutes=5)
        assert gates.state("b", SinceLastRun("5m")) is PASSED

    def test_max_runs_counts_who_passed_this_gate(self, gates: Gates, clock: Any) -> None:
        assert [gates.state(name, MaxRuns(2, per="1h")) for name in "abc"] == [PASSED, PASSED, WAITING]
        clock.move(hours=1)
        assert gates.state("c", MaxRuns(2, per="1h")) is PASSED

    @pytest.mark.one_database
    def test_a_delay_counts_from_when_the_run_came(self, gates: Gates, clock: Any) -> None:
        assert gates.ask("a", Delay("10m")).not_before == clock() + timedelta(minutes=10)
        clock.move(minutes=10)
        assert gates.state("a", Delay("10m")) is PASSED

    def test_what_a_run_that_has_passed_will_take_of_a_pool_is_kept_for_it(self, gates: Gates) -> None:
        gates.airflow.pools["p"] = 1
        assert gates.state("a", PoolSlots("p")) is PASSED
        waits = gates.ask("b", PoolSlots("p"))
        assert (waits.state, "starting run" in waits.text) == (WAITING, True)

    @pytest.mark.one_database
    def test_what_a_schedule_kept_for_its_run_is_not_in_the_way_of_that_run(self, gates: Gates) -> None:
        gates.airflow.pools["p"] = 1
        gates.scheduler.declare("s", CustomEvents("go"), PoolSlots("p"))
        gates.scheduler.send("go")
        gates.scheduler.work()
        assert gates.state(gates.scheduler.started[0].run_id, PoolSlots("p")) is PASSED
        assert gates.state("b", PoolSlots("p")) is WAITING

    @pytest.mark.one_database
    def test_the_load_is_asked_of_its_probe(self, gates: Gates) -> None:
        assert gates.state("a", ClusterLoad("time", below=1)) is WAITING
        assert gates.state("b", ClusterLoad("broken", below=1)) is WAITING, "a probe that fails lets nothing pass"

    @pytest.mark.one_database
    def test_unmet_with_skip_turns_a_run_away_but_only_when_it_could_go_on_else(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", MaxConcurrent(1))
        both = (MaxConcurrent(1, on_unmet="skip"), Delay("10m"))
        assert gates.state("b", *both) is WAITING
        clock.move(minutes=10)
        assert gates.state("b", *both) is SKIPPED


class TestOneAfterTheOther:
    """Counting and passing is one step, also against what schedules launch."""

    @staticmethod
    def together(*steps: Callable[[], Any]) -> list[Any]:
        """Each once, all of them let go at the same moment."""
        start = threading.Barrier(len(steps))

        def once(step: Callable[[], Any]) -> Any:
            start.wait(PATIENCE_S)
            return step()

        with ThreadPoolExecutor(len(steps)) as pool:
            return [future.result() for future in [pool.submit(once, step) for step in steps]]

    @pytest.mark.parametrize("limit", [MaxConcurrent(1), MaxConcurrent(1, group="g"), SinceLastRun("1m"), MaxRuns(1, per="1m")])
    def test_of_runs_that_ask_at_the_same_moment_one_passes(
        self, gates: Gates, store_url: str, clock: Any, limit: Constraint
    ) -> None:
        with ExitStack() as opened:
            stores = [opened.enter_context(open_store(store_url, clock=clock)) for _ in range(3)]
            for turn in range(TURNS):
                places = [GatePlace("maintain", f"{turn}-{number}", "gate") for number in range(3)]
                gates.start(*(place.run_id for place in places))
                asking = [Gate(store, gates.airflow, place, [limit]).ask for store, place in zip(stores, places, strict=True)]
                states = [run.state for run in self.together(*asking)]
                assert sorted(states) == [PASSED, WAITING, WAITING]
                for place in places:
                    gates.end(place.run_id)
                clock.move(minutes=2)

    def test_of_a_run_at_its_gate_and_a_schedule_of_its_group_one_takes_the_last_place(
        self, gates: Gates, store_url: str, clock: Any
    ) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("other", CustomEvents("go"), limit, dag_id="no_gate")
        with ExitStack() as opened:
            mine, yours = (opened.enter_context(open_store(store_url, clock=clock)) for _ in range(2))
            for turn in range(TURNS):
                gates.start(f"a{turn}")
                gates.scheduler.send("go")
                gates.scheduler.subscriber.step()
                gate = Gate(mine, gates.airflow, GatePlace("maintain", f"a{turn}", "gate"), [limit])
                run, report = self.together(gate.ask, Checker(yours, gates.airflow).step)
                assert (run.state is PASSED) + len(report.reserved) == 1
                gates.end(f"a{turn}")
                clock.move(minutes=2)
                gates.scheduler.work()
                gates.scheduler.end_run()
                clock.move(minutes=2)

    def test_a_run_that_passes_while_the_checker_asks_airflow_is_counted_by_it(
        self, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("other", CustomEvents("go"), limit, dag_id="no_gate")
        gates.scheduler.send("go")
        gates.scheduler.subscriber.step()
        ask = gates.airflow.dag_runs

        def ask_and_pass(known: Any) -> Any:
            told = ask(known)
            monkeypatch.undo()
            assert gates.state("a", limit) is PASSED
            return told

        monkeypatch.setattr(gates.airflow, "dag_runs", ask_and_pass)
        assert gates.scheduler.checker.step().reserved == ()

    def test_a_run_that_a_schedule_launches_while_a_gate_asks_airflow_is_counted_by_it(
        self, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit = MaxConcurrent(1, group="g")
        gates.scheduler.declare("other", CustomEvents("go"), limit, dag_id="no_gate")
        gates.scheduler.send("go")
        gates.scheduler.subscriber.step()
        ask = gates.airflow.dag_runs

        def ask_and_launch(known: Any) -> Any:
            told = ask(known)
            monkeypatch.undo()
            assert len(gates.scheduler.checker.step().reserved) == 1
            return told

        monkeypatch.setattr(gates.airflow, "dag_runs", ask_and_launch)
        assert gates.state("a", limit) is WAITING


class TestWhatIsTold:
    def test_the_explanation_of_a_schedule_tells_why_its_run_waits_at_its_gate(self, gates: Gates) -> None:
        gates.scheduler.declare("s", CustomEvents("go"))
        gates.scheduler.send("go")
        gates.scheduler.work()
        run_id = gates.scheduler.started[0].run_id
        gates.ask(run_id, TimeWindow("20:00", "21:00"))

        told = str(explain(gates.scheduler.schedules, "s"))
        why = "outside of 20:00 to 21:00 UTC, until 2026-11-21 20:00:00 UTC."
        assert f"Run {run_id} waits at its gate gate: {why}" in told
        gates.end(run_id, "failed")
        assert "gate" not in str(explain(gates.scheduler.schedules, "s"))

    def test_what_ended_long_ago_is_forgotten(self, gates: Gates, clock: Any) -> None:
        gates.ask("old")
        gates.end("old")
        clock.move(days=91)
        forget_old(gates.store)
        assert gates.state("new", MaxRuns(1, per="1000d")) is PASSED

    def test_what_a_gate_counts_stays_for_as_long_as_it_counts(self, gates: Gates, clock: Any) -> None:
        gates.ask("old", MaxRuns(1, per="1000d"))
        gates.end("old")
        clock.move(days=91)
        forget_old(gates.store)
        assert gates.state("new", MaxRuns(1, per="1000d")) is WAITING


class TestAskingAgain:
    @pytest.mark.one_database
    def test_a_run_that_has_passed_has_passed_whatever_the_constraints_say_now(self, gates: Gates, clock: Any) -> None:
        window = TimeWindow("12:00", "13:00")
        gates.ask("a", window)
        clock.move(hours=5)
        assert gates.state("a", window) is PASSED

    def test_a_run_that_had_ended_and_was_cleared_asks_anew(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", MaxConcurrent(1))
        gates.end("a", "failed")
        gates.ask("b", MaxConcurrent(1))
        clock.move(seconds=1)
        assert gates.state("a", MaxConcurrent(1)) is WAITING
        gates.end("b")
        assert gates.state("a", MaxConcurrent(1)) is PASSED

    def test_an_end_that_is_told_late_does_not_take_the_place_of_a_run_that_was_cleared_since(
        self, gates: Gates, clock: Any
    ) -> None:
        gates.ask("a", MaxConcurrent(1))
        ended_at = clock()
        clock.move(seconds=5)
        gates.ask("a", MaxConcurrent(1))
        gates.scheduler.runs.ended("maintain", "a", "failed", ended_at)
        assert gates.state("b", MaxConcurrent(1)) is WAITING

    @pytest.mark.one_database
    def test_a_run_that_was_turned_away_asks_anew_when_it_is_cleared(self, gates: Gates, clock: Any) -> None:
        window = TimeWindow("20:00", "21:00", on_unmet="skip")
        assert gates.state("a", window) is SKIPPED
        clock.move(hours=8)
        assert gates.state("a", window) is PASSED

    @pytest.mark.one_database
    def test_nobody_is_asked_before_the_moment_that_a_constraint_named(
        self, gates: Gates, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[object] = []
        monkeypatch.setattr(gates.airflow, "dag_runs", lambda known: asked.append(known) or {})
        both = (TimeWindow("20:00", "21:00"), MaxConcurrent(1))
        gates.ask("a", *both)
        for _ in range(7):
            clock.move(hours=1)
            assert gates.state("a", *both) is WAITING
        assert len(asked) == 1
        clock.move(hours=1)
        assert (gates.state("a", *both), len(asked)) == (PASSED, 2)

    def test_other_constraints_in_a_new_version_of_the_dag_are_asked_at_once(self, gates: Gates) -> None:
        gates.ask("a", TimeWindow("20:00", "21:00"))
        assert gates.state("a", MaxConcurrent(1)) is PASSED


class TestTheEndOfTheTime:
    def test_a_run_that_goes_on_all_the_same_takes_its_place(self, gates: Gates) -> None:
        gates.ask("a", MaxConcurrent(1))
        late = gates.gate("b", MaxConcurrent(1))
        late.ask()
        assert late.time_out(PASSED).state is PASSED
        gates.end("a")
        assert gates.state("c", MaxConcurrent(1)) is WAITING

    def test_a_run_that_failed_at_its_gate_stands_in_nobodys_way(self, gates: Gates) -> None:
        gates.ask("a", MaxConcurrent(1))
        late = gates.gate("b", MaxConcurrent(1))
        late.ask()
        late.time_out(WAITING)
        gates.ask("c", MaxConcurrent(1))
        assert not gates.is_due("c")
        gates.end("a")
        assert gates.is_due("c")

    @pytest.mark.one_database
    def test_a_run_that_has_passed_in_the_last_moment_has_passed(self, gates: Gates) -> None:
        gate = gates.gate("a", MaxConcurrent(1))
        gate.ask()
        assert gate.time_out(SKIPPED).state is PASSED


class TestTheLine:
    def test_when_a_place_becomes_free_the_first_in_the_line_is_called_and_nobody_else(self, gates: Gates, clock: Any) -> None:
        limit = MaxConcurrent(1)
        for name in "abcd":
            gates.ask(name, limit)
            clock.move(seconds=1)
        assert [gates.is_due(name) for name in "bcd"] == [False, False, False]
        gates.end("a")
        assert [gates.is_due(name) for name in "bcd"] == [True, False, False]

        gates.ask("b", limit)
        assert [gates.is_due(name) for name in "cd"] == [False, False]
        gates.end("b")
        assert [gates.is_due(name) for name in "cd"] == [True, False]

    @pytest.mark.one_database
    def test_the_first_is_called_now_and_then_although_nothing_was_told(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", MaxConcurrent(1))
        for name in "bc":
            gates.ask(name, MaxConcurrent(1))
            clock.move(seconds=1)
        assert [gates.is_due(name) for name in "bc"] == [False, False]
        clock.move(seconds=30)
        assert [gates.is_due(name) for name in "bc"] == [True, False]

    @pytest.mark.one_database
    def test_whoever_waits_for_a_moment_is_called_then_and_stands_in_no_line(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", MaxConcurrent(1))
        gates.ask("b", TimeWindow("20:00", "21:00"), MaxConcurrent(1))
        gates.ask("c", MaxConcurrent(1))
        assert (gates.is_due("b"), gates.is_due("c")) == (False, False)
        gates.end("a")
        assert (gates.is_due("b"), gates.is_due("c")) == (False, True)
        clock.move(hours=8)
        assert gates.is_due("b")

    def test_whoever_is_gone_is_not_waited_for(self, gates: Gates, clock: Any) -> None:
        gates.ask("a", MaxConcurrent(1))
        gates.ask("gone", MaxConcurrent(1))
        clock.move(seconds=1)
        gates.ask("c", MaxConcurrent(1))
        for _ in range(6):
            clock.move(seconds=30)
            is_due = gates.is_due("c")
        assert is_due


class TestOneQueue:
    """Runs at gates and pending runs of schedules wait in one queue."""

    GROUP = MaxConcurrent(1, group="g")

    @pytest.fixture
    def held(self, gates: Gates) -> Gates:
        """The only place of the group is taken by a run that has passed its gate."""
        assert gates.state("a", self.GROUP) is PASSED
        gates.scheduler.declare("other", CustomEvents("go"), self.GROUP, dag_id="no_gate")
        return gates

    def wait_at_gate(self, gates: Gates, run_id: str, **arguments: Any) -> None:
        assert gates.state(run_id, self.GROUP, **arguments) is WAITING
        gates.store.clock.move(seconds=1)

    @staticmethod
    def wait_as_schedule(gates: Gates) -> None:
        gates.scheduler.send("go")
        gates.scheduler.work()
        gates.store.clock.move(seconds=1)

    @staticmethod
    def schedule_is_due(gates: Gates) -> bool:
        (pending,) = gates.scheduler.pending("other")
        return bool(pending.next_check_at <= gates.store.clock())

    def test_a_place_goes_to_the_gate_that_came_before_a_pending_run(self, held: Gates) -> None:
        self.wait_at_gate(held, "b")
        self.wait_as_schedule(held)
        held.end("a")
        assert (held.is_due("b"), self.schedule_is_due(held)) == (True, False)
        assert held.state("b", self.GROUP) is PASSED

    def test_a_place_goes_to_the_pending_run_that_came_before_a_gate(self, held: Gates) -> None:
        self.wait_as_schedule(held)
        self.wait_at_gate(held, "b")
        held.end("a")
        assert (held.is_due("b"), self.schedule_is_due(held)) == (False, True)

    def test_a_place_goes_to_the_gate_of_a_higher_priority(self, held: Gates) -> None:
        self.wait_as_schedule(held)
        self.wait_at_gate(held, "b")
        self.wait_at_gate(held, "urgent", priority=9)
        held.end("a")
        assert [held.is_due(name) for name in ("urgent", "b")] == [True, False]
        assert not self.schedule_is_due(held)

    def test_a_task_that_died_at_its_gate_leaves_no_ghost_in_the_queue(self, held: Gates, clock: Any) -> None:
        self.wait_at_gate(held, "dead")
        self.wait_as_schedule(held)
        clock.move(minutes=3)
        held.scheduler.work()
        held.end("a")
        assert self.schedule_is_due(held)

    def test_a_run_that_ends_while_it_waits_at_its_gate_leaves_no_ghost_in_the_queue(self, held: Gates) -> None:
        self.wait_at_gate(held, "cleared")
        self.wait_as_schedule(held)
        held.end("cleared", "failed")
        held.end("a")
        assert self.schedule_is_due(held)

    def test_a_run_that_is_skipped_after_it_was_woken_wakes_the_next(self, held: Gates) -> None:
        late = held.gate("b", self.GROUP)
        self.wait_at_gate(held, "b")
        self.wait_at_gate(held, "c")
        held.end("a")
        assert (held.is_due("b"), held.is_due("c")) == (True, False)
        late.time_out(SKIPPED)
        assert held.is_due("c")

    def test_a_gate_that_was_woken_does_not_pass_without_a_place(self, held: Gates) -> None:
        self.wait_at_gate(held, "b")
        held.end("a")
        assert held.is_due("b")
        assert held.gate("early", self.GROUP).ask().state is PASSED
        assert held.state("b", self.GROUP) is WAITING
        assert not held.is_due("b")

    def test_a_scheduler_that_finds_a_place_for_a_gate_leaves_it_to_the_task_of_the_gate(self, held: Gates) -> None:
        self.wait_at_gate(held, "b")
        held.end("a")
        held.scheduler.work()
        assert held.is_due("b")
        assert held.state("c", self.GROUP) is PASSED, "no place is taken for a task that may never come"

    @pytest.mark.one_database
    def test_a_gate_that_was_woken_while_airflow_does_not_answer_is_due_again_after_its_interval(
        self, held: Gates, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.wait_at_gate(held, "b")
        held.end("a")
        assert held.is_due("b")
        clock.move(seconds=1)
        monkeypatch.setattr(held.airflow, "dag_runs", lambda known: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            held.ask("b", self.GROUP)
        assert not held.is_due("b")
        clock.move(seconds=30)
        assert held.is_due("b")

    @pytest.mark.one_database
    def test_gates_that_were_woken_together_while_airflow_does_not_answer_are_due_again_together(
        self, gates: Gates, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        two = MaxConcurrent(2, group="g")
        assert [gates.state(run_id, two) for run_id in "abcd"] == [PASSED, PASSED, WAITING, WAITING]
        clock.move(seconds=1)
        gates.end("a")
        gates.end("b")
        assert [gates.is_due(run_id) for run_id in "cd"] == [True, True]
        clock.move(seconds=1)
        with monkeypatch.context() as outage:
            outage.setattr(gates.airflow, "dag_runs", lambda known: 1 / 0)
            for run_id in "cd":
                with pytest.raises(ZeroDivisionError):
                    gates.ask(run_id, two)
        assert [gates.is_due(run_id) for run_id in "cd"] == [False, False]
        clock.move(seconds=30)
        assert [gates.is_due(run_id) for run_id in "cd"] == [True, True]


class Died(Exception):
    """The process ended here."""


@pytest.mark.both_in_soak
class TestCrashes:
    LIMITS = (MaxConcurrent(1, group="g"), PoolSlots("p"))

    @staticmethod
    def ask_and_die(gates: Gates, run_id: str, at: int, *constraints: Constraint) -> bool:
        """Ask, and die at the statement of this number; return whether there were so many."""
        sent = 0

        def die(*_: Any) -> None:
            nonlocal sent
            sent += 1
            if sent > at:
                raise Died

        sa.event.listen(gates.store.engine, "before_cursor_execute", die)
        try:
            gates.ask(run_id, *constraints)
        except Died:
            return True
        finally:
            sa.event.remove(gates.store.engine, "before_cursor_execute", die)
        return False

    def test_whatever_statement_a_process_dies_at_a_run_has_passed_with_its_reservation_or_waits(self, gates: Gates) -> None:
        gates.airflow.pools["p"] = 1
        died, number = True, 0
        while died:
            run_id = f"r{number}"
            died = self.ask_and_die(gates, run_id, number, *self.LIMITS)
            row = read_gate(gates.store, GatePlace("maintain", run_id, "gate"))
            reserved = gates.store.all(sa.select(slot_holds).where(slot_holds.c.run_id == run_id))
            assert (row is not None and row.state is PASSED) == bool(reserved)
            assert gates.state(run_id, *self.LIMITS) is PASSED, "the retry of the task passes, since nothing takes its place"
            assert gates.state(f"next{number}", *self.LIMITS) is WAITING
            gates.end(run_id)
            gates.end(f"next{number}", "failed")
            number += 1
        assert number > 10

    def test_whatever_statement_a_woken_process_dies_at_it_is_woken_again_or_the_next_is(self, gates: Gates, clock: Any) -> None:
        """A run that is skipped leaves the queue and wakes the next in one transaction."""
        died, number, limit = True, 0, MaxConcurrent(1, group="g")
        while died:
            first, second, third = (f"{name}{number}" for name in "abc")
            assert gates.state(first, limit) is PASSED
            for run_id in (second, third):
                gates.ask(run_id, limit)
                clock.move(seconds=1)
            gates.end(first)
            assert (gates.is_due(second), gates.is_due(third)) == (True, False)
            died = self.ask_and_die(gates, second, number, limit, TimeWindow("00:00", "00:01", on_unmet="skip"))
            skipped = gates.ask(second, limit, TimeWindow("00:00", "00:01", on_unmet="skip")).state
            assert (skipped, gates.is_due(third)) == (SKIPPED, True)
            assert gates.state(third, limit) is PASSED
            for run_id in (second, third):
                gates.end(run_id)
            number += 1
        assert number > 10
