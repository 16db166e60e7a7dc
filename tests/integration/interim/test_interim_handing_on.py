"""Only one attempt hands an output on, and what was handed on never changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from interim_lake import LAKE, InterimLake, ReportedRuns, holder, new_catalog, table_named

from airflow_snowpack.interim.errors import InvalidInterimTable, StaleInterimAttempt
from airflow_snowpack.interim.handover import TableHandover
from airflow_snowpack.interim.model import OutputOptions, TableState, Writing
from airflow_snowpack.interim.names import Scope, is_ours
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.lineage.graph import Direction, Lineage
from airflow_snowpack.lineage.operation import TableAt
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.interim import interim_slots

T = TypeVar("T")


@pytest.mark.one_database
def test_a_table_is_on_record_before_it_exists(lake_of_tables: InterimLake) -> None:
    writing = lake_of_tables.begun("clean")

    [table] = lake_of_tables.registry.tables()
    assert (table.state, table.table, lake_of_tables.tables()) == (TableState.WRITING, writing.table, set())
    assert is_ours(table.table.table)


def test_the_late_write_of_a_zombie_reaches_nothing_that_its_successor_committed(lake_of_tables: InterimLake) -> None:
    zombie = lake_of_tables.begun("clean", try_number=1)
    ref = lake_of_tables.handed_on("clean", try_number=2, consumers=["report"])

    assert not lake_of_tables.registry.heartbeat(zombie)
    snapshot_id = lake_of_tables.create(zombie)
    with pytest.raises(StaleInterimAttempt, match=r"the output flights/manual__1/clean/return_value"):
        lake_of_tables.registry.commit(Output(zombie, snapshot_id, 3), consumers=["report"])
    assert str(zombie.table) != ref.table
    assert lake_of_tables.registry.table(ref.table_id).ref == ref


def test_a_try_that_wakes_up_after_a_later_one_has_begun_may_not_begin(lake_of_tables: InterimLake) -> None:
    later = lake_of_tables.begun("clean", try_number=2)

    with pytest.raises(StaleInterimAttempt):
        lake_of_tables.begun("clean", try_number=1)
    assert lake_of_tables.registry.heartbeat(later)


def test_a_run_that_was_deleted_and_made_again_begins_at_its_first_try(lake_of_tables: InterimLake, clock: MovedClock) -> None:
    registry, first_life = lake_of_tables.registry, clock.now
    zombie = lake_of_tables.begun("clean", try_number=3, started_at=first_life)

    ref = lake_of_tables.handed_on("clean", try_number=1, started_at=first_life + timedelta(minutes=2), consumers=["report"])

    assert not registry.heartbeat(zombie)
    with pytest.raises(StaleInterimAttempt):
        registry.commit(Output(zombie, 1, 1), consumers=["report"])
    with pytest.raises(StaleInterimAttempt):
        lake_of_tables.begun("clean", try_number=3, started_at=first_life)
    assert registry.table(ref.table_id).ref == ref


def test_a_try_of_the_first_life_does_not_keep_the_second_from_trying_again(
    lake_of_tables: InterimLake, clock: MovedClock
) -> None:
    for hour, try_number in enumerate((1, 2, 1, 2, 3)):  # retried, made again, retried, cleared
        writing = lake_of_tables.begun("clean", try_number=try_number, started_at=clock.now + timedelta(hours=hour))

    assert lake_of_tables.registry.heartbeat(writing)


def test_a_later_try_counts_also_where_its_workers_clock_is_behind(lake_of_tables: InterimLake, clock: MovedClock) -> None:
    lake_of_tables.begun("clean", try_number=1, started_at=clock.now)
    later = lake_of_tables.begun("clean", try_number=2, started_at=clock.now - timedelta(seconds=50))
    with pytest.raises(StaleInterimAttempt):
        lake_of_tables.begun("clean", try_number=1, started_at=clock.now)

    assert lake_of_tables.registry.heartbeat(later)


def test_an_attempt_that_goes_on_in_another_process_keeps_its_slot(lake_of_tables: InterimLake, clock: MovedClock) -> None:
    lake_of_tables.begun("clean", started_at=clock.now)
    resumed = lake_of_tables.begun("clean", started_at=clock.now)

    assert lake_of_tables.registry.heartbeat(resumed)


def test_a_slot_from_before_the_start_of_attempts_was_kept_is_anybodys(lake_of_tables: InterimLake) -> None:
    lake_of_tables.begun("clean", try_number=2)
    lake_of_tables.registry.store.transact(lambda conn: conn.execute(sa.update(interim_slots).values(started_at=None)))

    assert lake_of_tables.registry.heartbeat(lake_of_tables.begun("clean", try_number=1))


def test_the_outputs_of_a_task_do_not_supersede_each_other(lake_of_tables: InterimLake) -> None:
    first = lake_of_tables.begun("split", output="rows")
    second = lake_of_tables.begun("split", output="rejects")

    assert all(lake_of_tables.registry.heartbeat(writing) for writing in (first, second))


def test_a_superseded_table_goes_when_the_old_attempts_lease_is_over(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    zombie = lake_of_tables.begun("clean", try_number=1)
    lake_of_tables.create(zombie)
    ref = lake_of_tables.handed_on("clean", try_number=2, consumers=["report"])

    assert lake_of_tables.collect(reported, later=timedelta(minutes=2)).dropped == ()
    assert [doomed.table for doomed in lake_of_tables.collect(reported).dropped] == [zombie.table]
    assert lake_of_tables.tables() == {ref.table}


@pytest.mark.one_database
def test_a_dead_attempts_table_stays_until_airflow_reports_its_end(lake_of_tables: InterimLake, reported: ReportedRuns) -> None:
    dead = lake_of_tables.begun("clean")
    for going_on in ("running", "up_for_retry", "queued"):
        reported.set("clean", going_on)
        assert lake_of_tables.collect(reported).dropped == ()
    reported.set("clean", "failed")

    assert [doomed.table for doomed in lake_of_tables.collect(reported).dropped] == [dead.table]


def test_an_attempt_with_a_heartbeat_is_not_dead_whatever_airflow_reports(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    alive = lake_of_tables.begun("clean")
    reported.set("clean", "failed")
    clock.move(timedelta(minutes=5))
    assert lake_of_tables.registry.heartbeat(alive)

    assert lake_of_tables.collect(reported, later=timedelta(minutes=9)).dropped == ()
    assert lake_of_tables.registry.heartbeat(alive)


def test_the_outputs_of_a_task_are_committed_together_or_not_at_all(lake_of_tables: InterimLake) -> None:
    registry = lake_of_tables.registry
    before = lake_of_tables.named("features", "other")
    rows = lake_of_tables.begun("split", output="rows", name="features", scope=Scope.GLOBAL)
    rejects = lake_of_tables.begun("split", output="rejects")
    registry.abandon(rejects, "one of two is lost")

    with pytest.raises(StaleInterimAttempt, match=r"split/rejects"):
        registry.commit(Output(rows, 1, 3), Output(rejects, 2, 4), consumers=["report"])

    table = registry.table(rows.table_id)
    assert (table.state, table.pins, table.is_named) == (TableState.WRITING, (), False)
    assert table_named(registry, "features") == before
    assert not OperationLog(registry.store).knows(str(rows.table))

    refs = registry.commit(Output(rows, 1, 3), consumers=["report"])
    assert refs == [table_named(registry, "features")]


def test_a_try_that_has_lost_one_of_its_outputs_commits_none(registry: InterimRegistry, tmp_path: Path) -> None:
    lake = InterimLake(registry, new_catalog(tmp_path))
    handover = TableHandover(registry, lambda: lake.catalog, holder("split"), catalog_name=LAKE, consumers=["report"])

    def split() -> None:
        with handover:
            handover.give(lake.rows(), "rows")
            handover.give(lake.rows(), "rejects")
            begun.append(lake.begun("split", output="rejects", try_number=2))

    begun: list[Writing] = []
    with pytest.raises(StaleInterimAttempt, match=r"split/rejects"):
        split()

    [later] = begun
    assert registry.tables(state=TableState.READY) == []
    assert registry.heartbeat(later)


@pytest.mark.one_database
def test_a_commit_records_the_lineage(lake_of_tables: InterimLake) -> None:
    first = lake_of_tables.handed_on("ingest")
    writing = lake_of_tables.begun("clean")
    made_of = [TableAt(first.table, first.snapshot_id)]
    lake_of_tables.registry.commit(Output(writing, 7, 1, inputs=made_of), consumers=())

    [edge] = Lineage(lake_of_tables.registry.store).graph(str(writing.table), Direction.UP).edges
    assert (edge.source, edge.target) == (first.table, str(writing.table))


@pytest.mark.one_database
@pytest.mark.parametrize("ttl", [timedelta(0), -timedelta(days=1)])
def test_a_time_to_live_is_longer_than_nothing(registry: InterimRegistry, ttl: timedelta) -> None:
    with pytest.raises(InvalidInterimTable, match=r"ttl = .* must be positive"):
        registry.begin(holder("clean"), catalog=LAKE, options=OutputOptions(ttl=ttl))


class ForgetfulStore(Store):
    """A store in which every transaction's answer is lost once, so that it is done again after it went through."""

    def transact(self, work: Callable[[sa.Connection], T]) -> T:
        super().transact(work)
        return super().transact(work)


def test_a_lost_answer_changes_nothing(lake_of_tables: InterimLake, interim_store: Store, reported: ReportedRuns) -> None:
    forgetful = InterimRegistry(ForgetfulStore(interim_store.engine, interim_store.clock))
    lake = InterimLake(forgetful, lake_of_tables.catalog)

    ref = lake.named("features", consumers=["report"])
    reading = forgetful.consume([ref], attempt=holder("report"))
    by_name = forgetful.consume_named("features", scope=lake.registry.table(ref.table_id).scope, attempt=holder("audit"))
    forgetful.pin_on([ref], consumers=["later"], attempt=holder("report"))

    assert by_name.tables == (ref,)
    assert lake_of_tables.registry.table(ref.table_id).readers == 2
    assert forgetful.release(reading)
    assert forgetful.release(by_name)
    pins = lake_of_tables.registry.table(ref.table_id).pins
    assert [pin.rpartition("/")[2] for pin in pins] == ["audit", "later", "report"]
