"""Runs one task of one DAG file in Airflow's own task runner; only the supervisor at the other end of its socket is replaced.

python -m benchmarks.task_process DAG_FILE TASK_ID
"""

from __future__ import annotations

import runpy
import sys
import uuid
from datetime import UTC, datetime
from typing import Any


class Supervisor:
    """Answers that there is nothing: no connection of that name, no inactive assets."""

    def send(self, msg: Any = None, **_: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time import comms

        match type(msg).__name__:
            case "GetConnection":
                return comms.ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
            case "ValidateInletsAndOutlets":
                return comms.InactiveAssetsResult(inactive_assets=[])
        return None


def run_task(task: Any, *, map_index: int = -1, resume: Any = None) -> Any:
    """Run one try of a task, or what follows a wait in the triggerer.

    :param resume: the name of the method and its arguments, after a wait.
    :returns: Airflow's message about the end, or about the wait.
    :raises RuntimeError: the task has failed.
    """
    import structlog
    from airflow.sdk.execution_time import task_runner

    vars(task_runner)["SUPERVISOR_COMMS"] = Supervisor()
    instance = _instance(task, map_index, resume)
    state, message, error = task_runner.run(instance, instance.get_template_context(), structlog.get_logger())
    if state not in ("success", "deferred"):
        raise RuntimeError(f"The task {task.task_id} ended as {state}: {error!r}")
    return message


def _instance(task: Any, map_index: int, resume: Any) -> Any:
    from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType, TIRunContext
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    now = datetime.now(UTC)
    dag_run = DagRun(
        dag_id=task.dag_id,
        run_id="run1",
        logical_date=now,
        data_interval_start=now,
        data_interval_end=now,
        run_after=now,
        start_date=now,
        end_date=None,
        run_type=DagRunType.MANUAL,
        state=DagRunState.RUNNING,
        conf={},
        consumed_asset_events=[],
        partition_key=None,
    )
    resumed = {"next_method": resume[0], "next_kwargs": resume[1]} if resume else {}
    context = TIRunContext(dag_run=dag_run, max_tries=0, should_retry=False, task_reschedule_count=0, **resumed)
    instance = RuntimeTaskInstance.model_construct(
        id=uuid.uuid4(),
        task_id=task.task_id,
        dag_id=task.dag_id,
        run_id="run1",
        try_number=1,
        map_index=map_index,
        dag_version_id=uuid.uuid4(),
        hostname="host",
        context_carrier={},
        queue="default",
        task=task,
        max_tries=0,
        start_date=now,
        end_date=None,
        state=None,
        is_mapped=map_index >= 0,
        rendered_map_index=None,
        sentry_integration="",
        _ti_context_from_server=context,
    )
    instance._ti_context_from_server = context
    return instance


if __name__ == "__main__":
    _, dag_file, task_id = sys.argv
    dag = runpy.run_path(dag_file)["dag"]
    if task_id:
        run_task(dag.get_task(task_id))
