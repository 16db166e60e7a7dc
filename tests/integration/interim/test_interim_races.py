"""What happens at the same time: a reader and the collector, two collectors, two attempts. Each has one outcome, or the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from bounded import PATIENCE_S
from clocks import MovedClock
from effort import rounds
from interim_lake import InterimLake, ReportedRuns, holder, table_named

from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery
from airflow_snowpack.interim.errors import InterimTableGone, StaleInterimAttempt
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.registry import Output

ROUNDS = rounds(3, soak=100)


def at_once(*steps: Callable[[], Any]) -> list[Any]:
    """Do these at the same moment; what each returned, or the error that it raised."""
    barrier = Barrier(len(steps))

    def one(step: Callable[[], Any]) -> Any:
        barrier.wait(PATIENCE_S)
        try:
            return step()
        except Exception as error:  # noqa: BLE001 (what it raised is what the test looks at)
            return error

    with ThreadPoolExecutor(len(steps)) as threads:
        return list(threads.map(one, steps))


def test_a_reader_either_gets_a_table_that_stays_or_an_error(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    registry = lake_of_tables.registry
    for number in range(ROUNDS):
        run_id = f"run{number}"
        ref = lake_of_tables.handed_on("clean", consumers=["report"], run_id=run_id)
        reported.finish("report", run_id=run_id)
        clock.move(timedelta(hours=1))

        reading, collected = at_once(
            lambda ref=ref, run_id=run_id: registry.consume([ref], attempt=holder("report", run_id=run_id, try_number=2)),
            lambda: lake_of_tables.collector(reported).run(),
        )

        is_dropped = ref.table in {str(doomed.table) for doomed in collected.dropped}
        assert is_dropped == isinstance(reading, InterimTableGone)
        assert is_dropped != (ref.table in lake_of_tables.tables())
        assert is_dropped or registry.release(reading)


def test_a_name_is_read_while_it_moves(lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock) -> None:
    registry = lake_of_tables.registry
    lake_of_tables.named("features", run_id="run0")
    for number in range(1, ROUNDS):
        clock.move(timedelta(hours=1))
        reading, moved, _ = at_once(
            lambda: registry.consume_named("features", scope=Scope.GLOBAL, attempt=holder("report", run_id="reader")),
            lambda number=number: lake_of_tables.named("features", run_id=f"run{number}"),
            lambda: lake_of_tables.collector(reported).run(),
        )

        assert reading.tables[0].table in lake_of_tables.tables()
        assert table_named(registry, "features") == moved
        assert registry.release(reading)


def test_collectors_side_by_side_drop_each_table_once(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    made = {lake_of_tables.handed_on("clean", run_id=f"run{number}").table for number in range(3 * ROUNDS)}
    clock.move(timedelta(hours=1))

    passes = at_once(*[lake_of_tables.collector(reported).run] * 3)

    dropped = [str(doomed.table) for collected in passes for doomed in collected.dropped]
    assert sorted(dropped) == sorted(made)
    assert [collected.failed for collected in passes] == [()] * 3


def test_of_two_concurrent_attempts_one_commits(lake_of_tables: InterimLake) -> None:
    def attempt(run_id: str, try_number: int) -> Any:
        writing = lake_of_tables.begun("clean", run_id=run_id, try_number=try_number)
        return lake_of_tables.registry.commit(Output(writing, 1, 1), consumers=["report"])[0]

    for number in range(ROUNDS):
        run_id = f"run{number}"
        first, second = at_once(lambda run_id=run_id: attempt(run_id, 1), lambda run_id=run_id: attempt(run_id, 2))

        assert not isinstance(second, Exception), "the later try counts"
        ready = [table for table in lake_of_tables.registry.tables(run_id=run_id) if table.ready_at is not None]
        # The first may have been through before the second began; then each has a table of its own.
        assert len(ready) == (1 if isinstance(first, StaleInterimAttempt) else 2)
        assert isinstance(first, StaleInterimAttempt) or first.table != second.table


@pytest.mark.parametrize("mapped", [12])
def test_the_instances_of_a_mapped_task_begin_and_commit_side_by_side(lake_of_tables: InterimLake, mapped: int) -> None:
    registry = lake_of_tables.registry

    def instance(number: int) -> Any:
        who = holder("clean", map_index=number)
        writing = registry.begin(who, catalog="lake")
        return registry.commit(Output(writing, 1, 1), consumers=["report"])[0]

    refs = at_once(*(lambda number=number: instance(number) for number in range(mapped)))

    assert len({ref.table for ref in refs}) == mapped


class ClearedMeanwhile(ReportedRuns):
    """Airflow, in which somebody does something between the answer and what is made of it."""

    def __init__(self, meanwhile: Callable[[], Any]) -> None:
        super().__init__()
        self.meanwhile = meanwhile
        self.answers = 0

    def read(self, asked: Sequence[RunQuery]) -> Mapping[tuple[str, str], DagRunState]:
        answer = super().read(asked)
        self.answers += 1
        if self.answers == 2:
            self.meanwhile()
        return answer


def test_a_consumer_that_is_cleared_and_fails_after_airflow_has_answered_keeps_its_input(
    lake_of_tables: InterimLake, clock: MovedClock
) -> None:
    registry = lake_of_tables.registry
    ref = lake_of_tables.handed_on("clean", consumers=["report"])

    def runs_again_and_fails() -> None:
        registry.release(registry.consume([ref], attempt=holder("report", try_number=2)))
        reported.set("report", "up_for_retry")

    reported = ClearedMeanwhile(runs_again_and_fails)
    reported.finish("report")
    assert lake_of_tables.collect(reported).dropped == ()
    registry.release(registry.consume([ref], attempt=holder("report", try_number=3)))

    reported.finish("report")
    assert len(lake_of_tables.collect(reported).dropped) == 1


def test_a_producer_that_runs_again_after_airflow_has_answered_finds_its_new_table_pinned(
    lake_of_tables: InterimLake, clock: MovedClock
) -> None:
    old = lake_of_tables.named("features", scope=Scope.RUN, consumers=["report"])
    made: list[TableRef] = []

    def is_cleared_and_runs_again() -> None:
        reported.end(phase=RunPhase.ACTIVE)
        reported.set("report", None)
        made.append(lake_of_tables.named("features", scope=Scope.RUN, try_number=2, consumers=["report"]))

    reported = ClearedMeanwhile(is_cleared_and_runs_again)
    reported.finish("report")
    reported.end()

    lake_of_tables.collect(reported)

    [new] = made
    assert lake_of_tables.tables() == {new.table}
    assert lake_of_tables.registry.table(new.table_id).is_named
    assert old.table != new.table
