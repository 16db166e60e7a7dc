"""What the collector costs follows what can go, and not what stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from heard_statements import direct_heard
from interim_lake import InterimLake, ReportedRuns, holder

from airflow_snowpack.interim.registry import Output
from airflow_snowpack.store import Store


@pytest.fixture
def statements(interim_store: Store) -> Iterator[list[str]]:
    """What was said to the database."""
    said: list[str] = []

    def hear(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        said.append(statement)

    sa.event.listen(interim_store.engine, "before_cursor_execute", hear)
    with direct_heard():
        yield said
    sa.event.remove(interim_store.engine, "before_cursor_execute", hear)


def test_tables_that_stay_add_no_statements_to_a_pass(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock, statements: list[str]
) -> None:
    def cost_of_a_pass(run_id: str, stay: int) -> int:
        lake_of_tables.begun("clean", run_id=run_id)
        for number in range(stay):
            writing = lake_of_tables.begun(f"task{number}", run_id=run_id)
            lake_of_tables.registry.commit(Output(writing, 1, 1), consumers=["report"])
        clock.move(timedelta(minutes=1))
        reported.set("clean", "failed", run_id=run_id)
        clock.move(timedelta(minutes=30))
        statements.clear()
        assert len(lake_of_tables.collector(reported).run().dropped) == 1
        cost = len(statements)
        reported.end(run_id)
        clock.move(timedelta(hours=1))
        lake_of_tables.collector(reported).run()
        return cost

    assert cost_of_a_pass("few", 1) == cost_of_a_pass("many", 12)


def test_a_pass_with_nothing_due_reads_twice(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock, statements: list[str]
) -> None:
    for number in range(5):
        lake_of_tables.begun("clean", run_id=f"run{number}")
    statements.clear()

    assert lake_of_tables.collector(reported).run().runs == 0
    assert [statement.split()[0] for statement in statements if "BEGIN" not in statement] == ["SELECT", "SELECT"]
    assert reported.asked == []


def test_an_expected_reader_leaves_the_row_of_its_run_alone(lake_of_tables: InterimLake, statements: list[str]) -> None:
    refs = [lake_of_tables.handed_on(f"task{number}", consumers=["report"]) for number in range(3)]
    statements.clear()

    lake_of_tables.registry.consume(refs, attempt=holder("report"))
    assert not [statement for statement in statements if "interim_runs" in statement]
    lake_of_tables.registry.consume(refs, attempt=holder("audit"))
    assert [statement for statement in statements if "interim_runs" in statement]


@pytest.mark.one_database
def test_a_run_in_which_nothing_happens_is_looked_at_less_and_less_often(
    lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    table_id = lake_of_tables.handed_on("clean", consumers=["report"]).table_id
    pauses = []
    for _ in range(9):
        look_at = lake_of_tables.registry.table(table_id).check_at
        assert look_at is not None
        pauses.append(look_at - clock.now)
        clock.now = look_at
        assert lake_of_tables.collector(reported).run().runs == 1

    assert pauses == sorted(pauses)
    assert pauses[-1] == timedelta(hours=1)
