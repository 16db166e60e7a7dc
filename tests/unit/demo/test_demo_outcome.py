"""Whether the rows are unchanged is what two measurements say, and decides over the exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, JobStatus
from examples.demo.measure import Measurement
from examples.demo.run import Outcome

BEFORE = Measurement(365, 365, 358, 377, 377, 298, 11_000_000, 72_000_000, 5.0, 328_521, "43a7", "328521:99")
AFTER = replace(BEFORE, data_files=12, small_files=12, delete_files=0, manifests=1, snapshots=3, orphan_files=0)


def outcome(after: Measurement = AFTER, status: JobStatus = JobStatus.COMPLETED) -> Outcome:
    name = TableName.parse("demo.flights", catalog="lake")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    job = Job("1a2b", name, ("rewrite_data_files",), {}, dry_run=False, status=status, submitted_at=now)
    return Outcome(BEFORE, after, job, days=365, seconds=120.0)


def test_a_healthier_table_with_the_same_rows_is_good() -> None:
    good = outcome()
    assert good.is_good
    assert json.loads(good.to_json())["rows_unchanged"] is True


@pytest.mark.parametrize("difference", [{"rows": 328_520}, {"checksum": "43a8"}, {"spark_checksum": "328521:98"}])
def test_one_difference_in_the_rows_is_told_and_fails_the_demo(difference: dict[str, object]) -> None:
    bad = outcome(replace(AFTER, **difference))
    assert not bad.is_good
    assert json.loads(bad.to_json())["rows_unchanged"] is False


def test_a_job_that_did_not_complete_fails_the_demo() -> None:
    assert not outcome(status=JobStatus.FAILED).is_good


def test_the_summary_is_one_line_with_the_numbers_before_and_after() -> None:
    text = outcome().to_json()
    assert "\n" not in text
    told = json.loads(text)
    assert (told["before"]["data_files"], told["after"]["data_files"]) == (365, 12)
