"""Whether a rewrite waits for the DAGs that write to its table."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.writers import CLEAR, DagsOfTables, TableWriters, WritingDag

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)
PAGE = Path(__file__).parents[3] / "docs" / "plans.md"
TEN_MINUTES = timedelta(minutes=10)


def test_a_rewrite_that_ends_before_any_writer_is_due_runs() -> None:
    idle = (WritingDag("manual"), WritingDag("hourly", next_due=NOW + TEN_MINUTES))

    assert TableWriters(idle).clear(TEN_MINUTES, NOW) == CLEAR
    assert TableWriters().clear(timedelta(days=1), NOW) == CLEAR


def test_a_rewrite_waits_for_the_last_of_the_dags_that_run() -> None:
    short = WritingDag("short", running_since=NOW - timedelta(minutes=4), usual_duration=timedelta(minutes=5))
    long = WritingDag("long", running_since=NOW - timedelta(minutes=1), usual_duration=timedelta(hours=1))

    clearance = TableWriters((long, short)).clear(TEN_MINUTES, NOW)

    assert clearance.waits
    assert clearance.until == NOW + timedelta(minutes=59)
    assert "DAG 'long'" in clearance.reason


@pytest.mark.parametrize("usual", [None, timedelta(minutes=2)])
def test_a_run_of_unknown_length_is_checked_again_soon(usual: timedelta | None) -> None:
    running = WritingDag("ingest", running_since=NOW - timedelta(minutes=30), usual_duration=usual)

    assert TableWriters((running,)).clear(TEN_MINUTES, NOW).until == NOW + timedelta(minutes=15)


def test_a_rewrite_gets_the_time_before_the_first_writer_that_is_due() -> None:
    later = WritingDag("later", next_due=NOW + timedelta(minutes=9))
    first = WritingDag("first", next_due=NOW + timedelta(minutes=6), usual_duration=timedelta(minutes=2))

    clearance = TableWriters((later, first)).clear(TEN_MINUTES, NOW)

    assert (clearance.within, clearance.until) == (timedelta(minutes=6), NOW + timedelta(minutes=8))
    assert not clearance.waits


def test_the_page_on_plans_shows_the_reason_of_a_rewrite_that_is_made_smaller() -> None:
    (shown,) = re.findall(r"```text\n(847 of .*; DAG .*)\n```", PAGE.read_text())
    ingest = WritingDag("ingest", next_due=NOW + TEN_MINUTES)

    assert shown.endswith(f"; threshold 100; {TableWriters((ingest,)).clear(timedelta(minutes=12), NOW).for_part}")


@pytest.mark.parametrize("due", [NOW + timedelta(seconds=30), NOW - timedelta(minutes=1)])
def test_a_rewrite_waits_for_a_writer_that_is_due_at_once(due: datetime) -> None:
    clearance = TableWriters((WritingDag("ingest", next_due=due),)).clear(TEN_MINUTES, NOW)

    assert clearance.waits
    assert clearance.reason.endswith("and the rewrite takes 10 min")


def test_a_rewrite_does_not_wait_for_a_dag_that_runs_all_the_time() -> None:
    minutely = WritingDag(
        "minutely", running_since=NOW, next_due=NOW, usual_duration=timedelta(seconds=40), usual_interval=timedelta(minutes=1)
    )

    clearance = TableWriters((minutely,)).clear(TEN_MINUTES, NOW)

    assert clearance.within is None
    assert clearance.reason == "DAG 'minutely' writes to the table every 1 min, so the rewrite does not wait for it"


def test_a_rewrite_does_not_wait_for_a_run_that_seems_never_to_end() -> None:
    clearance = TableWriters((WritingDag("stream", running_since=NOW - timedelta(days=3)),)).clear(TEN_MINUTES, NOW)

    assert clearance.within is None
    assert clearance.reason == (
        "DAG 'stream', which writes to the table, has been running for 3 d, so the rewrite does not wait for it"
    )


def test_tables_are_found_by_the_address_of_their_asset() -> None:
    ingest = WritingDag("ingest")
    dags = DagsOfTables({"iceberg://lake/db/events": (ingest,)}, {"iceberg://lake/db/events": 2.5})
    events, other = TableName("lake", "db", "events", "id"), TableName("lake", "db", "other", "id")

    assert (dags.writers(events).producers, dags.reads(events)) == ((ingest,), 2.5)
    assert (dags.writers(other).producers, dags.reads(other)) == ((), 0.0)
    assert DagsOfTables(unknown="no answer").writers(events).clear(TEN_MINUTES, NOW).reason.endswith("unknown: no answer")
