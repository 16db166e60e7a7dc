"""What the lineage keeps of a job: each action that changed its table, from which snapshot to which.

    note_operation(store, maintenance_operation(claim, result, result.change, store.clock()))

It is noted when the action has ended and not with the terminal write: what an action committed is in the table, whoever ends the
job.
"""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.jobs.model import ActionResult, Claim, TableChange
from airflow_snowpack.lineage.operation import Operation, OperationKind, TableAt


def maintenance_operation(claim: Claim, result: ActionResult, change: TableChange, at: datetime) -> Operation:
    """One action as an operation: by the task that ran it, or else the one that asked for the job."""
    table, catalog_id = str(claim.job.table), claim.job.table.catalog_id
    which = {"catalog_id": catalog_id} if catalog_id else {}
    return Operation(
        OperationKind.MAINTENANCE,
        at,
        inputs=(TableAt(table, change.before, change.location),),
        outputs=(TableAt(table, change.after, change.location),),
        task=TaskRef.parse(claim.worker_id) or TaskRef.parse(claim.job.owner),
        job_id=claim.job.job_id,
        detail={"action": result.action, "outcome": result.outcome.value, "message": result.message} | which,
    )
