"""The end of a DAG run counts once, whichever way the store hears of it, and is not lost when nobody told it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from forgetting import forget_old

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling import (
    CustomEvents,
    EventLog,
    MaxConcurrent,
    RunsFailed,
    RunsSucceeded,
    Scheduler,
    SinceLastRun,
    ends_are_due,
    read_runs,
)
from airflow_snowpack.scheduling.airflow_port import EndedRun, EndsFound, EndsQuery
from airflow_snowpack.scheduling.launches.run_ends import RunEnds
from airflow_snowpack.store.tables.schedules import run_places

GO = CustomEvents("go")
NONE = {"success": 0, "failed": 0}


@pytest.fixture
def ends(scheduler: Any) -> RunEnds:
    return RunEnds(scheduler.store, scheduler.airflow)


def end_of(scheduler: Any, run_id: str, state: str = "success", dag_id: str = "a", *, ago: float = 0) -> EndedRun:
    """Airflow has a run that has ended, and has told nobody."""
    at = scheduler.clock() - timedelta(minutes=ago)
    end = EndedRun(state, at, at - timedelta(minutes=5))
    scheduler.airflow.finished.setdefault(dag_id, {})[run_id] = end
    return end


def tell(scheduler: Any, run_id: str, end: EndedRun, dag_id: str = "a") -> bool:
    """As the listener does."""
    told: bool = scheduler.runs.ended(dag_id, run_id, end.state, end.at, began_at=end.began_at)
    return told


def look(scheduler: Any, ends: RunEnds) -> int:
    scheduler.clock.move(minutes=1)
    found = ends.step()
    scheduler.work()
    return found


def test_an_end_that_nobody_told_starts_what_waits_for_it(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after", RunsSucceeded("a"))
    end_of(scheduler, "manual__1")
    assert look(scheduler, ends) == 1
    (launch,) = scheduler.started
    assert launch.conf["snowpack"]["events"][0]["detail"]["run_id"] == "manual__1"


@pytest.mark.parametrize("told_first", [True, False])
def test_it_counts_once_whoever_tells_it_first(scheduler: Any, ends: RunEnds, told_first: bool) -> None:
    scheduler.declare("after_two", RunsSucceeded("a", 2))
    end = end_of(scheduler, "manual__1")
    if told_first:
        assert tell(scheduler, "manual__1", end)
    assert look(scheduler, ends) == (not told_first)
    assert tell(scheduler, "manual__1", end) is False
    look(scheduler, ends)
    assert scheduler.started == []
    end_of(scheduler, "manual__2")
    look(scheduler, ends)
    assert len(scheduler.started) == 1


@pytest.mark.one_database
def test_an_end_that_airflow_took_back_and_made_again_counts_once(scheduler: Any, ends: RunEnds) -> None:
    """It tells an end before it has committed it; when that fails, the run ends again, a little later."""
    scheduler.declare("after_two", RunsSucceeded("a", 2))
    end = end_of(scheduler, "manual__1")
    assert tell(scheduler, "manual__1", end)
    later = EndedRun("success", end.at + timedelta(seconds=3), end.began_at)
    scheduler.airflow.finished["a"]["manual__1"] = later
    assert tell(scheduler, "manual__1", later) is False
    assert look(scheduler, ends) == 0


@pytest.mark.one_database
def test_a_run_that_was_cleared_ends_twice(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after_two", RunsSucceeded("a", 2))
    end_of(scheduler, "manual__1")
    look(scheduler, ends)
    scheduler.clock.move(minutes=30)
    end_of(scheduler, "manual__1")
    assert look(scheduler, ends) == 1
    assert len(scheduler.started) == 1


@pytest.mark.one_database
def test_failures_and_successes_are_told_apart(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after_failure", RunsFailed("a"))
    end_of(scheduler, "manual__1")
    look(scheduler, ends)
    assert scheduler.started == []
    end_of(scheduler, "manual__2", "failed")
    look(scheduler, ends)
    assert len(scheduler.started) == 1


class TestARunThatIsMarkedByHand:
    """Airflow moves none of its dates for that."""

    def mark(self, scheduler: Any, run_id: str, was: EndedRun, state: str) -> EndedRun:
        marked = EndedRun(state, was.at, was.began_at)
        scheduler.airflow.finished["a"][run_id] = marked
        return marked

    def test_a_failed_one_that_is_marked_successful_has_succeeded_once_and_now(self, scheduler: Any, ends: RunEnds) -> None:
        scheduler.declare("after", RunsSucceeded("a"))
        scheduler.declare("after_two", RunsSucceeded("a", 2))
        scheduler.declare("after_failure", RunsFailed("a"))
        failed = end_of(scheduler, "manual__1", "failed")
        tell(scheduler, "manual__1", failed)
        scheduler.work()
        assert [launch.schedule for launch in scheduler.started] == ["after_failure"]

        scheduler.clock.move(days=3)
        marked = self.mark(scheduler, "manual__1", failed, "success")
        assert tell(scheduler, "manual__1", marked)
        assert tell(scheduler, "manual__1", marked) is False
        look(scheduler, ends)

        assert [launch.schedule for launch in scheduler.started] == ["after_failure", "after"]
        (job,) = scheduler.pending("after")
        assert job.triggered_at == scheduler.clock() - timedelta(minutes=1), "no timeout has begun three days ago"

    @pytest.mark.one_database
    def test_one_that_is_marked_to_and_fro_counts_once_in_each_state(self, scheduler: Any, ends: RunEnds) -> None:
        scheduler.declare("after", RunsSucceeded("a"))
        end = end_of(scheduler, "manual__1")
        told = [
            tell(scheduler, "manual__1", self.mark(scheduler, "manual__1", end, state)) for state in ["success", "failed"] * 2
        ]
        assert told == [True, True, False, False]
        assert look(scheduler, ends) == 0

    @pytest.mark.one_database
    def test_a_cleared_one_succeeds_again(self, scheduler: Any, ends: RunEnds) -> None:
        scheduler.declare("after_three", RunsSucceeded("a", 3))
        failed = end_of(scheduler, "manual__1", "failed")
        tell(scheduler, "manual__1", failed)
        tell(scheduler, "manual__1", self.mark(scheduler, "manual__1", failed, "success"))
        for _ in range(2):
            assert scheduler.started == []
            scheduler.clock.move(minutes=30)
            end_of(scheduler, "manual__1")
            assert look(scheduler, ends) == 1
        assert len(scheduler.started) == 1

    @pytest.mark.one_database
    def test_a_mark_that_nobody_told_is_found_while_the_end_is_fresh(self, scheduler: Any, ends: RunEnds) -> None:
        scheduler.declare("after", RunsSucceeded("a"))
        failed = end_of(scheduler, "manual__1", "failed")
        assert look(scheduler, ends) == 1
        self.mark(scheduler, "manual__1", failed, "success")
        assert look(scheduler, ends) == 1
        assert len(scheduler.started) == 1

    @pytest.mark.one_database
    def test_the_run_of_a_schedule_has_the_state_that_it_was_marked_with(self, scheduler: Any) -> None:
        scheduler.declare("free", GO)
        scheduler.send("go")
        scheduler.work()
        at, run_id = scheduler.clock(), scheduler.started[0].run_id
        for state in ("failed", "success"):
            scheduler.runs.ended("maintain", run_id, state, at, began_at=at)
        (run,) = read_runs(scheduler.store, "free")
        assert run.state == "success"


@pytest.mark.one_database
def test_what_ended_before_anybody_asked_does_not_count(scheduler: Any, ends: RunEnds) -> None:
    end_of(scheduler, "manual__1", ago=30)
    scheduler.declare("after", RunsSucceeded("a"))
    look(scheduler, ends)
    assert scheduler.started == []


@pytest.mark.one_database
def test_an_end_that_airflow_commits_late_is_found(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after", RunsSucceeded("a"))
    for _ in range(5):
        look(scheduler, ends)
    end_of(scheduler, "manual__1", ago=4)
    assert look(scheduler, ends) == 1


@pytest.mark.one_database
def test_a_success_that_nobody_told_holds_up_who_waits_since_the_last_run(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("rarely", GO, SinceLastRun("1h"), dag_id="a")
    end_of(scheduler, "manual__1")
    look(scheduler, ends)
    scheduler.send("go")
    scheduler.work()
    assert scheduler.started == []


def test_only_dags_that_somebody_names_are_asked_about_once_a_minute(scheduler: Any, ends: RunEnds) -> None:
    asked: list[str] = []
    really = scheduler.airflow.ended_runs

    def ended_runs(questions: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        asked.extend(one.dag_id for one in questions)
        told: Mapping[str, EndsFound] = really(questions)
        return told

    scheduler.airflow.ended_runs = ended_runs
    scheduler.declare("free", GO, dag_id="nobody_asks")
    scheduler.declare("after", RunsSucceeded("a") | RunsFailed("b"), dag_id="c")
    scheduler.declare("alone", GO, MaxConcurrent(1), dag_id="d")
    scheduler.declare("suspended", RunsSucceeded("e"), enabled=False)
    ends.step()
    ends.step()
    assert sorted(asked) == ["a", "b", "d"]
    scheduler.schedules.suspend("after")
    look(scheduler, ends)
    assert sorted(asked) == ["a", "b", "d", "d"]
    scheduler.schedules.delete("alone")
    look(scheduler, ends)
    assert scheduler.store.read(lambda conn: conn.execute(run_places.select()).all()) == []


def test_two_schedulers_do_not_ask_the_same(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after", RunsSucceeded("a"))
    end_of(scheduler, "manual__1")
    other = RunEnds(scheduler.store, scheduler.airflow)
    assert ends.step() + other.step() == 1


def test_a_triggerer_sees_that_nobody_has_looked_for_a_while(scheduler: Any, ends: RunEnds) -> None:
    scheduler.declare("after", RunsSucceeded("a"))
    ends.step()
    assert not ends_are_due(scheduler.store)
    scheduler.clock.move(minutes=7)
    assert ends_are_due(scheduler.store)
    ends.step()
    assert not ends_are_due(scheduler.store)


@pytest.mark.one_database
def test_an_airflow_that_does_not_answer_is_asked_again_and_keeps_no_round_from_going_on(scheduler: Any) -> None:
    scheduler.declare("after", RunsSucceeded("a") | GO)
    really = scheduler.airflow.ended_runs

    def refuse(_: object) -> Any:
        raise SnowpackError("Airflow does not answer.")

    scheduler.airflow.ended_runs = refuse
    rounds = Scheduler(scheduler.store, scheduler.airflow, scheduler.airflow, "test")
    end_of(scheduler, "manual__1")
    scheduler.send("go")
    assert len(rounds.step().launched) == 1
    scheduler.airflow.ended_runs = really
    scheduler.clock.move(minutes=1)
    assert len(rounds.step().launched) == 1


class TestRunsThatSchedulesStarted:
    def test_they_are_closed_though_no_constraint_asks_about_their_dag(self, scheduler: Any, ends: RunEnds) -> None:
        scheduler.declare("free", GO)
        scheduler.send("go")
        scheduler.work()
        run_id = scheduler.started[0].run_id
        scheduler.airflow.running.clear()
        scheduler.airflow.ended[run_id] = EndedRun("failed", scheduler.clock())
        scheduler.clock.move(minutes=5)
        ends.step()
        (run,) = read_runs(scheduler.store, "free")
        assert run.state == "failed"
        scheduler.clock.move(days=91)
        forget_old(scheduler.store)
        ends.step()
        assert read_runs(scheduler.store, "free") == []
        assert scheduler.store.read(lambda conn: conn.execute(run_places.select()).all()) == []


@dataclass
class CountingAirflow:
    """An Airflow as a task sees it: it counts runs and looks at single ones, and lists none."""

    runs: dict[str, EndedRun] = field(default_factory=dict)
    searches: int = 0

    def dag_runs(self, known: Any) -> Any:
        return {}

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        return dict.fromkeys(dag_ids, False)

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        return {one.dag_id: self.ends_of(one) if one.dag_id == "a" else EndsFound(counts=NONE) for one in asked}

    def ends_of(self, one: EndsQuery) -> EndsFound:
        counts = {state: sum(end.state == state for end in self.runs.values()) for state in ("success", "failed")}
        if not one.search:
            return EndsFound(counts=counts)
        self.searches += 1
        unknown = sorted(run for run in self.runs if run not in one.known and (one.after is None or run > one.after))
        found = {run: self.runs[run] for run in unknown[:2] if self.runs[run].at >= one.since}
        return EndsFound(found, counts, unknown[1] if len(unknown) > 2 else None)


class TestWhereAirflowOnlyCounts:
    @pytest.fixture
    def airflow(self, scheduler: Any) -> CountingAirflow:
        old = EndedRun("success", scheduler.clock() - timedelta(days=1))
        return CountingAirflow({f"old{number}": old for number in range(5)})

    @pytest.fixture
    def counted(self, scheduler: Any, airflow: CountingAirflow) -> RunEnds:
        scheduler.declare("after", RunsSucceeded("a"))
        counted = RunEnds(scheduler.store, airflow)
        counted.step()
        return counted

    def end(self, scheduler: Any, airflow: CountingAirflow, run_id: str, *, told: bool) -> None:
        at: datetime = scheduler.clock()
        airflow.runs[run_id] = EndedRun("success", at, at - timedelta(minutes=1))
        if told:
            tell(scheduler, run_id, airflow.runs[run_id])

    @pytest.mark.one_database
    def test_ends_that_were_told_are_not_searched_for(self, scheduler: Any, airflow: CountingAirflow, counted: RunEnds) -> None:
        for number in range(5):
            self.end(scheduler, airflow, f"r{number}", told=True)
            assert look(scheduler, counted) == 0
        assert airflow.searches == 0

    def test_one_that_was_not_told_is_found_run_by_run(self, scheduler: Any, airflow: CountingAirflow, counted: RunEnds) -> None:
        self.end(scheduler, airflow, "r1", told=True)
        self.end(scheduler, airflow, "r2", told=False)
        scheduler.work()
        assert sum(look(scheduler, counted) for _ in range(6)) == 1
        assert [launch.conf["snowpack"]["events"][0]["detail"]["run_id"] for launch in scheduler.started] == ["r1", "r2"]
        before = airflow.searches
        assert look(scheduler, counted) == 0
        assert airflow.searches == before, "all is explained"

    @pytest.mark.one_database
    def test_a_told_end_that_airflow_commits_later_is_no_reason_to_search(
        self, scheduler: Any, airflow: CountingAirflow, counted: RunEnds
    ) -> None:
        at = scheduler.clock()
        tell(scheduler, "r1", EndedRun("success", at, at))
        look(scheduler, counted)
        airflow.runs["r1"] = EndedRun("success", at, at)
        look(scheduler, counted)
        look(scheduler, counted)
        assert airflow.searches == 0

    @pytest.mark.one_database
    def test_runs_that_were_deleted_hide_no_end_that_comes_later(
        self, scheduler: Any, airflow: CountingAirflow, counted: RunEnds
    ) -> None:
        del airflow.runs["old1"], airflow.runs["old2"]
        look(scheduler, counted)
        look(scheduler, counted)
        self.end(scheduler, airflow, "r1", told=False)
        assert sum(look(scheduler, counted) for _ in range(6)) == 1

    @pytest.mark.one_database
    def test_what_ended_while_no_scheduler_was_there_is_searched_for(self, scheduler: Any, airflow: CountingAirflow) -> None:
        scheduler.declare("after", RunsSucceeded("a"))
        scheduler.clock.move(hours=3)
        self.end(scheduler, airflow, "r1", told=False)
        counted = RunEnds(scheduler.store, airflow)
        assert sum(look(scheduler, counted) for _ in range(6)) == 1
        assert EventLog(scheduler.store).latest("run:a:success")[0].event.detail["run_id"] == "r1"
