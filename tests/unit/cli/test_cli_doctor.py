"""``airflow snowpack doctor``: each thing that a new installation gets wrong is found, and comes with what to do."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clocks import ShiftedClock
from command_line import Run
from wrong_things import refuse

from airflow_snowpack import hooks
from airflow_snowpack.api.roles import DagState
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.catalog import joined_facts
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store.signs_of_life import Role, SignOfLife

pytestmark = pytest.mark.one_database


def findings(snowpack: Run, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by their check."""
    said = snowpack("doctor", "--no-spark", "-o", "json", *arguments)
    return said.code, {each["check"]: each for each in said.json}


@pytest.mark.usefixtures("flights")
def test_an_installation_that_works_has_nothing_wrong(snowpack: Run) -> None:
    code, found = findings(snowpack)

    assert [each for each in found.values() if each["verdict"] == "wrong"] == []
    assert code == 0
    assert {name for name, each in found.items() if each["verdict"] == "ok"} >= {
        "settings", "store place", "store schema", "catalog answers", "warehouse writable", "spark installed", "plugin loaded",
        "background roles", "other dags", "tables readable", "queue moves",
    }  # fmt: skip
    assert found["spark sees catalog"]["verdict"] == "skipped"


@pytest.mark.usefixtures("flights")
def test_people_read_what_to_do_below_the_table(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "nowhere")
    said = snowpack("doctor", "--no-spark")

    assert said.code == 1
    assert "same store: Open a Snowpack page" in said.out


def test_a_missing_connection_is_named_in_each_check_that_needs_it_and_nothing_is_raised(
    snowpack: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "nowhere")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__AIRFLOW_CONN_ID", "nobody")
    code, found = findings(snowpack)

    assert code == 1
    assert found["catalog answers"]["verdict"] == "wrong"
    assert "'nowhere'" in found["catalog answers"]["message"]
    assert "'nobody'" in found["airflow api"]["message"]
    assert found["store schema"]["verdict"] == "ok"


def test_settings_and_stores_that_cannot_be_read_are_wrong(
    snowpack: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__LEASE", "soon")
    code, found = findings(snowpack)

    assert code == 1
    assert "[snowpack] lease = 'soon' is not valid" in found["settings"]["message"]

    monkeypatch.delenv("AIRFLOW__SNOWPACK__LEASE")
    broken = {"conn_type": "sqlite", "host": str(tmp_path)}
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(broken))
    code, found = findings(snowpack)

    assert code == 1
    assert found["store schema"]["verdict"] == "wrong"


def test_embedded_defaults_under_a_remote_executor_are_wrong(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    code, found = findings(snowpack)

    assert code == 1
    assert found["store place"]["verdict"] == "warning", "the store has a connection, whose file may be shared"
    assert "[snowpack] catalog_conn_id is not set" in found["catalog answers"]["message"]


def test_the_local_paths_that_the_hosts_of_a_remote_executor_would_share_are_listed(
    snowpack: Run, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(snowpack)[1]["local paths"]["verdict"] == "skipped"
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    catalog = {"conn_type": "http", "host": "http://127.0.0.1:1", "extra": {"warehouse": "prod"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(catalog))
    found = findings(snowpack, "--catalog-conn-id", "lake")[1]["local paths"]
    assert (found["verdict"], "Hosts share no local path." in found["message"]) == ("ok", True)

    catalog = {"conn_type": "sqlite", "host": f"{tmp_path}/c.db", "extra": {"warehouse": f"file://{tmp_path}/lake"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(catalog))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__RUNNER_FOLDER", "/mnt/entries")
    registry = BuildRegistry(jobs.store)
    for dataset, url in (("near", f"{tmp_path}/near"), ("far", "s3://lake/far")):
        registry.begin(dataset, url, as_of=jobs.store.clock(), num_shards=1)

    embedded = findings(snowpack)[1]["local paths"]
    assert embedded["verdict"] == "warning"
    assert f"these paths are local: the build near ({tmp_path}/near). Builds without a url are refused" in embedded["message"]
    monkeypatch.setenv("AIRFLOW__SNOWPACK__BUILDS_URL", "/mnt/builds")
    message = findings(snowpack, "--catalog-conn-id", "lake")[1]["local paths"]["message"]
    for path in (
        "[snowpack] builds_url (/mnt/builds)",
        f"the catalog ({tmp_path}/c.db)",
        f"the warehouse (file://{tmp_path}/lake)",
    ):
        assert path in message
    assert "[snowpack] runner_folder (/mnt/entries), except for the runner kubernetes" in message
    assert "s3://" not in message


def test_a_warehouse_that_cannot_be_written_to_is_wrong(snowpack: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_file").write_text("")
    catalog = {"conn_type": "sqlite", "host": f"{tmp_path}/c.db", "extra": {"warehouse": f"file://{tmp_path}/a_file/lake"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(catalog))
    code, found = findings(snowpack, "--catalog-conn-id", "lake")

    assert code == 1
    assert found["catalog answers"]["verdict"] == "ok"
    assert found["warehouse writable"]["verdict"] == "wrong"


def test_no_secret_of_a_catalog_is_printed(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = {
        "conn_type": "http",
        "host": "http://user:hidden-password@127.0.0.1:1",
        "login": "id",
        "password": "secret-word",
        "extra": {"token": "token-word"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(catalog))
    said = snowpack("doctor", "--no-spark", "-o", "json", "--catalog-conn-id", "lake")

    assert said.code == 1
    for secret in ("secret-word", "token-word", "hidden-password"):
        assert secret not in said.out


@pytest.mark.usefixtures("flights")
def test_a_process_with_another_catalog_and_jobs_for_it_are_warnings(snowpack: Run, jobs: Jobs) -> None:
    SignOfLife(jobs.store, Role.API, "web:7", detail={"catalog_id": "bbbbbbbbbbbb", "warehouse": "s3://other"}).beat()
    facts = joined_facts([hooks.IcebergCatalogHook().config, CatalogConfig.rest("lake", "http://west")])
    SignOfLife(jobs.store, Role.WORKER, "both:7", detail=facts).beat()
    jobs.submit(TableName("lake", "demo", "flights", "bbbbbbbbbbbb"), ["expire_snapshots"])
    code, found = findings(snowpack)

    assert code == 0
    assert found["same store"]["verdict"] == "ok"
    assert found["same catalog"]["verdict"] == "warning"
    assert "api web:7 reaches bbbbbbbbbbbb as its catalog" in found["same catalog"]["message"]
    assert "both:7" not in found["same catalog"]["message"], "it reaches this catalog, and another one"
    assert found["queue moves"]["message"] == "Jobs wait for workers of other catalogs: 1 for catalog bbbbbbbbbbbb."


@pytest.mark.usefixtures("flights")
def test_missing_dags_are_a_warning_with_the_line_that_adds_them(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_snowpack.cli.commands.doctor.dag_states", lambda ids: dict.fromkeys(ids, DagState.MISSING))
    code, found = findings(snowpack)

    assert (code, found["other dags"]["verdict"]) == (0, "warning")
    assert found["other dags"]["message"] == "Airflow has no DAG snowpack_prune."
    assert found["other dags"]["to_do"].startswith("Add `from airflow_snowpack.dags import prune` to a DAG file")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__NOTIFIERS", "my_company.alerts:NOTIFIERS")
    assert "`from airflow_snowpack.dags import prune, notifications`" in findings(snowpack)[1]["other dags"]["to_do"]


@pytest.mark.usefixtures("flights")
def test_notifications_that_nobody_receives_or_sends_are_found(snowpack: Run, jobs: Jobs) -> None:
    name = "notifications delivered"
    assert findings(snowpack)[1][name]["verdict"] == "ok"
    jobs.store.clock = ShiftedClock(-timedelta(hours=1))
    SignOfLife(jobs.store, Role.NOTIFIER, "ops.notify", detail={"dag": "ops"}).beat()
    jobs.store.clock = ShiftedClock()
    code, found = findings(snowpack)
    assert (code, found[name]["verdict"], found[name]["to_do"]) == (0, "warning", "Check the latest runs of the DAG ops.")
    refuse(jobs.store, "ana", "Connection refused")
    code, found = findings(snowpack)
    assert (code, found[name]["message"]) == (1, "Notifications are not delivered: ana, 3 attempts: Connection refused")
