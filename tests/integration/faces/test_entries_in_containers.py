"""Tasks whose entries run in containers, with tables in and out: with a stand-in for a daemon, and with Podman's engine."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from docker_engine import DockerEngine
from podman_engine import PodmanEngine

from airflow_snowpack import hooks, operators
from airflow_snowpack.interim import read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.faces.conftest import Runner

SECRET = "a-very-secret-value"
SHOW = """
import json, os, sys, pyarrow.parquet as pq
source, target = sys.argv[1:]
rows = pq.read_table(source)
print(json.dumps(sorted(os.environ)))
assert os.environ["TOKEN"].startswith("a-very")
pq.write_table(rows.slice(1), target)
"""


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows, and to an empty catalog; no Spark."""
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, tmp_path / "snowpack.db"))}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("SNOWPACK_LOG_LEVEL", "DEBUG")
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program ``python``, which the image of a module entry has."""
    folder = tmp_path_factory.mktemp("bin")
    folder.chmod(0o755)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def podman() -> Iterator[PodmanEngine | str]:
    """Podman's engine, or why there is none."""
    folder = Path(tempfile.mkdtemp(prefix="podman", dir="/tmp"))
    if (reason := PodmanEngine.unusable(folder)) is not None:
        yield reason
        return
    with PodmanEngine(folder) as engine:
        yield engine


@pytest.fixture(params=["stand-in", "podman"])
def docker(request: pytest.FixtureRequest, python: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The arguments of a task that runs its entry in a container."""
    if request.param == "stand-in":
        monkeypatch.setenv("PATH", f"{python}:/usr/bin:/bin")
        with DockerEngine(images={"acme/score:1.4"}) as engine:
            yield {"runner": "docker", "image": "acme/score:1.4", "runner_options": {"docker_url": engine.url}}
        return
    engine = request.getfixturevalue("podman")
    if isinstance(engine, str):
        pytest.skip(engine)
    program = {"target": "/usr/local/bin", "source": str(python), "type": "bind", "read_only": True}
    # Mounts below a mount need their place in it, and /usr/local/bin is there on every Linux.
    options = engine.options | {"mounts": [*engine.options["mounts"], program]}
    yield {"runner": "docker", "image": engine.image, "runner_options": options}


@pytest.fixture
def numbers(run_operator: Runner) -> dict[str, Any]:
    from airflow.sdk import DAG, task

    with DAG("guard", schedule=None):

        @task.snowpack
        def made() -> pa.Table:
            return pa.table({"number": [1, 2, 3]})

        called: Any = made()
    xcom: dict[str, Any] = run_operator(called.operator).xcom
    return xcom


def values(xcom: dict[str, Any], column: str) -> list[Any]:
    found: list[Any] = read_as_arrow(read_ref(xcom), hooks.IcebergCatalogHook().catalog)[column].to_pylist()
    return found


def test_a_program_in_a_container_receives_and_returns_tables_and_only_its_own_variables(
    run_operator: Runner, docker: dict[str, Any], numbers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(operators.RunEntryOperator, "_log_line", lambda self, line: lines.append(line.text))
    arguments: dict[str, Any] = {
        "command": [sys.executable, "-c", SHOW, "{inputs}/numbers", "{outputs}/scored.parquet"],
        "command_env": {"TOKEN": SECRET},
        "inputs": {"numbers": numbers},
        "outputs": ["scored"],
    }

    outcome = run_operator(operators.RunEntryOperator(task_id="score", **docker, **arguments))

    assert outcome.state == "success", (outcome.error, lines)
    assert values(outcome.xcom, "number") == [2, 3]
    (seen,) = (json.loads(line) for line in lines if line.startswith("["))
    assert "TOKEN" in seen
    assert [name for name in seen if name.startswith(("AIRFLOW", "SNOWPACK"))] == []


def test_a_function_in_a_container_receives_and_returns_tables(
    run_operator: Runner, docker: dict[str, Any], numbers: dict[str, Any]
) -> None:
    from airflow.sdk import DAG, task

    def scored(numbers: pa.Table, factor: int) -> Any:
        import os

        import pyarrow as pa

        variables = sorted(name for name in os.environ if name.startswith(("AIRFLOW", "SNOWPACK", "TOKEN")))
        return {"rows": pa.table({"n": [n * factor for n in numbers["number"].to_pylist()]}), "variables": variables}

    with DAG("guard", schedule=None):
        called: Any = task.snowpack(**docker, command_env={"TOKEN": SECRET})(scored)(numbers, 10)
    outcome = run_operator(called.operator)

    assert outcome.state == "success", outcome.error
    assert values(outcome.xcom["rows"], "n") == [10, 20, 30]
    assert outcome.xcom["variables"] == ["SNOWPACK_LOG_LEVEL", "TOKEN"]


def test_a_failed_container_commits_nothing(run_operator: Runner, docker: dict[str, Any], numbers: dict[str, Any]) -> None:
    program = SHOW + "\nsys.exit(7)"
    arguments: dict[str, Any] = {
        "command": [sys.executable, "-c", program, "{inputs}/numbers", "{outputs}/scored.parquet"],
        "command_env": {"TOKEN": SECRET},
        "inputs": {"numbers": numbers},
        "outputs": ["scored"],
    }

    outcome = run_operator(operators.RunEntryOperator(task_id="score", **docker, **arguments))

    assert outcome.state == "up_for_retry"
    assert "The entry ended with exit code 7" in str(outcome.error)
    with hooks.SnowpackHook() as hook:
        assert [table.producer.task_id for table in hook.interim().tables()] == ["made"]
    assert list((Path(hook.settings.runner_folder)).glob("entry-*")) == []
