"""What an engine reports is kept whatever characters and numbers it has in it: nothing of it may keep a job from ending."""

from __future__ import annotations

import pytest
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Jobs, JobStatus, JobWorker


def test_a_job_ends_although_its_error_has_characters_that_a_database_refuses(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ["rewrite_data_files"], "w1")
    broken = "bad page \x00 in /data/\udce9t\udce9.parquet"
    result = ActionResult("rewrite_data_files", ActionOutcome.FAILED, broken, 1.0, error=broken)

    assert jobs.finish(claim, JobStatus.FAILED, [result], broken)
    job = jobs.get(claim.job.job_id)
    assert [entry.event for entry in jobs.history(job.job_id)] == ["submitted", "claimed", "action", "failed"]
    assert job.error == job.results[0].error == "bad page � in /data/?t?.parquet"


def test_a_number_that_is_none_is_left_out_of_the_metrics(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ["rewrite_data_files"], "w1")
    metrics = {"files": 3, "ratio": float("nan"), "rate": float("inf")}
    result = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "ok", 1.0, metrics=metrics)

    assert jobs.record_progress(claim, [result])
    assert jobs.finish(claim, JobStatus.COMPLETED, [result])
    assert jobs.get(claim.job.job_id).results[0].metrics == {"files": 3}


def test_a_crash_leaves_no_secret_of_the_environment_in_the_job_its_history_or_the_log(
    jobs: Jobs, table: TableName, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CRM", "postgres://crm:hunter22@db/crm")

    def crash(_action: str) -> None:
        try:
            raise OSError("no answer from postgres://crm:hunter22@db/crm")
        except OSError as error:
            raise RuntimeError("the password 'hunter22' was refused") from error

    submitted = jobs.submit(table, ["rewrite_data_files"])
    assert JobWorker(jobs, lambda: ScriptedEngine(between=crash), worker_id="w1").run_once() is JobStatus.FAILED

    job = jobs.get(submitted.job_id)
    assert job.error == "rewrite_data_files failed: RuntimeError: the password '***' was refused"
    assert "the password '***' was refused" in caplog.text
    assert "hunter22" not in f"{job}{jobs.history(job.job_id)}{caplog.text}"
