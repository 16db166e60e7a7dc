"""One DAG for each table that the policies maintain, as Airflow parses them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from airflow_since import bundle
from bounded import output_of

from airflow_snowpack import hooks
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.maintenance.policies import InvalidPolicies, PoliciesNotFound
from airflow_snowpack.store import StoreError

if TYPE_CHECKING:
    from airflow.sdk import DAG

DAG_FILE = "from airflow_snowpack.per_table_dags import per_table_dags\nper_table_dags({arguments})\n"
RULES = """
default: {cadence: 12h}
rules:
  - tables: analytics.*
    exclude: analytics.tmp
    cadence: 6h
  - {tables: analytics.users, skip: migration}
  - {tables: shop.orders, cadence: 1h}
"""


def stored_table_names(**given: Any) -> list[str]:
    from airflow_snowpack.hooks.table_names import stored_table_names

    return stored_table_names(**given)


class Listing:
    """A catalog that lists these tables and has nothing else."""

    name = "lake"

    def __init__(self, *tables: str) -> None:
        self._tables = [tuple(table.split(".")) for table in tables]
        self.asked = 0

    def list_namespaces(self, below: tuple[str, ...]) -> list[tuple[str, ...]]:
        self.asked += 1
        return [] if below else sorted({table[:-1] for table in self._tables})

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [table for table in self._tables if table[:-1] == namespace]


@pytest.fixture
def folder(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the DAG file, beside a store and a catalog."""
    monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
    folder = installation / "dags"
    folder.mkdir()
    return folder


def list_catalog(*tables: str) -> None:
    """Store an inventory of these tables."""
    catalog_id = hooks.IcebergCatalogHook().config.catalog_id
    with hooks.SnowpackHook() as hook:
        Inventory(hook.store(), "lake", lambda: Listing(*tables), lambda: catalog_id).refresh()  # type: ignore[arg-type, return-value]


def parsed(folder: Path, rules: str | None = RULES, arguments: str = "") -> dict[str, DAG]:
    """The DAGs that Airflow finds in a file with this call."""
    if rules is not None:
        (folder / "policies.yaml").write_text(dedent(rules))
    (folder / "all_tables.py").write_text(DAG_FILE.format(arguments=arguments))
    bag = bundle(folder)
    assert bag.import_errors == {}
    dags: dict[str, DAG] = bag.dags
    return dags


def test_each_table_that_a_rule_names_or_matches_has_a_dag_unless_it_is_left_out(folder: Path) -> None:
    list_catalog("analytics.page_views", "analytics.users", "analytics.tmp", "other.t")
    assert set(parsed(folder)) == {"maintain.analytics.page_views", "maintain.shop.orders"}


def test_the_task_of_a_dag_runs_the_plan_of_its_table_by_the_same_policies(folder: Path) -> None:
    [dag] = parsed(folder, "rules: [{tables: shop.orders, cadence: 1h}]").values()
    [task] = dag.tasks
    assert (task.task_id, task.table, task.actions) == ("maintain", "shop.orders", "auto")
    assert task.policies == folder / "policies.yaml"
    assert dag.fileloc == str(folder / "all_tables.py")
    assert (dag.catchup, dag.max_active_runs, dag.tags) == (False, 1, {"snowpack", "maintenance"})


def test_arguments_reach_each_dag_and_its_task(folder: Path) -> None:
    arguments = """
        schedule=lambda table: f"{len(table)} * * * *", prefix="keep-", dag_args={"tags": ["mine"], "max_active_tasks": 3},
        execution="queued", priority=7, actions=["expire_snapshots"],
    """
    [dag] = parsed(folder, "rules: [{tables: shop.orders, cadence: 1h}]", arguments).values()
    [task] = dag.tasks
    assert (dag.dag_id, dag.tags, dag.max_active_tasks, dag.schedule) == ("keep-shop.orders", {"mine"}, 3, "11 * * * *")
    assert (task.execution, task.priority, task.actions) == ("queued", 7, ["expire_snapshots"])


def test_rules_that_name_their_tables_need_no_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "missing")
    assert set(parsed(folder, "rules: [{tables: [a.b, c.d], cadence: 1h}]")) == {"maintain.a.b", "maintain.c.d"}


def test_the_default_of_the_file_names_no_table_and_a_rule_for_every_table_names_all(folder: Path) -> None:
    list_catalog("a.t", "b.t")
    assert parsed(folder, "default: {cadence: 1h}") == {}
    assert set(parsed(folder, "rules: [{tables: '**', cadence: 1h}]")) == {"maintain.a.t", "maintain.b.t"}


def test_a_table_that_rules_disable_has_no_dag_unless_a_more_specific_rule_enables_it(folder: Path) -> None:
    list_catalog("a.t", "a.u")
    assert set(parsed(folder, "rules: [{tables: 'a.*', enabled: false}, {tables: a.u, enabled: true}]")) == {"maintain.a.u"}


def test_a_process_that_runs_a_task_makes_only_its_own_dag_and_reads_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "missing")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "maintain.analytics.eu.page_views")
    [dag] = parsed(folder, None).values()
    assert dag.get_task("maintain").table == "analytics.eu.page_views"
    for other in ("report", "maintain.x", "maintain.a.b c"):
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", other)
        assert parsed(folder, None) == {}


def test_a_file_that_cannot_be_used_is_an_error_of_the_dag_file(folder: Path) -> None:
    from airflow_snowpack.per_table_dags import per_table_dags

    with pytest.raises(PoliciesNotFound):
        per_table_dags(folder / "policies.yaml")
    (folder / "policies.yaml").write_text("rules: 7")
    with pytest.raises(InvalidPolicies):
        per_table_dags(folder / "policies.yaml")


class Clock:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds_later = 0.0

    def __call__(self) -> float:
        return self._file.stat().st_mtime + self.seconds_later


@pytest.fixture
def clock(folder: Path) -> Clock:
    """Counts from the moment at which the names of one table were kept."""
    list_catalog("a.t")
    assert stored_table_names() == ["a.t"]
    [file] = (folder.parent / "lake" / "table_names").iterdir()
    return Clock(file)


class TestKeptNames:
    def test_they_are_read_again_after_the_setting_s_period(self, clock: Clock) -> None:
        list_catalog("a.t", "b.t")
        clock.seconds_later = 299
        assert stored_table_names(clock=clock) == ["a.t"]
        clock.seconds_later = 301
        assert stored_table_names(clock=clock) == ["a.t", "b.t"]

    def test_they_stay_while_the_store_does_not_answer(
        self, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        gone = json.dumps({"conn_type": "sqlite", "host": "/dev/null/snowpack.db"})
        monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", gone)
        clock.seconds_later = 1000
        assert stored_table_names(clock=clock) == ["a.t"]
        assert "table_names_not_read" in caplog.text

    def test_a_file_that_was_damaged_is_written_again(self, clock: Clock, folder: Path) -> None:
        [file] = (folder.parent / "lake" / "table_names").iterdir()
        file.write_text("[")
        assert stored_table_names(clock=clock) == ["a.t"]
        assert json.loads(file.read_text()) == ["a.t"]

    def test_a_home_that_cannot_be_written_costs_a_read_at_each_parse(
        self, clock: Clock, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        names = folder.parent / "lake" / "table_names"
        for file in names.iterdir():
            file.unlink()
        names.rmdir()
        names.write_text("a file in the place of the folder")
        assert stored_table_names() == ["a.t"]
        assert "table_names_not_kept" in caplog.text


@pytest.mark.usefixtures("folder")
def test_without_kept_names_a_store_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps({"conn_type": "sqlite", "host": "/dev/null/snowpack.db"}))
    with pytest.raises(StoreError):
        stored_table_names()


PARSE = """
import json, sys
from airflow.dag_processing import manager, processor
before = set(sys.modules)
import runpy
runpy.run_path(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""
HEAVY = {"pyspark", "py4j", "pyiceberg", "pyarrow", "alembic", "psycopg", "pandas", "numpy", "fastapi"}


def test_parsing_with_kept_names_loads_no_store_no_catalog_and_no_spark(folder: Path) -> None:
    list_catalog("analytics.page_views")
    assert set(parsed(folder)) == {"maintain.analytics.page_views", "maintain.shop.orders"}
    modules = json.loads(output_of(sys.executable, "-c", PARSE, str(folder / "all_tables.py")).splitlines()[-1])
    assert {name for name in modules if name.partition(".")[0] in HEAVY} == set()
    assert not [name for name in modules if name.startswith(("airflow_snowpack.store", "airflow_snowpack.jobs.manager"))]
    assert len([name for name in modules if name.startswith("airflow_snowpack.")]) <= 60
