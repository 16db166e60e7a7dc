"""``airflow snowpack schedules check``, and what ``schedules sync`` warns about: tables, DAGs, and no scheduler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import CommitsAdded, PartitionsAdded, RunsSucceeded, Schedule
from airflow_snowpack.scheduling.sources.source import check_sources
from airflow_snowpack.store.signs_of_life import Role, SignOfLife

Run = Callable[..., Any]

DAG_FILE = """
from airflow.sdk import DAG

with DAG("maintain", schedule=None):
    pass
"""


ASSET_FILE = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

with DAG("assets", schedule=Asset("x://schedule")):
    EmptyOperator(task_id="one", inlets=[Asset("x://input")], outlets=[Asset("x://output")])
"""


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DAGs folder with one DAG, which Airflow's database has not seen."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "maintain.py").write_text(DAG_FILE)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    return folder


def declare(folder: Path, *triggers: dict[str, Any], **more: Any) -> str:
    """Declare schedules ``s0``, ``s1``, … and return their file."""
    file = folder / "schedules.yaml"
    schedules = [
        {"name": f"s{number}", "dag_id": "maintain", "trigger": trigger, "enabled": True, **more}
        for number, trigger in enumerate(triggers)
    ]
    file.write_text(yaml.safe_dump({"schedules": schedules}))
    return str(file)


def test_sources_that_are_there_pass_and_whatever_is_wrong_fails_the_check_and_is_named(
    snowpack: Run, dags: Path, flights: TableName
) -> None:
    file = declare(dags, {"all_of": [{"commits_added": flights.dotted}, {"runs_succeeded": "maintain"}]})
    said = snowpack("schedules", "check", file)
    assert (said.code, said.out) == (0, "The sources of 1 schedule have no problems.\n")

    file = declare(
        dags,
        {"all_of": [{"commits_added": flights.dotted}, {"commits_added": "demo.not_there"}]},
        {"any_of": [{"partitions_added": {"table": flights.dotted, "count": 5}}, {"every": "1d"}]},
        {"all_of": [{"runs_failed": "gone"}, {"every": "1d"}]},
    )
    said = snowpack("schedules", "check", file)
    assert said.code == 1
    assert said.out.splitlines() == [
        "s0: the table demo.not_there does not exist; it cannot run as things are.",
        f"s1: the table {flights.dotted} is not partitioned, so all of its data counts as one partition.",
        "s2: the DAG gone does not exist; it cannot run as things are.",
    ]
    answer = snowpack("schedules", "check", file, "-o", "json")
    assert (answer.code, answer.json["problems"][0]) == (
        1,
        {"schedule": "s0", "problem": "the table demo.not_there does not exist", "blocks": True},
    )

    said = snowpack("schedules", "check", declare(dags, {"every": "1d"}, dag_id="misspelt"))
    assert (said.code, said.out) == (1, "s0: the DAG misspelt, which it starts, does not exist; it cannot run as things are.\n")


def test_an_asset_that_no_dag_has_fails_the_check(snowpack: Run, dags: Path) -> None:
    (dags / "assets.py").write_text(ASSET_FILE)
    known = [{"asset_events": uri} for uri in ("x://input", "x://output/", "x://schedule")]
    assert snowpack("schedules", "check", declare(dags, *known)).out == "The sources of 3 schedules have no problems.\n"
    said = snowpack("schedules", "check", declare(dags, {"asset_events": "x://outputs"}))
    assert said.code == 1
    assert said.out == (
        "s0: the asset x://outputs/ is unknown to Airflow: no DAG has it as an inlet, an outlet or its schedule; "
        "it cannot run as things are.\n"
    )


def test_a_catalog_that_does_not_answer_is_no_finding(snowpack: Run, dags: Path, installation: Path) -> None:
    (installation / "lake").mkdir(exist_ok=True)
    file = declare(dags, {"commits_added": "demo.flights"})
    said = snowpack("schedules", "check", file, "--catalog-conn-id", "nowhere")
    assert (said.code, said.out) == (6, "")


def test_enabled_schedules_without_a_scheduler_fail_the_check(snowpack: Run, dags: Path, jobs: Jobs) -> None:
    file = declare(dags, {"every": "1d"})
    assert snowpack("schedules", "check", file).code == 0, "nothing is deployed yet"
    snowpack("schedules", "sync", file)
    said = snowpack("schedules", "check", file)
    assert (said.code, "No scheduler is running" in said.out) == (1, True)
    SignOfLife(jobs.store, Role.SCHEDULER).beat()
    assert snowpack("schedules", "check", file).code == 0


def test_a_sync_warns_and_deploys_all_the_same(snowpack: Run, dags: Path) -> None:
    file = declare(dags, {"commits_added": "demo.not_there"})
    said = snowpack("schedules", "sync", file)
    assert (said.code, said.out) == (0, "Created: s0.\n")
    assert "Warning: s0: the table demo.not_there does not exist; it cannot run as things are." in said.err
    assert "Warning: No scheduler is running" in said.err
    blind = snowpack("schedules", "sync", file, "--catalog-conn-id", "nowhere")
    assert (blind.code, blind.out) == (0, "The store and the files agree.\n")
    assert "Warning: the sources of the schedules were not checked." in blind.err


def test_each_table_is_read_once_and_a_check_of_dags_alone_does_not_connect_to_the_catalog(
    jobs: Jobs, flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise AssertionError("no table is named")

    declared = [Schedule("one", dag_id="d", trigger=RunsSucceeded("gone"))]
    now = jobs.store.clock()
    found = check_sources(declared, catalog_name="lake", load_catalog=refuse, missing_dags={"gone"}, now=now)
    assert [finding.blocks for finding in found] == [True]

    catalog = hooks.IcebergCatalogHook().catalog
    read: list[object] = []
    really = type(catalog).load_table
    monkeypatch.setattr(type(catalog), "load_table", lambda self, name: read.append(name) or really(self, name))
    declared = [
        Schedule(f"s{number}", dag_id="d", trigger=PartitionsAdded(flights.dotted, number + 1) & CommitsAdded(flights.dotted))
        for number in range(20)
    ]
    now = jobs.store.clock()
    found = check_sources(declared, catalog_name="lake", load_catalog=lambda: catalog, missing_dags=(), now=now)
    assert (len(read), len(found)) == (1, 20)
