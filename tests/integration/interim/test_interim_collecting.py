"""Tables go when nobody needs them any more, never earlier, and nothing is left over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from interim_lake import RUN, ToldRuns, holder

from airflow_snowpack.interim.errors import InterimTableGone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interim_lake import InterimLake

    from airflow_snowpack.interim.collection.model import DagRunState, RunQuery


@pytest.mark.one_database
def test_a_table_stays_for_the_slowest_of_its_consumers(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    told.finish("report")
    assert lake_of_tables.collect(told).dropped == ()

    told.finish("publish")
    assert len(lake_of_tables.collect(told).dropped) == 1


def test_a_consumer_that_is_cleared_finds_the_table_that_was_there_for_another_one(
    lake_of_tables: InterimLake, told: ToldRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    told.says("report", "failed")
    told.says("publish", "running")
    lake_of_tables.collect(told, later=timedelta(minutes=2))
    told.says("report", None)  # cleared, it waits for a pool
    told.finish("publish")
    assert lake_of_tables.collect(told, later=timedelta(minutes=10)).dropped == ()
    assert lake_of_tables.collect(told, later=timedelta(minutes=10), dry_run=True).dropped == ()

    lake_of_tables.registry.release(lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2)))
    told.finish("report")
    assert len(lake_of_tables.collect(told, later=timedelta(minutes=10)).dropped) == 1


def test_a_consumer_that_is_cleared_between_airflows_two_answers_keeps_what_all_its_siblings_had(
    lake_of_tables: InterimLake, told: ToldRuns
) -> None:
    lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    told.finish("report", "publish")

    class ClearedMeanwhile(ToldRuns):
        def read(self, asked: Sequence[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
            answer = told.read(asked)
            told.says("report", None)
            return answer

    assert lake_of_tables.collect(ClearedMeanwhile()).dropped == ()
    (table,) = lake_of_tables.registry.tables()
    assert len(table.pins) == 2

    told.finish("report")
    assert len(lake_of_tables.collect(told, later=timedelta(minutes=10)).dropped) == 1


@pytest.mark.one_database
def test_a_mapped_consumer_is_finished_when_all_of_its_instances_are(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"])
    told.says("report", "success", map_index=0)
    told.says("report", "up_for_retry", map_index=1)
    assert lake_of_tables.collect(told).dropped == ()

    told.says("report", "success", map_index=1)
    assert len(lake_of_tables.collect(told).dropped) == 1


@pytest.mark.one_database
def test_a_consumer_that_airflow_does_not_know_is_not_finished(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"])

    assert lake_of_tables.collect(told).dropped == ()


@pytest.mark.one_database
def test_a_table_without_consumers_goes_at_once(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    lake_of_tables.handed_on("report")

    assert len(lake_of_tables.collect(told).dropped) == 1


@pytest.mark.one_database
def test_two_runs_of_one_dag_have_tables_of_their_own(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    first = lake_of_tables.handed_on("clean", consumers=["report"])
    second = lake_of_tables.handed_on("clean", consumers=["report"], run_id="manual__2")
    told.end(RUN)

    lake_of_tables.collect(told)

    assert first.table != second.table
    assert lake_of_tables.tables() == {second.table}


@pytest.mark.one_database
def test_who_reads_a_dropped_table_hears_which_task_to_clear(lake_of_tables: InterimLake, told: ToldRuns) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    told.finish("report")
    lake_of_tables.collect(told)

    with pytest.raises(InterimTableGone, match=r"Clear its producer too, the task 'clean' of the run 'manual__1'"):
        lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2))
