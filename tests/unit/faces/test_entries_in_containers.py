"""Entries in containers and pods, run by Airflow's task runner on a real store and catalog, with tables in and out.

Containers are those of the stand-in for a Docker daemon and, where it runs them, of Podman; pods are those of the stand-in for a
cluster.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from docker_engine import DockerEngine
from handed_tables import left_behind, rows
from kubernetes_api import CLAIM, KubernetesApi
from podman_engine import PodmanEngine
from trigger_rounds import fired, trigger_of

from airflow_snowpack import hooks, operators
from airflow_snowpack.runners import Exchanges
from airflow_snowpack.settings import Settings

if TYPE_CHECKING:
    from airflow_snowpack.operators.entries.base import RunsEntry
    from airflow_snowpack.runners.invocation import OutputLine
    from tests.unit.faces.conftest import Outcome, Runner

IMAGE = "acme/score:1.4"
SECRET = "a-very-secret-value"
COPY = """
import os, sys, pyarrow.parquet as pq
source, target, wanted = sys.argv[1:]
assert os.environ["TOKEN"] == wanted[::-1]
assert [name for name in os.environ if name.startswith(("AIRFLOW", "SNOWPACK"))] == []
rows = pq.read_table(os.path.join(source, os.listdir(source)[0]))
pq.write_table(rows.slice(1), target)
print("copied", rows.num_rows)
"""
COMMAND = [sys.executable, "-c", COPY, "{inputs}/numbers", "{outputs}/copied.parquet", SECRET[::-1]]
# The python of the tests, where the image has none of its own.
ENVIRONMENT = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "TOKEN": "{{ params.token }}"}


@pytest.fixture(params=["docker", "podman", "kubernetes"])
def place(request: pytest.FixtureRequest, installation: Path) -> Iterator[dict[str, Any]]:
    """The arguments of a task that runs an entry there. The test leaves no container and no pod."""
    if request.param == "kubernetes":
        yield from _in_pods(installation)
    elif request.param == "docker":
        with DockerEngine(images={IMAGE}) as engine:
            yield {"runner": "docker", "image": IMAGE, "runner_options": {"docker_url": engine.url}}
            assert engine.containers == {}
    else:
        yield from _in_podman()


@pytest.fixture
def pods(installation: Path) -> Iterator[dict[str, Any]]:
    yield from _in_pods(installation)


def _in_podman() -> Iterator[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="podman", dir="/tmp"))
    if (reason := PodmanEngine.unusable(folder)) is not None:
        pytest.skip(reason)
    with PodmanEngine(folder) as engine:
        yield {"runner": "docker", "image": engine.image, "runner_options": engine.options}
        assert engine.podman("ps", "--all", "--quiet").stdout == ""


def _in_pods(installation: Path) -> Iterator[dict[str, Any]]:
    with KubernetesApi(volumes={CLAIM: Settings.load().runner_folder}) as cluster:
        yield {"runner": "kubernetes", "image": IMAGE, "runner_options": cluster.options(installation)}
        assert (cluster.pods, cluster.secrets) == ({}, {})


@pytest.fixture
def declared(run_operator: Runner) -> Callable[..., Any]:
    """Declare a :class:`RunEntryOperator` with a consumer of its output."""
    from airflow.sdk import DAG, task

    def declare(**arguments: Any) -> Any:
        with DAG("guard", schedule=None, params={"token": SECRET}):
            operator = operators.RunEntryOperator(task_id="score", **arguments)

            @task(task_id="after")
            def after(handed: Any) -> None: ...

            after(operator.output)
        return operator

    return declare


def resumed(run_operator: Runner, operator: Any, deferred: Outcome) -> Outcome:
    """Let the task continue with the first event of its trigger."""
    event = fired(trigger_of(deferred.message))
    resume = (deferred.message.next_method, {**deferred.message.next_kwargs, "event": event})
    return run_operator(operator, params={"token": SECRET}, resume=resume, instance_id=run_operator.instance.id)


def test_a_program_receives_tables_and_hands_on_its_outputs(
    place: dict[str, Any], declared: Callable[..., Any], run_operator: Runner, numbers: dict[str, Any]
) -> None:
    arguments = {"command": COMMAND, "command_env": ENVIRONMENT, "inputs": {"numbers": numbers}, "outputs": ["copied"]}

    outcome = run_operator(declared(**arguments, **place), params={"token": SECRET})

    assert outcome.error is None
    assert rows(outcome.xcom) == [{"number": 2}, {"number": 3}]
    assert left_behind() == []
    assert SECRET not in repr([each for each in outcome.sent if type(each).__name__ != "MaskSecret"])


def test_a_function_receives_tables_and_the_level_of_its_log_and_returns_tables(
    place: dict[str, Any], run_operator: Runner, numbers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk import DAG, task

    monkeypatch.setenv("SNOWPACK_LOG_LEVEL", "DEBUG")

    with DAG("guard", schedule=None):

        @task.snowpack(**place, command_env={"PATH": ENVIRONMENT["PATH"]})
        def doubled(numbers: pa.Table, times: int) -> Any:
            import os

            import pyarrow as pa
            import pyarrow.compute as pc

            own = [name for name in os.environ if name.startswith(("AIRFLOW", "SNOWPACK"))]
            return {"rows": pa.table({"number": pc.multiply(numbers["number"], times)}), "own": own}

        called: Any = doubled(numbers, 2)
    outcome = run_operator(called.operator)

    assert outcome.error is None
    assert outcome.xcom["own"] == ["SNOWPACK_LOG_LEVEL"]
    assert [row["number"] for row in rows(outcome.xcom["rows"])] == [2, 4, 6]
    assert left_behind() == []


def test_an_entry_that_fails_hands_on_nothing(
    place: dict[str, Any], declared: Callable[..., Any], run_operator: Runner, numbers: dict[str, Any]
) -> None:
    fails = [*COMMAND[:2], COPY + "exit(3)", *COMMAND[3:]]
    arguments = {"command": fails, "command_env": ENVIRONMENT, "inputs": {"numbers": numbers}, "outputs": ["copied"]}

    outcome = run_operator(declared(**arguments, **place), params={"token": SECRET})

    assert (outcome.state, outcome.xcom) == ("up_for_retry", None)
    assert "The entry ended with exit code 3." in str(outcome.error)
    assert SECRET not in str(outcome.error)
    assert left_behind() == []
    with hooks.SnowpackHook() as hook:
        assert [table.producer.task_id for table in hook.interim().tables()] == ["made"]


def test_a_task_that_airflow_ends_leaves_nothing(
    place: dict[str, Any], declared: Callable[..., Any], run_operator: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def end_task(self: RunsEntry, line: OutputLine) -> None:
        if not ended:  # by SIGTERM, as Airflow does, when the entry runs
            ended.append(line.text)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(operators.RunEntryOperator, "_log_line", end_task)
    before = signal.getsignal(signal.SIGTERM)
    # The provider passes on a line of a pod when the next one has arrived.
    code = "import time\nprint('started'); print('waits', flush=True)\ntime.sleep(600)"
    operator = declared(command=[sys.executable, "-c", code], command_env=ENVIRONMENT, **place)
    try:
        outcome = run_operator(operator, params={"token": SECRET})
    finally:
        signal.signal(signal.SIGTERM, before)  # the runner leaves its own behind

    assert ended == ["started"]
    assert (outcome.state, str(outcome.error)) == ("up_for_retry", "143")
    assert left_behind() == []


def test_a_deferred_task_hands_on_the_outputs_of_its_pod(
    pods: dict[str, Any], declared: Callable[..., Any], run_operator: Runner, numbers: dict[str, Any]
) -> None:
    pods["runner_options"]["deferrable"] = True
    arguments = {"command": COMMAND, "command_env": ENVIRONMENT, "inputs": {"numbers": numbers}, "outputs": ["copied"]}
    operator = declared(**arguments, **pods)

    outcome = run_operator(operator, params={"token": SECRET})
    assert outcome.state == "deferred", outcome.error
    assert SECRET not in repr(outcome.message)
    with hooks.SnowpackHook() as hook:
        assert [table.readers for table in hook.interim().tables()] == [0], "a deferred task renews no lease"
    ended = resumed(run_operator, operator, outcome)

    assert ended.error is None
    assert rows(ended.xcom) == [{"number": 2}, {"number": 3}]
    assert left_behind() == []


def test_a_deferred_task_that_cannot_resume_leaves_no_pod(
    pods: dict[str, Any], declared: Callable[..., Any], run_operator: Runner
) -> None:
    pods["runner_options"]["deferrable"] = True
    operator = declared(command=["/bin/true"], command_env=ENVIRONMENT, **pods)
    outcome = run_operator(operator, params={"token": SECRET})
    (folder,) = Settings.load().runner_folder.glob("entry-*")
    shutil.rmtree(folder)  # as on a worker that does not share it

    ended = resumed(run_operator, operator, outcome)

    assert "needs workers that share it" in str(ended.error)


def test_the_folder_of_a_deferred_task_is_kept_until_its_time_limit(
    pods: dict[str, Any], declared: Callable[..., Any], run_operator: Runner
) -> None:
    pods["runner_options"]["deferrable"] = True
    limit = {"execution_timeout": timedelta(days=3)}
    operator = declared(command=["/bin/true"], command_env=ENVIRONMENT, **limit, **pods)
    outcome = run_operator(operator, params={"token": SECRET})

    exchanges = Exchanges(Settings.load().runner_folder)
    assert exchanges.sweep(unused_for=timedelta(days=-2)) == []  # as after two days

    assert resumed(run_operator, operator, outcome).error is None
