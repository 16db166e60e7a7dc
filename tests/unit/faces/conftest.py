"""An installation without Spark, a store and a catalog with one small table, and a way to run an operator in Airflow's runner.

Only the supervisor at the other end of the task's socket is replaced; templating, the mapping of outcomes to states and XCom are
Airflow's own.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from airflow_since import stored
from installed_lake import flights as flights, identified as identified, jobs as jobs, six_files as six_files
from trigger_rounds import TriggerRounds, as_connection

from airflow_snowpack import hooks
from airflow_snowpack.store import Store, open_store

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from airflow_snowpack.builds.registry.runs import BuildRegistry
    from airflow_snowpack.interim import InterimRegistry


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows, and to an empty catalog; returns their folder."""
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, tmp_path / "snowpack.db"))}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    return tmp_path


@pytest.fixture
def far_store(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A store in Postgres, and the installation's connection to it."""
    monkeypatch.setenv("AIRFLOW_CONN_FAR_STORE", as_connection(postgres_database))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "far_store")
    with open_store(postgres_database) as store:
        yield store
    _forget_stores()


@pytest.fixture
def registry(installation: Path) -> Iterator[InterimRegistry]:
    with hooks.SnowpackHook() as hook:
        yield hook.interim()


@pytest.fixture
def builds(installation: Path) -> Iterator[BuildRegistry]:
    with hooks.SnowpackHook() as hook:
        yield hook.builds()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow has processed the deferral long ago, so that no trigger waits for that."""
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RESUME_DELAY", "PT0.001S")


def _forget_stores() -> None:
    """Close what the process would keep open, since the database goes with the test."""
    from airflow_snowpack.triggers import shared_reads

    for store in shared_reads._stores.values():
        store.close()
    shared_reads._stores.clear()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> TriggerRounds:
    from airflow_snowpack.triggers import table_watcher, wait_for

    rounds = TriggerRounds()
    for module in (table_watcher, wait_for):
        monkeypatch.setattr(module, "next_round", rounds.next_round)
    return rounds


@dataclass
class Outcome:
    """What Airflow made of a task: its state, the message that reports it, the error behind it, its XCom."""

    state: str
    message: Any
    error: BaseException | None
    xcom: Any = None
    sent: list[Any] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.message.outlet_events)


class Supervisor:
    """The other end of the task's socket: answers that there is nothing, and remembers the messages.

    :ivar answers: to other messages, by the names of their classes.
    """

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    def send(self, msg: Any = None, **_: Any) -> Any:
        from airflow.sdk.exceptions import ErrorType
        from airflow.sdk.execution_time import comms

        self.sent.append(msg)
        if type(msg).__name__ in self.answers:
            return self.answers[type(msg).__name__](msg)
        if type(msg).__name__ == "GetConnection":
            return comms.ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND)
        if type(msg).__name__ == "ValidateInletsAndOutlets":
            return comms.InactiveAssetsResult(inactive_assets=[])
        return None


def no_answer(_message: object) -> None:
    """As the supervisor answers while it cannot reach the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    detail = {"status_code": None, "message": "connection refused"}
    raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


class Runner:
    """Runs operators in one DAG run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.instance: Any = None  # the task instance that runs or ran last; its task is a copy of the one that was given

    def __call__(
        self,
        task: BaseOperator,
        *,
        params: dict[str, Any] | None = None,
        try_number: int = 1,
        resume: Any = None,
        run_id: str = "run1",
        map_index: int = -1,
        later: timedelta = timedelta(0),
        instance_id: uuid.UUID | None = None,
    ) -> Outcome:
        """Run one try.

        :param resume: the name of the method and its arguments, after a wait in the triggerer.
        :param instance_id: of the task instance, which is the same after a wait; ``None`` for a new one.
        :param later: how long after now Airflow has started it.
        """
        from airflow.sdk import DAG
        from airflow.sdk.execution_time.task_runner import run

        if not task.has_dag():
            with DAG("guard", schedule=None, params=params) as dag:
                dag.add_task(task)
        self.instance = instance = _instance(task, params or {}, try_number, resume, run_id, map_index, later)
        instance.id = instance_id or instance.id
        before = len(self.supervisor.sent)
        state, message, error = run(instance, instance.get_template_context(), structlog.get_logger())
        sent = self.supervisor.sent[before:]
        pushed = [each.value for each in sent if type(each).__name__ == "SetXCom" and each.key == "return_value"]
        return Outcome(str(state.value), message, error, pushed[-1] if pushed else None, sent)


def _instance(
    task: BaseOperator, conf: dict[str, Any], try_number: int, resume: Any, run_id: str, map_index: int, later: timedelta
) -> Any:
    from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType, TIRunContext
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    now = datetime.now(UTC)
    dag_run = DagRun(
        dag_id=task.dag_id,
        run_id=run_id,
        logical_date=now,
        data_interval_start=now,
        data_interval_end=now,
        run_after=now,
        start_date=now,
        end_date=None,
        run_type=DagRunType.MANUAL,
        state=DagRunState.RUNNING,
        conf=conf,
        consumed_asset_events=[],
        **({"partition_key": None} if "partition_key" in DagRun.model_fields else {}),  # Airflow 3.1 forbids it, 3.3 requires it
    )
    resumed = {"next_method": resume[0], "next_kwargs": stored(resume[1])} if resume else {}
    context = TIRunContext(dag_run=dag_run, max_tries=2, should_retry=True, task_reschedule_count=0, **resumed)
    instance = RuntimeTaskInstance.model_construct(
        id=uuid.uuid4(),
        task_id=task.task_id,
        dag_id=task.dag_id,
        run_id=run_id,
        try_number=try_number,
        map_index=map_index,
        dag_version_id=uuid.uuid4(),
        hostname="host",
        context_carrier={},
        queue="default",
        task=task,
        max_tries=2,
        start_date=now + later,
        end_date=None,
        state=None,
        is_mapped=False,
        rendered_map_index=None,
        sentry_integration="",
        _ti_context_from_server=context,
    )
    instance._ti_context_from_server = context
    return instance


@pytest.fixture
def run_operator(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run one operator in Airflow's task runner, with no database and no API server."""
    from airflow.sdk.execution_time import task_runner

    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return Runner(supervisor)


@pytest.fixture
def numbers(run_operator: Runner) -> dict[str, Any]:
    """The XCom of a task that returned ``NUMBERS``."""
    from handed_tables import NUMBERS, handed

    return handed(run_operator, NUMBERS)


@pytest.fixture
def spark_sessions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables' catalogs for which a Spark session was requested; requesting one fails."""
    from airflow_snowpack.connections.spark import Spark
    from airflow_snowpack.spark import SparkUnavailable

    requested: list[str] = []

    def session(spark: Spark) -> None:
        requested.append(spark.config.app_name)
        raise SparkUnavailable("Spark starts")

    monkeypatch.setattr(Spark, "session", session)
    return requested
