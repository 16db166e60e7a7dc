"""The order of tables, and what a budget allows: over random fleets."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from made_plans import made_plan

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.maintenance.fleet.budget import Budget, InvalidBudget
from airflow_snowpack.maintenance.fleet.model import EntryState, PassEntry
from airflow_snowpack.maintenance.fleet.ranking import rank, select, workers_worth
from airflow_snowpack.maintenance.planning import ActionVerdict, Cause, Decision, Estimate, TablePlan
from tests.support import effort

NOW = datetime(2026, 11, 23, 2, tzinfo=UTC)
NIGHT = timedelta(days=1)
FLEETS = effort.rounds(2_000, soak=100_000)


def table(name: str) -> TableName:
    return TableName("lake", "demo", name)


def in_need(name: str, cost: Estimate | None = None, *, saves: int = 100, **values: Any) -> PassEntry:
    """Return the entry of a table whose maintenance saves readers so many files."""
    cost = cost or Estimate(bytes_rewritten=1_000, gb_hours=1.0, seconds=60.0)
    plan = made_plan(table(name), replace(cost, files_removed=saves), rewrite_data_files="…")
    return PassEntry(table(name), 0, EntryState.CHOSEN, plan=plan, **values)


def chosen(ranked: list[PassEntry], budget: Budget, workers: int = 1) -> list[PassEntry]:
    return [each for each, reason in select(ranked, budget, workers=workers) if reason is None]


def order(*entries: PassEntry, **reads_per_day: float) -> list[str]:
    reads = {table(name): number for name, number in reads_per_day.items()}
    return [each.table.table for each in rank(entries, reads, due_by=NOW + NIGHT)]


def test_files_that_only_old_snapshots_need_count_less_than_any_file_that_readers_open() -> None:
    cleanup = Estimate(files_removed=33_000, bytes_freed=50 * 1024**3, snapshots_expired=3_000)
    compaction = Estimate(files_removed=2_000, files_added=4, bytes_rewritten=2_000 * 1024**2)
    small = replace(cleanup, files_removed=10, bytes_freed=1)

    def planned(name: str, *estimates: Estimate) -> PassEntry:
        decisions = [Decision("rewrite_data_files", ActionVerdict.RUN, Cause.NEEDED, "…", estimate=each) for each in estimates]
        return PassEntry(table(name), 0, EntryState.CHOSEN, plan=TablePlan(table(name), "m1", NOW, tuple(decisions), 0))

    both, bloated, fragmented = (
        planned("both", compaction, cleanup),
        planned("bloated", cleanup),
        planned("fragmented", compaction),
    )

    assert order(planned("tiny", small), bloated, fragmented, both) == ["both", "fragmented", "bloated", "tiny"]
    assert (both.files_saved, both.estimate.bytes_freed) == (1_996, 50 * 1024**3)


def test_the_table_with_the_most_benefit_per_cost_comes_first() -> None:
    dear = in_need("dear", Estimate(gb_hours=10.0), saves=300)
    cheap = in_need("cheap", Estimate(gb_hours=1.0), saves=100)
    assert order(dear, cheap) == ["cheap", "dear"]


def test_a_table_that_is_read_often_comes_before_one_that_is_not() -> None:
    assert order(in_need("archive", saves=500), in_need("hourly"), hourly=24.0) == ["hourly", "archive"]


def test_a_table_that_did_not_fit_before_comes_before_more_valuable_ones() -> None:
    assert order(in_need("new", saves=10**9), in_need("waited", passes_waited=1)) == ["waited", "new"]


def test_a_table_whose_deadline_comes_before_the_next_pass_comes_before_all_others() -> None:
    soon = in_need("soon", saves=1, deadline=NOW + timedelta(hours=20))
    late = in_need("late", saves=1, deadline=NOW - timedelta(days=2))
    not_yet = in_need("not_yet", saves=1, deadline=NOW + timedelta(days=5))
    assert order(not_yet, in_need("waited", passes_waited=7), soon, late) == ["late", "soon", "waited", "not_yet"]


def test_a_table_that_does_not_fit_is_named_with_what_is_left_and_a_smaller_one_is_chosen() -> None:
    tables = [in_need(name, Estimate(gb_hours=hours)) for name, hours in (("first", 6.0), ("large", 5.0), ("small", 4.0))]
    selection = {each.table.table: reason for each, reason in select(tables, Budget(gb_hours=10))}
    reason = "Needs 5.00 GB·h, and 4.00 GB·h of the budget are left."
    assert selection == {"first": None, "large": reason, "small": None}


@pytest.mark.parametrize(
    ("cost", "budget", "reason"),
    [
        (Estimate(gb_hours=3), Budget(gb_hours=2), "Needs 3.00 GB·h, more than the whole budget of 2 GB·h."),
        (Estimate(bytes_rewritten=3 << 30), Budget(bytes=2 << 30), "Rewrites 3.0 GiB, more than the whole budget of 2.0 GiB."),
        (Estimate(seconds=7200), Budget(time=timedelta(hours=1)), "Needs 2 h, more than the whole time of the pass."),
    ],
)
def test_a_table_that_no_such_budget_allows_is_named_so(cost: Estimate, budget: Budget, reason: str) -> None:
    huge = in_need("huge", cost)
    assert list(select([huge], budget)) == [(huge, reason)]


def test_the_time_of_a_pass_is_that_of_all_its_workers() -> None:
    tables = [in_need(f"t{number}", Estimate(seconds=1_800)) for number in range(6)]
    assert len(chosen(tables, Budget(time=timedelta(hours=1)), workers=2)) == 4


@pytest.mark.parametrize(
    ("seconds", "workers"),
    [
        ([], 0),
        ([0.0], 1),
        ([2.0] * 4, 1),
        ([60.0, 60.0], 1),
        ([60.0, 61.0], 2),
        ([30.0] * 13, 4),
        ([5_000.0], 1),
        ([5_000.0, 1.0], 2),
        ([100.0] * 50, 4),
    ],
)
def test_a_further_worker_needs_two_more_minutes_of_work(seconds: list[float], workers: int) -> None:
    assert workers_worth(seconds, most=4) == workers


def test_more_workers_share_little_work_if_it_would_end_after_the_time_of_the_pass() -> None:
    assert workers_worth([30.0] * 4, most=4, within=timedelta(seconds=60)) == 2
    assert workers_worth([30.0] * 4, most=4, within=timedelta(seconds=30)) == 4


@pytest.mark.parametrize(
    "budget", [{"gb_hours": 0}, {"gb_hours": float("inf")}, {"tables": -1}, {"bytes": 0}, {"time": timedelta(0)}]
)
def test_a_budget_without_anything_in_it_is_refused(budget: dict[str, object]) -> None:
    with pytest.raises(InvalidBudget, match="or leave it out for no limit"):
        Budget(**budget)  # type: ignore[arg-type]


def test_a_budget_is_the_same_after_json() -> None:
    budget = Budget(gb_hours=12.5, tables=3, time=timedelta(hours=4))
    assert Budget.from_json(budget.to_json()) == budget


def test_a_budget_is_read_as_people_write_it() -> None:
    written = {"gb_hours": "12.5", "bytes": "500 GiB", "tables": 3, "time": "4h"}
    assert Budget.parse(written) == Budget(12.5, 500 * 1024**3, 3, timedelta(hours=4))
    assert Budget.parse({"tables": None}) == Budget()


@pytest.mark.parametrize(
    "limits", [{"hours": 3}, {"bytes": "many"}, {"time": 4}, {"tables": "a few"}, {"gb_hours": []}, {"gb_hours": "inf"}]
)
def test_a_limit_that_cannot_be_read_is_named(limits: dict[str, object]) -> None:
    with pytest.raises(SnowpackError, match=next(iter(limits))):
        Budget.parse(limits)


def random_cost(chance: random.Random) -> Estimate:
    gb_hours = chance.choice([0.1, chance.random() * 10, chance.expovariate(0.2)])
    return Estimate(bytes_rewritten=chance.randrange(1 << 40), gb_hours=gb_hours, seconds=chance.random() * 900)


def random_budget(chance: random.Random) -> Budget:
    limits: dict[str, object] = {
        "gb_hours": chance.random() * 40 + 0.01,
        "bytes": chance.randrange(1, 1 << 42),
        "tables": chance.randrange(1, 12),
        "time": timedelta(seconds=chance.randrange(1, 3_600)),
    }
    return Budget(**{name: limit for name, limit in limits.items() if chance.random() < 0.6})  # type: ignore[arg-type]


def assert_within(taken: list[PassEntry], budget: Budget, workers: int) -> None:
    costs = [each.estimate for each in taken]
    assert budget.gb_hours is None or sum(Fraction(cost.gb_hours) for cost in costs) <= Fraction(budget.gb_hours)
    assert budget.bytes is None or sum(cost.bytes_rewritten for cost in costs) <= budget.bytes
    assert budget.tables is None or len(costs) <= budget.tables
    if budget.time is not None:
        free = [0.0] * workers
        for cost in costs:  # as workers claim: in the order of the selection, the one that is free first
            free[free.index(min(free))] += cost.seconds
        assert max(free) <= budget.time.total_seconds()


def assert_nothing_took_the_place_of_a_late_table(
    taken: list[PassEntry], waiting: list[PassEntry], budget: Budget, workers: int, due_by: datetime
) -> None:
    late = [each for each in taken if each.deadline is not None and each.deadline <= due_by]
    for table in waiting:
        if table.deadline is None or table.deadline > due_by:
            continue
        earlier = [each for each in late if each.deadline is not None and each.deadline <= table.deadline]
        without_the_others = chosen([*earlier, table], budget, workers)
        assert table not in without_the_others, f"{table} fits beside those whose deadlines come before its own"


def test_each_table_that_the_budget_allows_is_reached_although_more_valuable_ones_arrive_each_night() -> None:
    chance = random.Random(effort.seed(19))
    for _ in range(FLEETS // 50):
        budget = random_budget(chance)
        waiting = [in_need(f"t{number}", random_cost(chance), saves=1) for number in range(chance.randrange(1, 10))]
        waiting = [each for each in waiting if budget.exceeded_by(each.estimate) is None]
        for night in range(len(waiting)):
            new = [in_need(f"new{night}_{number}", random_cost(chance), saves=10**9) for number in range(3 * night)]
            selection = select(rank([*new, *waiting], {}, due_by=NOW), budget)
            waiting = [replace(each, passes_waited=each.passes_waited + 1) for each, reason in selection if reason]
        assert not [each.table.table for each in waiting if each.files_saved == 1]


def test_over_random_fleets_no_budget_is_exceeded_and_no_late_table_waits_for_another() -> None:
    chance = random.Random(effort.seed(18))
    chosen_late = waited = 0
    for _ in range(FLEETS):
        workers, budget = chance.randrange(1, 5), random_budget(chance)
        fleet = [
            in_need(
                f"t{number}",
                random_cost(chance),
                saves=chance.randrange(1_000),
                deadline=chance.choice([None, NOW + chance.randrange(-3, 6) * NIGHT]),
                passes_waited=chance.choice([0, 0, 1, 3]),
            )
            for number in range(chance.randrange(1, 14))
        ]
        reads = {each.table: chance.choice([0.0, 1.0, 24.0]) for each in fleet}
        ranked = rank(fleet, reads, due_by=NOW + NIGHT)
        selection = list(select(ranked, budget, workers=workers))
        taken, waiting = ([each for each, reason in selection if (reason is None) == fits] for fits in (True, False))
        assert [each for each, _ in selection] == ranked
        assert_within(taken, budget, workers)
        assert_nothing_took_the_place_of_a_late_table(taken, waiting, budget, workers, NOW + NIGHT)
        allowed = [each for each in ranked if budget.exceeded_by(each.estimate) is None]
        assert not allowed or taken[0] == allowed[0], "the first table that the whole budget allows is chosen"
        waited += len(waiting)
        chosen_late += sum(each.deadline is not None and each.deadline <= NOW for each in taken)
    assert waited > FLEETS
    assert chosen_late > FLEETS / 4
