"""What is preserved, or has a global name, outlives its run until its time is over or somebody lets go of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from interim_lake import holder

from airflow_snowpack.interim.errors import InterimTableInUse, InterimTableNotFound
from airflow_snowpack.interim.model import Scope, TableState
from airflow_snowpack.interim.run_states import RunPhase
from airflow_snowpack.preservation import Preservation

if TYPE_CHECKING:
    from interim_lake import InterimLake, ToldRuns

DAY = timedelta(days=1)


@pytest.mark.parametrize("phase", [RunPhase.OVER, RunPhase.GONE])
def test_a_preserved_table_outlives_its_run_and_costs_no_look_any_more(
    lake_of_tables: InterimLake, told: ToldRuns, phase: RunPhase
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"], preservation=Preservation.FULL)
    told.end(phase=phase)
    assert lake_of_tables.collect(told).kept == 1

    assert lake_of_tables.collect(told, later=100 * DAY).runs == 0
    assert lake_of_tables.tables() == {ref.table}


def test_preservation_ends_with_its_time_to_live(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("clean", preservation=Preservation.FULL, ttl=7 * DAY)
    told.end()
    assert lake_of_tables.collect(told, later=6 * DAY).dropped == ()

    assert len(lake_of_tables.collect(told, later=DAY).dropped) == 1


def test_a_preserved_table_that_is_needed_stays_when_its_time_is_over(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"], preservation=Preservation.FULL, ttl=DAY)

    assert lake_of_tables.collect(told, later=3 * DAY).dropped == ()


def test_a_global_name_ends_with_its_time_to_live(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.named("features", ttl=7 * DAY)
    told.end()
    assert lake_of_tables.collect(told, later=6 * DAY).dropped == ()

    assert len(lake_of_tables.collect(told, later=DAY).dropped) == 1
    with pytest.raises(InterimTableNotFound, match=r"'features'"):
        lake_of_tables.registry.named("features", scope=Scope.GLOBAL)


def test_a_preserved_table_that_somebody_lets_go_of_goes_next(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    ref = lake_of_tables.handed_on("clean", preservation=Preservation.FULL)
    told.end()
    lake_of_tables.collect(told)
    noted: list[str] = []

    table = lake_of_tables.registry.discard(ref.table_id, also=lambda _: noted.append("audit"))

    assert (table.state, noted) == (TableState.READY, ["audit"])
    assert len(lake_of_tables.collect(told, later=timedelta(0)).dropped) == 1
    assert lake_of_tables.registry.tables() == []
    assert lake_of_tables.collect(told).runs == 0, "its run is forgotten"


def test_nobody_lets_go_of_what_others_need(lake_of_tables: InterimLake) -> None:
    pinned = lake_of_tables.handed_on("clean", consumers=["report"])
    read = lake_of_tables.handed_on("ingest")
    lake_of_tables.registry.consume([read], holder=holder("report"))
    being_made = lake_of_tables.begun("slow")

    for table_id, why in (
        (pinned.table_id, "needed by flights/manual__1/report"),
        (read.table_id, "needed by flights/manual__1/report"),
        (being_made.table_id, "needed by flights/manual__1/slow"),
    ):
        with pytest.raises(InterimTableInUse, match=why):
            lake_of_tables.registry.discard(table_id)
    with pytest.raises(InterimTableNotFound):
        lake_of_tables.registry.discard("nothing")
