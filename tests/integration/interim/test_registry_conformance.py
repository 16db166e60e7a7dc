"""Every operation of the registry of interim tables and of their collector, on SQLite and on Postgres.

What does not depend on the database (what Airflow's answers mean, what a message says) is tested on SQLite alone, in the other
files of this folder.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from clocks import MovedClock
from interim_lake import DAG, RUN, InterimLake, ReportedRuns, holder, table_named

from airflow_snowpack.interim.collection import collector_store
from airflow_snowpack.interim.collection.model import RunPhase
from airflow_snowpack.interim.errors import InterimTableGone, InterimTableInUse, InterimTableNotFound, InterimTableNotStuck
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.interim.names import Producer, Scope
from airflow_snowpack.interim.refs import read_ref
from airflow_snowpack.interim.registry import Output, audit_subject
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Actor, AuditTrail

DAY = timedelta(days=1)


# -- handing on ------------------------------------------------------------------------------------------------------------


def test_a_committed_table_is_the_reference_that_the_xcom_carries(lake_of_tables: InterimLake) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report", "report", "publish"])

    assert read_ref(ref.to_json()) == ref
    assert (ref.rows, ref.producer) == (0, Producer(DAG, RUN, "clean"))
    table = lake_of_tables.registry.table(ref.table_id)
    assert table.pins == (f"{DAG}/{RUN}/publish", f"{DAG}/{RUN}/report")
    assert table.ref == ref


def test_tables_that_are_committed_together_have_their_pins_names_and_lineage(lake_of_tables: InterimLake) -> None:
    registry = lake_of_tables.registry
    writings = [lake_of_tables.begun("split", output=each, name=f"the_{each}") for each in ("rows", "rejects", "rest")]

    refs = registry.commit(*(Output(each, 1, 3) for each in writings), consumers=["report", "publish"])

    assert [ref.table for ref in refs] == [str(each.table) for each in writings]
    tables = [registry.table(ref.table_id) for ref in refs]
    assert {(table.state, len(table.pins), table.is_named) for table in tables} == {(TableState.READY, 2, True)}
    assert all(OperationLog(registry.store).knows(ref.table) for ref in refs)
    assert registry.commit(consumers=["report"]) == []


def test_what_is_abandoned_goes_at_the_next_pass(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    writing = lake_of_tables.begun("clean")
    lake_of_tables.create(writing)

    assert lake_of_tables.registry.abandon(writing, "the task failed")
    assert not lake_of_tables.registry.abandon(writing, "again")
    assert len(lake_of_tables.collect(reported, later=timedelta(seconds=1)).dropped) == 1
    assert lake_of_tables.tables() == set()


def test_a_table_is_found_by_its_id_or_name_and_nothing_by_others(lake_of_tables: InterimLake) -> None:
    ref = lake_of_tables.handed_on("clean")
    own_name = ref.table.rpartition(".")[2]

    found = {lake_of_tables.registry.table(asked).table_id for asked in (ref.table_id, ref.table, own_name)}

    assert found == {ref.table_id}
    for unknown in ("nothing", f"other.snowpack_interim.{own_name}", "\x00"):
        with pytest.raises(InterimTableNotFound):
            lake_of_tables.registry.table(unknown)


def test_the_list_goes_on_where_the_page_before_ended(lake_of_tables: InterimLake, clock: MovedClock) -> None:
    made = []
    for number in range(5):
        clock.move(timedelta(seconds=number // 2))
        made.append(lake_of_tables.begun(f"task{number}").table_id)

    first = lake_of_tables.registry.page(limit=3, dag_id=DAG)
    rest = lake_of_tables.registry.page(limit=3, after=first.next)

    assert sorted(table.table_id for table in first.items + rest.items) == sorted(made)
    assert rest.next is None


# -- reading, pins and names -----------------------------------------------------------------------------------------------


def test_a_table_that_is_being_read_stays_although_its_consumer_was_marked_as_finished(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    reading = lake_of_tables.registry.consume([ref], attempt=holder("report"))
    reported.finish("report")

    assert lake_of_tables.collect(reported, later=timedelta(minutes=5)).dropped == ()
    assert lake_of_tables.registry.release(reading)
    assert len(lake_of_tables.collect(reported, later=timedelta(seconds=5)).dropped) == 1


def test_a_task_reads_all_of_its_inputs_or_none(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    gone = lake_of_tables.handed_on("ingest")
    lake_of_tables.collect(reported)
    there = lake_of_tables.handed_on("clean", consumers=["report"])

    with pytest.raises(InterimTableGone, match=r"the task 'ingest'"):
        lake_of_tables.registry.consume([there, gone], attempt=holder("report"))
    assert lake_of_tables.registry.table(there.table_id).readers == 0


def test_a_reader_that_beats_keeps_its_table(lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock) -> None:
    ref = lake_of_tables.handed_on("clean")
    reading = lake_of_tables.registry.consume([ref], attempt=holder("report"))
    reported.set("report", "failed")
    for _ in range(3):
        clock.move(timedelta(minutes=9))
        assert lake_of_tables.registry.heartbeat(reading)

    assert lake_of_tables.collect(reported, later=timedelta(minutes=9)).dropped == ()


def test_a_task_that_passes_on_a_table_keeps_it_for_its_own_consumers(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["choose"])
    lake_of_tables.registry.pin_on([ref.select("id")], consumers=["report"], attempt=holder("choose"))
    reported.finish("choose")
    assert lake_of_tables.collect(reported).dropped == ()

    reported.finish("report")
    assert len(lake_of_tables.collect(reported).dropped) == 1
    with pytest.raises(InterimTableGone):
        lake_of_tables.registry.pin_on([ref], consumers=["report"], attempt=holder("choose"))


def test_a_name_of_a_run_is_known_in_that_run_only_and_until_it_is_over(
    lake_of_tables: InterimLake, reported: ReportedRuns
) -> None:
    ref = lake_of_tables.named("features", scope=Scope.RUN)
    assert table_named(lake_of_tables.registry, "features", scope=Scope.RUN, dag_id=DAG, run_id=RUN) == ref
    assert table_named(lake_of_tables.registry, "features", scope=Scope.RUN, dag_id=DAG, run_id="manual__2") is None
    with pytest.raises(InterimTableNotFound, match=r"'features' in the run flights/manual__2"):
        lake_of_tables.registry.consume_named("features", attempt=holder("report", run_id="manual__2"))
    assert lake_of_tables.collect(reported).dropped == ()

    reported.end()
    assert len(lake_of_tables.collect(reported).dropped) == 1


def test_a_global_name_points_to_the_table_committed_last(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    first = lake_of_tables.named("features")
    reading = lake_of_tables.registry.consume_named("features", scope=Scope.GLOBAL, attempt=holder("report", run_id="manual__9"))
    second = lake_of_tables.named("features", run_id="manual__2")
    reported.end()
    reported.end("manual__2")

    assert reading.tables == (first,)
    assert table_named(lake_of_tables.registry, "features") == second
    assert lake_of_tables.collect(reported, later=timedelta(minutes=5)).dropped == (), "what is read stays as it was read"
    lake_of_tables.registry.release(reading)
    reported.finish("report", run_id="manual__9")
    lake_of_tables.collect(reported)
    assert lake_of_tables.tables() == {second.table}


# -- the collector ---------------------------------------------------------------------------------------------------------


def test_a_table_goes_when_its_consumer_is_finished_for_good(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])

    for unfinished in (None, "running", "up_for_retry"):
        reported.set("report", unfinished)
        assert lake_of_tables.collect(reported).dropped == ()
    reported.finish("report")

    assert [str(doomed.table) for doomed in lake_of_tables.collect(reported).dropped] == [ref.table]
    assert lake_of_tables.tables() == set()
    assert lake_of_tables.registry.tables() == []


def test_any_number_of_consumers_is_released(
    lake_of_tables: InterimLake, reported: ReportedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement can name only so many."""
    monkeypatch.setattr(collector_store, "VALUES_PER_STATEMENT", 2)
    consumers = [f"task{number}" for number in range(5)]
    for run_id in (RUN, "manual__2"):
        lake_of_tables.handed_on("clean", consumers=consumers, run_id=run_id)
    reported.finish(*consumers)
    reported.finish(*consumers[1:], run_id="manual__2")

    assert [doomed.producer.run_id for doomed in lake_of_tables.collect(reported).dropped] == [RUN]
    (left,) = lake_of_tables.registry.tables()
    assert len(left.pins) == 5, "as long as one consumer needs it, it is there for the others too"


@pytest.mark.parametrize("phase", [RunPhase.OVER, RunPhase.GONE])
def test_the_end_of_a_run_ends_every_need_of_it(lake_of_tables: InterimLake, reported: ReportedRuns, phase: RunPhase) -> None:
    lake_of_tables.handed_on("clean", consumers=["report"])
    reported.end(phase=phase)

    assert len(lake_of_tables.collect(reported).dropped) == 1
    assert lake_of_tables.collect(reported).runs == 0


def test_a_nudge_is_heeded_at_once(lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    for _ in range(8):
        lake_of_tables.collect(reported)
    reported.finish("report")
    assert lake_of_tables.collect(reported, later=timedelta(seconds=1)).runs == 0

    assert lake_of_tables.registry.nudge(ref.producer.dag_id, ref.producer.run_id)
    assert not lake_of_tables.registry.nudge("unknown", "run")
    assert len(lake_of_tables.collect(reported, later=timedelta(0)).dropped) == 1


def test_only_what_no_collector_could_drop_is_forgotten_and_never_under_one_that_is_at_it(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    registry = lake_of_tables.registry
    ref = lake_of_tables.handed_on("clean", with_rows=True)
    with pytest.raises(InterimTableNotStuck, match="no drop of it has failed yet"):
        registry.forget(ref.table_id)
    clock.move(timedelta(hours=1))
    collector = lake_of_tables.collector(reported)
    [doomed] = collector._collector_store.settle(collector._due.take(10), {}, 10)
    collector._collector_store.failed(doomed, "the catalog is gone")
    clock.move(timedelta(minutes=1))
    [again] = collector._collector_store.take(10)
    with pytest.raises(InterimTableNotStuck, match="a collector is dropping it now"):
        registry.forget(ref.table_id)
    clock.move(timedelta(hours=1))  # that one is dead

    assert registry.forget(ref.table_id).error == "the catalog is gone"
    collector._collector_store.failed(again, "too late")
    with pytest.raises(InterimTableNotFound):
        registry.table(ref.table_id)
    assert ref.table.removeprefix("lake.") in {".".join(name) for name in lake_of_tables.catalog.list_tables("snowpack_interim")}
    reported.end()
    assert (lake_of_tables.collect(reported).runs, lake_of_tables.collect(reported).runs) == (1, 0), "its run goes as well"


def test_a_dry_run_returns_what_would_be_dropped_and_changes_nothing(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"])
    given_up = lake_of_tables.begun("slow")
    lake_of_tables.registry.abandon(given_up, "no")
    reported.finish("report")

    foreseen = lake_of_tables.collect(reported, dry_run=True)

    assert {str(doomed.table) for doomed in foreseen.dropped} == {ref.table, str(given_up.table)}
    assert lake_of_tables.registry.table(ref.table_id).pins == (f"{DAG}/{RUN}/report",)
    assert len(lake_of_tables.collect(reported, later=timedelta(0)).dropped) == 2


def test_a_limit_leaves_the_rest_to_later_passes(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    for number in range(5):
        lake_of_tables.handed_on(f"task{number}")

    dropped = [len(lake_of_tables.collect(reported, limit=2).dropped) for _ in range(4)]

    assert dropped == [2, 2, 1, 0]


# -- preserving and letting go ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [RunPhase.OVER, RunPhase.GONE])
def test_a_preserved_table_outlives_its_run_and_costs_no_look_any_more(
    lake_of_tables: InterimLake, reported: ReportedRuns, phase: RunPhase
) -> None:
    ref = lake_of_tables.handed_on("clean", consumers=["report"], preservation=Preservation.FULL)
    reported.end(phase=phase)
    assert lake_of_tables.collect(reported).kept == 1

    assert lake_of_tables.collect(reported, later=100 * DAY).runs == 0
    assert lake_of_tables.tables() == {ref.table}


def test_a_preserved_table_that_is_dropped_by_hand_goes_next(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    ref = lake_of_tables.handed_on("clean", preservation=Preservation.FULL)
    reported.end()
    lake_of_tables.collect(reported)
    registry = lake_of_tables.registry

    table = registry.drop(ref.table_id, actor=Actor("vera", via="cli"))

    [entry] = AuditTrail(registry.store).of(audit_subject(ref.table_id))
    assert (table.state, entry.change, entry.actor) == (TableState.DROPPING, "drop_interim", "vera")
    assert len(lake_of_tables.collect(reported, later=timedelta(0)).dropped) == 1
    assert lake_of_tables.registry.tables() == []
    assert lake_of_tables.collect(reported).runs == 0, "its run is forgotten"


def test_a_table_that_is_needed_is_not_dropped_by_hand(lake_of_tables: InterimLake) -> None:
    pinned = lake_of_tables.handed_on("clean", consumers=["report"])
    read = lake_of_tables.handed_on("ingest")
    lake_of_tables.registry.consume([read], attempt=holder("report"))
    being_made = lake_of_tables.begun("slow")

    for table_id, why in (
        (pinned.table_id, "needed by flights/manual__1/report"),
        (read.table_id, "needed by flights/manual__1/report"),
        (being_made.table_id, "needed by flights/manual__1/slow"),
    ):
        with pytest.raises(InterimTableInUse, match=why):
            lake_of_tables.registry.drop(table_id)
    with pytest.raises(InterimTableNotFound):
        lake_of_tables.registry.drop("nothing")
