"""Who reads a table, or is going to, keeps it; a reader that died does so no longer than it has to."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from clocks import MovedClock
from interim_lake import LAKE, RUN, InterimLake, ReportedRuns, holder, table_named

from airflow_snowpack.interim.errors import InterimTableInUse, InvalidInterimRef
from airflow_snowpack.interim.explanation import explain
from airflow_snowpack.interim.handover import TableHandover
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.registry import Output
from airflow_snowpack.preservation import Preservation


@pytest.mark.one_database
def test_a_consumer_that_fails_and_tries_again_finds_its_input(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    for try_number in (1, 2):
        reading = lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=try_number))
        lake_of_tables.registry.release(reading)
        reported.set("report", "up_for_retry")
        assert lake_of_tables.collect(reported).dropped == ()

    lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=3))


@pytest.mark.one_database
def test_a_view_needs_the_table_below_it(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean")
    reading = lake_of_tables.registry.consume([ref.where("id > 1"), ref.limit(1)], attempt=holder("report"))

    assert reading.tables == (ref,)
    assert lake_of_tables.collect(reported, later=timedelta(minutes=5)).dropped == ()


@pytest.mark.one_database
def test_what_is_read_is_what_is_on_record_whatever_the_reference_contains(lake_of_tables: InterimLake) -> None:
    ref, other = lake_of_tables.handed_on("clean", with_rows=True), lake_of_tables.handed_on("ingest")
    strange = replace(ref, snapshot_id=7, rows=None, producer=other.producer)

    assert lake_of_tables.registry.consume([strange.limit(1), other], attempt=holder("report")).tables == (ref, other)


@pytest.mark.one_database
def test_a_task_reads_the_committed_snapshot_whatever_the_reference_contains(lake_of_tables: InterimLake) -> None:
    ref = lake_of_tables.handed_on("clean", with_rows=True)
    catalog = lake_of_tables.catalog
    catalog.load_table(ref.table.partition(".")[2]).append(lake_of_tables.rows())
    strange = replace(ref, snapshot_id=None, rows=6)

    with TableHandover(lake_of_tables.registry, lambda: catalog, holder("report"), catalog_name=LAKE, consumers=[]) as handover:
        assert handover.read_arrow(strange).num_rows == 3
        assert handover.read_arrow(strange.limit(2)).num_rows == 2
        assert handover.recorded(strange.limit(1)) == ref.limit(1)


@pytest.mark.one_database
def test_a_reference_with_the_name_of_another_table_is_refused(lake_of_tables: InterimLake) -> None:
    ref, other = lake_of_tables.handed_on("clean"), lake_of_tables.handed_on("ingest")
    for name in ("lake.hr.salaries", other.table):
        forged = replace(ref, table=name)
        with pytest.raises(InvalidInterimRef, match=rf"it names '{name}', but the table on record under its id is '{ref.table}'"):
            lake_of_tables.registry.consume([other, forged], attempt=holder("report"))
        with pytest.raises(InvalidInterimRef):
            lake_of_tables.registry.pin_on([forged], consumers=["report"], attempt=holder("choose"))
    assert [table.readers for table in lake_of_tables.registry.tables()] == [0, 0]


@pytest.mark.one_database
@pytest.mark.parametrize("state", [None, "running", "up_for_retry"])
def test_a_silent_reader_keeps_its_table_while_airflow_reports_it_as_running(
    lake_of_tables: InterimLake, reported: ReportedRuns, state: str | None
) -> None:
    ref = lake_of_tables.handed_on("clean")
    lake_of_tables.registry.consume([ref], attempt=holder("report"))
    reported.set("report", state)

    assert lake_of_tables.collect(reported).dropped == ()


def test_a_dead_readers_table_goes_when_its_lease_has_expired_and_airflow_confirms(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean")
    reading = lake_of_tables.registry.consume([ref], attempt=holder("report"))
    reported.set("report", "failed")

    assert lake_of_tables.collect(reported, later=timedelta(minutes=5)).dropped == ()
    assert len(lake_of_tables.collect(reported).dropped) == 1
    assert not lake_of_tables.registry.heartbeat(reading)
    assert not lake_of_tables.registry.release(reading)


def test_a_reader_that_misses_its_heartbeats_is_no_longer_reported_as_reading_and_still_keeps_its_table(
    lake_of_tables: InterimLake, clock: MovedClock
) -> None:
    ref = lake_of_tables.handed_on("clean")
    reading = lake_of_tables.registry.consume([ref], attempt=holder("report"))

    def reported() -> tuple[int, int]:
        table = lake_of_tables.registry.table(ref.table_id)
        return table.readers, table.silent_readers

    assert reported() == (1, 0)
    clock.move(timedelta(minutes=4))
    assert reported() == (0, 1)
    assert "A task that was reading it has missed several heartbeats" in str(
        explain(lake_of_tables.registry.table(ref.table_id), clock()).sentence
    )
    with pytest.raises(InterimTableInUse):
        lake_of_tables.registry.drop(ref.table_id)
    lake_of_tables.registry.heartbeat(reading)
    assert reported() == (1, 0), "it was only cut off for a while"
    clock.move(timedelta(hours=1))
    assert reported() == (0, 1)


@pytest.mark.one_database
def test_a_mapped_reader_keeps_its_tables_until_all_of_its_instances_have_ended(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    refs = [lake_of_tables.handed_on("clean", output=str(number)) for number in range(2)]
    for number, ref in enumerate(refs):
        lake_of_tables.registry.consume([ref], attempt=holder("report", map_index=number))
    reported.set("report", "failed", map_index=0)
    reported.set("report", "up_for_retry", map_index=1)
    assert lake_of_tables.collect(reported).dropped == ()

    reported.set("report", "failed", map_index=1)
    assert len(lake_of_tables.collect(reported).dropped) == 2


def test_a_consumer_that_was_cleared_after_it_had_finished_keeps_its_input_between_its_tries(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report", "publish"])
    reported.finish("report")
    lake_of_tables.collect(reported)

    reading = lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2))
    lake_of_tables.registry.release(reading)
    reported.set("report", "up_for_retry")
    reported.finish("publish")
    assert lake_of_tables.collect(reported).dropped == ()

    reported.finish("report")
    assert len(lake_of_tables.collect(reported).dropped) == 1


@pytest.mark.one_database
def test_a_dead_reader_in_a_run_that_is_over_keeps_nothing_although_its_task_was_cleared_without_it(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    lake_of_tables.registry.consume([ref], attempt=holder("report"))
    reported.set("report", None)
    reported.end()

    assert len(lake_of_tables.collect(reported).dropped) == 1


@pytest.mark.one_database
def test_a_preserved_table_is_checked_again_when_a_task_reads_it(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", preservation=Preservation.FULL)
    reported.end()
    lake_of_tables.collect(reported)
    assert lake_of_tables.registry.table(ref.table_id).check_at is None

    lake_of_tables.registry.consume([ref], attempt=holder("report", try_number=2))
    lake_of_tables.collect(reported)

    assert lake_of_tables.registry.table(ref.table_id).readers == 0, "its reader is dead"
    lake_of_tables.registry.drop(ref.table_id)


def test_a_reader_of_another_run_keeps_the_table_when_its_own_run_is_over(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    reading = lake_of_tables.registry.consume([ref], attempt=holder("audit", run_id="manual__2"))
    reported.end(RUN)
    assert lake_of_tables.collect(reported, later=timedelta(minutes=5)).dropped == ()

    reported.set("audit", "failed", run_id="manual__2")
    assert len(lake_of_tables.collect(reported).dropped) == 1, "the other run wakes the table's own"
    assert not lake_of_tables.registry.heartbeat(reading)


def test_a_stale_attempt_does_not_move_a_name(lake_of_tables: InterimLake) -> None:
    zombie = lake_of_tables.begun("clean", name="features", scope=Scope.GLOBAL)
    ref = lake_of_tables.named("features", try_number=2)

    with pytest.raises(Exception, match="taken over"):
        lake_of_tables.registry.commit(Output(zombie, 1, 1), consumers=())
    assert table_named(lake_of_tables.registry, "features") == ref
