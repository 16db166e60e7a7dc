"""What the lineage keeps of jobs: the actions that changed the table, whoever ended the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from scripted_engine import ScriptedEngine

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionResult, Attempt, Job, Jobs, JobStatus
from airflow_snowpack.jobs.model import TableChange
from airflow_snowpack.lineage.operation import OperationKind, TableAt
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Store

LOCATION = "s3://lake/page_views"


class ChangingEngine(ScriptedEngine):
    """Its actions leave the changes that the test gives."""

    def __init__(self, changes: Mapping[str, TableChange]) -> None:
        super().__init__({"rewrite_manifests": "fail"})
        self._changes = changes

    def run(self, job: Job, action: str) -> ActionResult:
        return replace(super().run(job, action), change=self._changes.get(action))


def test_each_action_that_changed_the_table_is_an_operation_of_its_task(jobs: Jobs, store: Store, table: TableName) -> None:
    actions = ["rewrite_data_files", "remove_orphan_files", "expire_snapshots"]
    claim = jobs.submit_and_claim(
        table, actions, "nightly/manual__1/compact[3] try 2 on pod-7:31", owner="nightly/manual__1/compact[3]"
    )
    moved, trimmed = TableChange(11, 12, LOCATION), TableChange(12, 12, LOCATION)
    job = Attempt(jobs, claim, ChangingEngine({"rewrite_data_files": moved, "expire_snapshots": trimmed})).run()

    assert job.status is JobStatus.COMPLETED
    found = OperationLog(store).of_table(str(table)).items
    by_action = {operation.detail["action"]: operation for operation in found}
    assert by_action.keys() == {"rewrite_data_files", "expire_snapshots"}
    rewrite = by_action["rewrite_data_files"]
    assert (rewrite.kind, rewrite.job_id) == (OperationKind.MAINTENANCE, job.job_id)
    assert rewrite.task == TaskRef("nightly", "manual__1", "compact", 3, 2)
    assert rewrite.inputs == (TableAt(str(table), 11, LOCATION),)
    assert rewrite.outputs == (TableAt(str(table), 12, LOCATION),)


def test_what_a_worker_changed_before_the_job_failed_is_known_as_well(jobs: Jobs, store: Store, table: TableName) -> None:
    jobs.submit(table, ["rewrite_manifests"], owner="nightly/manual__1/submit")
    claim = jobs.claim("pod-7")

    assert Attempt(jobs, claim, ChangingEngine({"rewrite_manifests": TableChange(None, 12)})).run().status is JobStatus.FAILED
    (operation,) = OperationLog(store).of_table(str(table)).items
    assert operation.task == TaskRef("nightly", "manual__1", "submit")
    assert operation.detail["outcome"] == "failed"


def test_a_job_ends_as_it_would_when_the_lineage_cannot_be_written(
    jobs: Jobs, store: Store, table: TableName, caplog: pytest.LogCaptureFixture
) -> None:
    with store.engine.begin() as conn:
        conn.exec_driver_sql("DROP TABLE operations")
    claim = jobs.submit_and_claim(table, ["expire_snapshots"], "try-1")

    assert Attempt(jobs, claim, ChangingEngine({"expire_snapshots": TableChange(1, 1)})).run().status is JobStatus.COMPLETED
    assert "operation_not_recorded: maintenance" in caplog.text
