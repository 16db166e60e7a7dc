"""What the report of a pass contains, however much went wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from made_plans import made_plan

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.fleet import Budget, EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.fleet.model import PassState
from airflow_snowpack.maintenance.fleet.report import PassReport, cause_of
from airflow_snowpack.maintenance.planning import Estimate
from airflow_snowpack.maintenance.writers import DagsOfTables, FailedRun

NOW = datetime(2026, 11, 23, 4, tzinfo=UTC)
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def test_a_report_of_hundreds_of_causes_with_long_errors_stays_short() -> None:
    planned = Pass("p", "dag/run/plan", "lake", "", PassState.RUNNING, Budget(), 4, NOW - timedelta(hours=2), leased_until=NOW)
    errors = [f"{first} {second} {third} failed" for first in WORDS for second in WORDS for third in WORDS]
    entries = [
        PassEntry(TableName("lake", "db", f"t{number}"), number, EntryState.FAILED, reason=f"{error}\n{'x' * 100_000}")
        for number, error in enumerate(errors)
    ]

    report = PassReport.of(planned, entries, NOW)

    assert report.lines()[-1] == "Failed: 492 tables for 492 more causes"
    assert len(report.failed) == 512
    assert len(json.dumps(report.to_json())) < 150_000


def test_a_report_names_the_writers_that_failed_while_their_tables_were_rewritten() -> None:
    planned = Pass("p", "dag/run/plan", "lake", "", PassState.RUNNING, Budget(), 4, NOW - timedelta(hours=2), leased_until=NOW)
    rewritten, expired = (TableName("lake", "db", name) for name in ("rewritten", "expired"))
    plans = made_plan(rewritten, rewrite_data_files="…"), made_plan(expired, expire_snapshots="…")
    ended, spent = NOW - timedelta(minutes=30), Estimate(gb_hours=1.0, seconds=600.0)  # from 03:20 to 03:30
    entries = [
        PassEntry(plan.table, place, EntryState.MAINTAINED, plan=plan, spent=spent, ended_at=ended)
        for place, plan in enumerate(plans)
    ]

    def run(began: int, ended: int) -> FailedRun:
        return FailedRun("merge", NOW - timedelta(minutes=began), NOW - timedelta(minutes=ended))

    failed = (run(60, 41), run(45, 35), run(35, 25), run(29, 10))
    dags = DagsOfTables(failed_runs={rewritten.asset_uri: failed, expired.asset_uri: failed})

    report = PassReport.of(planned, entries, NOW, dags)

    assert report.to_json()["failed_writers"] == [{"dag_id": "merge", "table": "db.rewritten", "runs": 2}]
    assert report.lines()[-1] == (
        "Writers: 2 runs of DAGs failed while a table that they write to was rewritten: merge (db.rewritten). "
        "A rewrite may have refused their commits."
    )


def test_a_long_cause_ends_with_an_ellipsis() -> None:
    cause = cause_of(f"Permission denied {'x' * 300}", TableName("lake", "db", "t"))

    assert (len(cause), cause[-2:]) == (200, "x…")
