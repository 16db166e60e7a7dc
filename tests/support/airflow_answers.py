"""Airflow's own answers about runs and their tasks, with no server: its two APIs run in this process, on a database of its own.

    python airflow_answers.py <folder>            # prints what a task and what the REST API are told, as one line of JSON

Run it in a process of its own, with AIRFLOW_HOME in the folder. The states are written into Airflow's tables; what is made of
them is Airflow's code and ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DAG_FILE = """
from datetime import datetime, timezone
from airflow.sdk import DAG, task

with DAG("flights", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    @task
    def ingest(): ...

    @task
    def clean(row): ...

    @task
    def clean_1(): ...

    @task
    def report(): ...

    clean.expand(row=ingest()) >> report() << clean_1()
"""
TASKS = ("clean", "clean_1", "report", "gone")
MAPPED = 7
PAGE_LIMIT = 3
"""Airflow's limit of a page here: less than the mapped task has instances."""


def make_airflow(folder: Path) -> None:
    """The database with a DAG and its runs: one that has just begun, one half way, one that is over, one that was deleted."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    (folder / "dags").mkdir()
    (folder / "dags" / "flights.py").write_text(DAG_FILE)
    initdb()
    bag = DagBag(folder / "dags", bundle_path=folder / "dags", bundle_name="dags-folder")
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        for run_id in ("begun", "half way", "over", "deleted"):
            _make_run(session, run_id)
        session.flush()
        _expand(session, "half way", [*["success"] * (MAPPED - 1), "up_for_retry"], {"clean_1": "skipped", "ingest": "success"})
        ended = {"clean_1": "failed", "report": "upstream_failed"}
        _expand(session, "over", ["success", "success", "removed"], ended, run_state="failed")
        session.delete(_run(session, "deleted"))


def _make_run(session: Any, run_id: str) -> None:
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag = DBDagBag().get_latest_version_of_dag("flights", session=session)
    assert dag is not None
    dag.create_dagrun(
        run_id=run_id.replace(" ", "_"), run_after=datetime.now(UTC), run_type=DagRunType.MANUAL,
        triggered_by=DagRunTriggeredByType.TEST, state=DagRunState.RUNNING, session=session,
    )  # fmt: skip


def _run(session: Any, run_id: str) -> Any:
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    return session.scalars(select(DagRun).where(DagRun.run_id == run_id.replace(" ", "_"))).one()


def _expand(session: Any, run_id: str, mapped: list[str], others: dict[str, str], run_state: str | None = None) -> None:
    """What the scheduler leaves in its tables: instances of the mapped task by index, in the place of the one without."""
    from airflow.models.taskinstance import TaskInstance

    run = _run(session, run_id)
    tasks = {instance.task_id: instance for instance in run.task_instances}
    for task_id, state in others.items():
        tasks[task_id].state = state
    first, dag = tasks["clean"], run.dag or _dag(session)
    first.map_index, first.state = 0, mapped[0]
    for index, state in enumerate(mapped[1:], start=1):
        instance = TaskInstance(dag.get_task("clean"), run_id=run.run_id, map_index=index, state=state,
                                dag_version_id=first.dag_version_id)  # fmt: skip
        session.add(instance)
    if run_state is not None:
        run.state = run_state


def _dag(session: Any) -> Any:
    from airflow.models.dagbag import DBDagBag

    return DBDagBag().get_latest_version_of_dag("flights", session=session)


class Supervisor:
    """A task's supervisor as ``dag.test()`` has it: it asks the execution API in this process."""

    def __init__(self) -> None:
        from airflow.sdk.api.client import Client
        from airflow.sdk.execution_time.supervisor import in_process_api_server

        self.client = Client(base_url="http://in-process.invalid./", token="", transport=in_process_api_server().transport)

    def send(self, message: Any) -> Any:
        from airflow.sdk.execution_time import comms
        from airflow.sdk.execution_time.request_handlers import handle_get_task_states

        if isinstance(message, comms.GetDagRunState):
            return comms.DagRunStateResult.from_api_response(self.client.dag_runs.get_state(message.dag_id, message.run_id))
        answer, _ = handle_get_task_states(self.client, message)
        return answer


class InProcess:
    """Airflow's public API without a network between, as an ``AirflowRest`` asks it."""

    def __init__(self) -> None:
        from airflow.api_fastapi.app import create_app

        self.app = create_app(apps="core")

    def ask(self, method: str, path: str, *, params: Any = None, body: Any = None) -> Any:
        import httpx

        from airflow_snowpack.hooks.api_client import Answer

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://airflow.test") as client:
                return await client.request(method, f"/api/v2{path}", params=params, json=body)

        said = asyncio.run(asked())
        return Answer(said.status_code, said.json())


def told(states: Any) -> dict[str, Any]:
    """What is told about every run, as JSON values."""
    from airflow_snowpack.interim.collection.model import RunQuery

    runs = [RunQuery("flights", run_id, frozenset(TASKS)) for run_id in ("begun", "half_way", "over", "deleted")]
    found = states.read(runs)
    return {
        run_id: {"phase": standing.phase.value, "tasks": {name: sorted(by.items()) for name, by in standing.tasks.items()},
                 "finished": [name for name in TASKS if standing.is_finished(name)]}
        for (_, run_id), standing in found.items()
    }  # fmt: skip


def dag_states_by_turns() -> list[dict[str, str]]:
    """How the API server sees DAGs: one that is unpaused, paused and gone from its file, and one that never was."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    from airflow_snowpack.hooks.services import dag_states

    turns = []
    for change in ({"is_paused": False}, {"is_paused": True}, {"is_stale": True}):
        with create_session() as session:
            dag = session.get(DagModel, "flights")
            for name, value in change.items():
                setattr(dag, name, value)
        turns.append({dag_id: state.value for dag_id, state in dag_states(["flights", "never_there"]).items()})
    return turns


def main(folder: Path) -> None:
    make_airflow(folder)
    from airflow.sdk.execution_time import task_runner

    from airflow_snowpack.hooks.run_states import RestRunStates, TaskRunStates

    task_runner.SUPERVISOR_COMMS = Supervisor()  # type: ignore[assignment]  # all that is asked of it
    answers = {"task": told(TaskRunStates()), "rest": told(RestRunStates(InProcess()))}  # type: ignore[arg-type]  # likewise
    print(json.dumps({**answers, "dags": dag_states_by_turns()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
