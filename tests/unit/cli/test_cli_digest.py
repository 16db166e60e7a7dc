"""``airflow snowpack digest``: the text of the home page, and the same as data."""

from __future__ import annotations

import pytest
from command_line import Run

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus
from airflow_snowpack.maintenance import Action

pytestmark = pytest.mark.one_database


def test_the_digest_is_a_sentence_with_a_line_for_each_cause(snowpack: Run, jobs: Jobs, flights: TableName) -> None:
    job = jobs.submit(flights, [Action.REWRITE_DATA_FILES])
    claim = jobs.claim("worker-1", job_id=job.job_id, catalog_id=flights.catalog_id)
    assert claim is not None
    broken = ActionResult(Action.REWRITE_DATA_FILES, ActionOutcome.FAILED, "Failed", 4.0, "Disk full on 10.0.0.7")
    jobs.finish(claim, JobStatus.FAILED, [broken], "Disk full on 10.0.0.7")
    text = "1 job, 1 failed for one cause, no table health stored yet.\nFailed: 1 job: demo.flights: Disk full on 10.0.0.7."
    assert snowpack("digest").out.strip() == text
    body = snowpack("digest", "-o", "json").json
    assert body["text"] == text
    assert (body["jobs"]["failed"], body["active"], body["bytes_rewritten"]) == (1, 0, 0)
    (failure,) = body["failures"]
    assert (failure["tables"], failure["to_rerun"], failure["locked"]) == (["demo.flights"], [job.job_id], [])
    assert set(body["tables"]) == {"unreadable", "sick", "fair", "healthy", "not_read"}
