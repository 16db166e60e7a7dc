"""Tasks whose entries run in pods of a stand-in for a cluster, with tables in and out, on a worker or without one."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from kubernetes_api import KubernetesApi

from airflow_snowpack import hooks, operators
from airflow_snowpack.interim import read_ref
from airflow_snowpack.interim.frames.tables import read_as_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.faces.conftest import Outcome, Runner

SECRET = "a-very-secret-value"
SHOW = """
import json, os, sys, pyarrow.parquet as pq
source, target = sys.argv[1:]
rows = pq.read_table(source)
print(json.dumps(sorted(os.environ)), flush=True)
assert os.environ["TOKEN"].startswith("a-very")
pq.write_table(rows.slice(1), target)
"""
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "lake"},
    "spec": {
        "containers": [{"name": "base", "volumeMounts": [{"name": "exchange", "mountPath": "/snowpack"}]}],
        "volumes": [{"name": "exchange", "persistentVolumeClaim": {"claimName": "snowpack-entries"}}],
    },
}


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows, to an empty catalog, and to the mount of a volume."""
    store = {"conn_type": "sqlite", "host": str(shutil.copy(migrated_sqlite, tmp_path / "snowpack.db"))}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(store))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RUNNER_FOLDER", str(tmp_path / "exchange"))
    (tmp_path / "exchange").mkdir()
    return tmp_path


@pytest.fixture
def cluster(installation: Path) -> Iterator[KubernetesApi]:
    """A cluster. The test leaves no pod and no Secret in it."""
    with KubernetesApi(volumes={"snowpack-entries": installation / "exchange"}) as api:
        yield api
        assert api.pods == {}
        assert api.secrets == {}


@pytest.fixture
def kubernetes(cluster: KubernetesApi, installation: Path) -> dict[str, Any]:
    """The arguments of a task that runs its entry in a pod."""
    (installation / "template.yaml").write_text(yaml.safe_dump(TEMPLATE))
    (installation / "kubeconfig").write_text(json.dumps(cluster.kubeconfig()))
    options = {
        "config_file": str(installation / "kubeconfig"),
        "kubernetes_conn_id": None,
        "pod_template_file": str(installation / "template.yaml"),
        "startup_check_interval_seconds": 0.05,
        "poll_interval": 0.05,
        "deferrable": False,
    }
    return {"runner": "kubernetes", "image": "acme/score:1.4", "runner_options": options}


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


def score(kubernetes: dict[str, Any], numbers: dict[str, Any], program: str = SHOW) -> operators.RunEntryOperator:
    return operators.RunEntryOperator(
        task_id="score",
        command=[sys.executable, "-c", program, "{inputs}/numbers", "{outputs}/scored.parquet"],
        command_env={"TOKEN": SECRET},
        inputs={"numbers": numbers},
        outputs=["scored"],
        **kubernetes,
    )


def resumed(run_operator: Runner, operator: operators.RunEntryOperator, waiting: Outcome) -> Outcome:
    """Run the trigger of a deferred task to its event, and then the rest of the task, in the same attempt."""
    from importlib import import_module

    module, _, name = waiting.message.classpath.rpartition(".")
    trigger = getattr(import_module(module), name)(**waiting.message.trigger_kwargs)

    async def first_event() -> Any:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("the trigger ended without an event")

    event = asyncio.run(first_event())
    resume = waiting.message.next_method, {"event": event, **waiting.message.next_kwargs}
    return run_operator(operator, resume=resume, instance_id=run_operator.instance.id)


def assert_scored(outcome: Outcome, installation: Path) -> None:
    assert outcome.state == "success", outcome.error
    rows = read_as_arrow(read_ref(outcome.xcom), hooks.IcebergCatalogHook().catalog)
    assert rows["number"].to_pylist() == [2, 3]
    assert list((installation / "exchange").glob("entry-*")) == []


def test_a_program_in_a_pod_receives_and_returns_tables_and_only_its_own_variables(
    run_operator: Runner,
    cluster: KubernetesApi,
    kubernetes: dict[str, Any],
    numbers: dict[str, Any],
    installation: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(operators.RunEntryOperator, "_log_line", lambda self, line: lines.append(line.text))

    outcome = run_operator(score(kubernetes, numbers))

    assert_scored(outcome, installation)
    (seen,) = (json.loads(line) for line in lines if line.startswith("["))
    assert "TOKEN" in seen
    assert [name for name in seen if name.startswith(("AIRFLOW", "SNOWPACK"))] == []
    assert SECRET not in json.dumps(cluster.created)


def test_a_pod_that_fails_commits_nothing(
    run_operator: Runner, kubernetes: dict[str, Any], numbers: dict[str, Any], installation: Path
) -> None:
    outcome = run_operator(score(kubernetes, numbers, f"{SHOW}\nsys.exit(7)"))

    assert outcome.state == "up_for_retry"
    assert "The entry ended with exit code 7" in str(outcome.error)
    with hooks.SnowpackHook() as hook:
        assert [table.producer.task_id for table in hook.interim().tables()] == ["made"]
    assert list((installation / "exchange").glob("entry-*")) == []


def test_a_task_waits_without_a_worker_while_its_pod_runs(
    run_operator: Runner, kubernetes: dict[str, Any], numbers: dict[str, Any], installation: Path
) -> None:
    kubernetes["runner_options"]["deferrable"] = True
    operator = score(kubernetes, numbers)

    waiting = run_operator(operator)

    assert waiting.state == "deferred", waiting.error
    assert SECRET not in repr(waiting.message)
    with hooks.SnowpackHook() as hook:
        assert [table.readers for table in hook.interim().tables()] == [0], "a deferred task has no lease to renew"
    assert_scored(resumed(run_operator, operator, waiting), installation)
