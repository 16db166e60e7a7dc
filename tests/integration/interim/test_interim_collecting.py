"""Tables go when nobody needs them any more, never earlier, and nothing is left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from interim_lake import RUN, InterimLake, ReportedRuns, holder

from airflow_snowpack.interim.collection.model import DagRunState, RunQuery
from airflow_snowpack.interim.errors import InterimTableGone


@pytest.mark.one_database
def test_a_table_stays_for_the_slowest_of_its_consumers(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    reported.finish("report")
    assert lake_of_tables.collect(reported).dropped == ()

    reported.finish("publish")
    assert len(lake_of_tables.collect(reported).dropped) == 1


def test_a_consumer_that_is_cleared_finds_the_table_that_was_there_for_another_one(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    reported.set("report", "failed")
    reported.set("publish", "running")
    lake_of_tables.collect(reported, later=timedelta(minutes=2))
    reported.set("report", None)  # cleared, it waits for a pool
    reported.finish("publish")
    assert lake_of_tables.collect(reported, later=timedelta(minutes=10)).dropped == ()
    assert lake_of_tables.collect(reported, later=timedelta(minutes=10), dry_run=True).dropped == ()

    lake_of_tables.registry.release(lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2)))
    reported.finish("report")
    assert len(lake_of_tables.collect(reported, later=timedelta(minutes=10)).dropped) == 1


def test_a_consumer_that_is_cleared_between_airflows_two_answers_keeps_what_all_its_siblings_had(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    reported.finish("report", "publish")

    class ClearedMeanwhile(ReportedRuns):
        def read(self, asked: Sequence[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
            answer = reported.read(asked)
            reported.set("report", None)
            return answer

    assert lake_of_tables.collect(ClearedMeanwhile()).dropped == ()
    (table,) = lake_of_tables.registry.tables()
    assert len(table.pins) == 2

    reported.finish("report")
    assert len(lake_of_tables.collect(reported, later=timedelta(minutes=10)).dropped) == 1


@pytest.mark.one_database
def test_a_mapped_consumer_is_finished_when_all_of_its_instances_are(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"])
    reported.set("report", "success", map_index=0)
    reported.set("report", "up_for_retry", map_index=1)
    assert lake_of_tables.collect(reported).dropped == ()

    reported.set("report", "success", map_index=1)
    assert len(lake_of_tables.collect(reported).dropped) == 1


@pytest.mark.one_database
def test_a_consumer_that_airflow_does_not_know_is_not_finished(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"])

    assert lake_of_tables.collect(reported).dropped == ()


@pytest.mark.one_database
def test_a_table_without_consumers_goes_at_once(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    lake_of_tables.handed_on("report")

    assert len(lake_of_tables.collect(reported).dropped) == 1


@pytest.mark.one_database
def test_two_runs_of_one_dag_have_tables_of_their_own(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    first = lake_of_tables.handed_on("clean", consumers=["report"])
    second = lake_of_tables.handed_on("clean", consumers=["report"], run_id="manual__2")
    reported.end(RUN)

    lake_of_tables.collect(reported)

    assert first.table != second.table
    assert lake_of_tables.tables() == {second.table}


@pytest.mark.one_database
def test_a_reader_of_a_dropped_table_gets_the_task_to_clear(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    reported.finish("report")
    lake_of_tables.collect(reported)

    with pytest.raises(InterimTableGone, match=r"Clear its producer too, the task 'clean' of the run 'manual__1'"):
        lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2))
