"""A pass in the store: begun once, planned once, resumed after a kill."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from clocks import MovedClock
from made_plans import made_plan

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry, PassState
from airflow_snowpack.maintenance.fleet.errors import PassNotFound, PassTakenOver
from airflow_snowpack.maintenance.fleet.model import PlannedTable
from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.maintenance.planning import Estimate

BUDGET = Budget(gb_hours=10, tables=5)
OWNER = "snowpack_maintain_fleet/scheduled__2026-11-23/plan"


def table(name: str) -> TableName:
    return TableName("lake", "demo", name, "c0ffee")


def entry(name: str, place: int = 0, state: EntryState = EntryState.CHOSEN) -> PassEntry:
    evidence = {"rewrite_data_files": "847 of 1,284 files are small", "expire_snapshots": "120 snapshots"}
    estimate = Estimate(files_removed=800, bytes_rewritten=1_000, gb_hours=1.5, seconds=60.0)
    return PassEntry(table(name), place, state, plan=made_plan(table(name), estimate, **evidence))


def begin(passes: FleetPasses, owner: str = OWNER, holder: str = "worker-1") -> Pass:
    return passes.begin(owner, "lake", "c0ffee", BUDGET, workers=4, holder=holder)


def test_a_plan_is_stored_with_the_evidence_and_the_cost_of_each_table(passes: FleetPasses) -> None:
    planning = begin(passes)
    planned = passes.plan(planning, [entry("b", 1), entry("a", 0)], [PlannedTable(table("a"), "m1", "p1", True)], {"listed": 7})

    assert planned == passes.get(planned.pass_id)
    assert (planned.state, planned.budget, planned.workers, planned.counts) == (PassState.RUNNING, BUDGET, 4, {"listed": 7})
    assert list(passes.entries(planned.pass_id)) == [entry("a", 0), entry("b", 1)]
    assert passes.entries(planned.pass_id)[0].evidence.keys() == {"rewrite_data_files", "expire_snapshots"}
    assert passes.last_plans("lake", "c0ffee")[table("a").lock_key].metadata_location == "m1"


def test_the_retry_of_a_planning_task_takes_the_pass_over_and_the_process_before_writes_nothing(passes: FleetPasses) -> None:
    first = begin(passes)
    second = begin(passes, holder="worker-2")

    assert second.pass_id == first.pass_id
    assert not passes.renew(first)
    with pytest.raises(PassTakenOver, match="Another process has taken over the planning"):
        passes.plan(first, [entry("a")], [], {})
    assert passes.entries(first.pass_id) == []
    passes.plan(second, [entry("b")], [], {})
    assert [each.table for each in passes.entries(first.pass_id)] == [table("b")]


def test_a_planned_pass_is_resumed_as_it_is(passes: FleetPasses) -> None:
    planned = passes.plan(begin(passes), [entry("a")], [], {})
    assert begin(passes, holder="worker-2") == planned


def test_processes_that_begin_the_same_pass_at_once_get_one_pass(passes: FleetPasses) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: begin(passes, holder=f"worker-{number}"), range(4)))
    assert len({each.pass_id for each in found}) == 1
    assert sum(passes.renew(each) for each in found) == 1


def test_another_owner_begins_another_pass(passes: FleetPasses) -> None:
    begin(passes)
    assert begin(passes, owner="cli/2").state is PassState.PLANNING
    assert len(passes.open("lake", "c0ffee")) == 2
    assert passes.open("lake", "another catalog") == []


@pytest.mark.one_database
def test_the_next_pass_of_a_dag_is_expected_after_as_long_as_the_last_one_of_that_dag(
    passes: FleetPasses, clock: MovedClock
) -> None:
    """Neither a pass that a person starts shortly before, nor one of a cleared run, moves the deadlines that count."""
    first, night = clock.now, timedelta(hours=23)
    begin(passes)
    clock.move(night)
    begin(passes, "command-1/run")
    begin(passes, OWNER.replace("fleet", "fleet_2"))
    clock.move(timedelta(minutes=1))
    second = begin(passes, OWNER.replace("11-23", "11-24"))
    assert passes.previous(second) == first


@pytest.mark.one_database
def test_an_unknown_pass_is_named(passes: FleetPasses) -> None:
    with pytest.raises(PassNotFound, match="There is no pass f00"):
        passes.get("f00")
