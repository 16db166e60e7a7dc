"""The embedded store and catalog, and the default folder of builds, are refused where hosts would each have their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.connections.errors import EmbeddedNotShared
from tests.unit.faces.conftest import Runner

pytestmark = pytest.mark.one_database


@pytest.fixture
def embedded(installation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded store beside the embedded catalog."""
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "")


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    "executor",
    [
        "CeleryExecutor",
        "airflow.providers.cncf.kubernetes.executors.kubernetes_executor.KubernetesExecutor",
        "LocalExecutor,CeleryExecutor",
        "LocalExecutor,far:my_company.executors.SomeExecutor",
        "LocalExecutor,team_a=CeleryExecutor",
    ],
)
def test_a_remote_executor_refuses_each_default_with_the_way_out(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)

    with pytest.raises(EmbeddedNotShared, match="store_conn_id") as store:
        hooks.SnowpackHook().url()
    assert "runs tasks on other hosts" in str(store.value)
    with pytest.raises(EmbeddedNotShared, match="catalog_conn_id"):
        hooks.IcebergCatalogHook().config  # noqa: B018 - read for its refusal
    with pytest.raises(EmbeddedNotShared, match=r"builds_url is not set: .* Set it to an object storage"):
        hooks.BuildStorageHook().url_of("flights")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_URL", "/mnt/shared/builds")
    assert hooks.BuildStorageHook().url_of("flights") == "/mnt/shared/builds/flights"


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("executor", ["LocalExecutor", "airflow.executors.local_executor.LocalExecutor", "SequentialExecutor"])
def test_a_local_executor_may_use_both(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)

    assert hooks.SnowpackHook().url().database
    assert hooks.IcebergCatalogHook().config.address
    assert hooks.BuildStorageHook().url_of("flights").endswith("builds/flights")


@pytest.mark.usefixtures("embedded")
def test_a_pod_of_the_kubernetes_executor_is_known_although_its_own_executor_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")

    with pytest.raises(EmbeddedNotShared, match="KubernetesExecutor"):
        hooks.SnowpackHook().url()


@pytest.mark.usefixtures("installation")
def test_a_connection_is_taken_at_its_word_since_its_file_may_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")

    assert hooks.SnowpackHook().url().get_backend_name() == "sqlite"


@pytest.mark.usefixtures("embedded")
def test_a_task_fails_for_good_because_a_retry_changes_nothing(run_operator: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    outcome = run_operator(operators.SweepOperator(task_id="sweep"))

    assert outcome.state == "failed"
    assert "[snowpack] store_conn_id" in str(outcome.error)
