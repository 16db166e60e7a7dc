"""``airflow snowpack policies`` and docs/policies.md: what the page states is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from airflow_since import bundle
from command_line import Run

from airflow_snowpack import hooks
from airflow_snowpack.humanize import duration, size
from airflow_snowpack.iceberg import TableName, load_table, read_health
from airflow_snowpack.maintenance.action import OWN
from airflow_snowpack.maintenance.options import action_class
from airflow_snowpack.maintenance.policies import Policies, policies_schema
from airflow_snowpack.maintenance.policies.definitions import (
    ACTION_KEYS,
    DEFAULT_CADENCE,
    EACH_ACTION,
    TABLE_KEYS,
)
from airflow_snowpack.maintenance.policies.model import MAX_REWRITE_BYTES
from airflow_snowpack.maintenance.policies.properties import known_properties

REPOSITORY = Path(__file__).parents[3]
PAGE = (REPOSITORY / "docs" / "policies.md").read_text()
RULES = """
default: {cadence: 12h}
rules:
  - tables: demo.*
    actions:
      expire_snapshots: {options: {max_age: 10d}}
"""


@pytest.fixture
def dags(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The DAGs folder."""
    folder = installation / "dags"
    folder.mkdir()
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(folder))
    return folder


def set_properties(table: TableName, **properties: str) -> None:
    with hooks.IcebergCatalogHook().catalog.load_table(table.identifier).transaction() as change:
        change.set_properties({name.replace("__", "."): text for name, text in properties.items()})


class TestExplain:
    def test_every_value_is_shown_with_its_origin(self, snowpack: Run, dags: Path, flights: TableName) -> None:
        (dags / "policies.yaml").write_text(RULES)
        set_properties(flights, snowpack__rewrite_data_files__deadline="2d")

        said = snowpack("policies", "explain", "demo.flights")
        assert said.code == 0
        lines = {line.split("|")[0].strip(): [cell.strip() for cell in line.split("|")[1:]] for line in said.out.splitlines()}
        assert lines["expire_snapshots.options.max_age"] == ["10 d", "rule 'demo.*' (policies.yaml:6)"]
        assert lines["rewrite_manifests.cadence"] == ["12 h", "rule '**' (policies.yaml:2)"]
        assert lines["rewrite_data_files.deadline"] == ["2 d", "table property snowpack.rewrite_data_files.deadline"]
        assert lines["max_rewrite_bytes"] == ["10.0 GiB", "default"]
        assert lines["expire_snapshots.thresholds.old_snapshots"] == ["20", "default"]
        assert lines["remove_orphan_files.enabled"] == ["false", "default"]

    def test_json_has_the_same_for_programs(self, snowpack: Run, dags: Path, flights: TableName) -> None:
        (dags / "policies.yaml").write_text(RULES)
        set_properties(flights, compaction_skip="perhaps")

        said = snowpack("policies", "explain", "demo.flights", "--output", "json")
        assert said.code == 0
        assert said.json["table"] == "demo.flights"
        assert said.json["skip"].startswith("table property compaction_skip cannot be used")
        values = {each.pop("path"): each for each in said.json["values"]}
        assert values["expire_snapshots.options.max_age"] == {
            "value": "P10D", "origin": "rule 'demo.*'", "file": "policies.yaml", "line": 6
        }  # fmt: skip
        assert values["quiet"] == {"value": [], "origin": "default", "file": None, "line": None}
        assert [problem["name"] for problem in said.json["problems"]] == ["compaction_skip"]
        assert "Problem: The table property compaction_skip = 'perhaps' cannot be used" in said.err

    @pytest.mark.usefixtures("dags", "flights")
    def test_a_table_that_does_not_exist_is_not_found(self, snowpack: Run) -> None:
        assert snowpack("policies", "explain", "demo.nothing").code == 4

    @pytest.mark.usefixtures("dags")
    def test_without_the_catalog_the_rules_are_explained_alone(
        self, snowpack: Run, flights: TableName, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps({"conn_type": "http", "host": "http://127.0.0.1:9"}))
        said = snowpack("policies", "explain", flights.dotted, "--catalog-conn-id", "gone")
        assert said.code == 6
        assert "max_rewrite_bytes" in said.out
        assert "These are the values without the table's properties." in said.err


class TestLint:
    def test_a_file_and_tables_without_mistakes_pass(self, snowpack: Run, dags: Path, flights: TableName) -> None:
        (dags / "policies.yaml").write_text(RULES)
        set_properties(flights, snowpack__min_input_files="3")
        said = snowpack("policies", "lint")
        assert (said.code, said.out) == (0, "The policies have no problems on 1 table.\n")

    def test_mistakes_on_real_tables_end_it_with_1(self, snowpack: Run, dags: Path, flights: TableName) -> None:
        set_properties(flights, snowpack__max_snapshot_age_day="30")
        (dags / "policies.yaml").write_text(
            "rules:\n  - {tables: demo.*, actions: {rewrite_data_files: {where: mnth = 3}}}\n  - {tables: dmo.*, cadence: 1h}\n"
        )
        said = snowpack("policies", "lint", "--output", "json")
        assert said.code == 1
        assert said.json["tables"] == 1
        assert [(each["problem"], each["where"]) for each in said.json["problems"]] == [
            ("unmatched_pattern", "policies.yaml:3"), ("property", "demo.flights"), ("predicate", "demo.flights")
        ]  # fmt: skip

    def test_a_faulty_file_is_reported_line_by_line(self, snowpack: Run, tmp_path: Path) -> None:
        file = tmp_path / "rules.yaml"
        file.write_text("rules:\n  - tables: demo.*\n    cadance: 1h\n")
        said = snowpack("policies", "lint", "--policies", str(file), "--no-catalog")
        assert (said.code, said.out) == (1, "rules.yaml:3: The key 'cadance' is not known; did you mean 'cadence'?\n")

    @pytest.mark.usefixtures("dags")
    def test_the_properties_of_stored_health_are_enough(self, snowpack: Run, flights: TableName) -> None:
        set_properties(flights, snowpack__min_input_files="many")
        with hooks.SnowpackHook() as hook:
            now = hook.store().clock()
            loaded = load_table(hooks.IcebergCatalogHook().catalog, flights)
            hook.installation.health_records.put(flights, read_health(loaded, now=now))
        set_properties(flights, snowpack__min_input_files="3")

        assert snowpack("policies", "lint", "--stored").code == 1
        assert snowpack("policies", "lint").code == 0

    @pytest.mark.usefixtures("dags")
    def test_a_table_whose_metadata_is_gone_is_one_problem(self, snowpack: Run, flights: TableName) -> None:
        catalog = hooks.IcebergCatalogHook().catalog
        other = catalog.create_table("demo.other", schema=catalog.load_table(flights.identifier).schema())
        Path(other.metadata_location.removeprefix("file://")).unlink()

        said = snowpack("policies", "lint", "--output", "json")
        assert said.code == 1
        assert [(each["problem"], each["where"]) for each in said.json["problems"]] == [("unreadable_table", "demo.other")]


def test_the_schema_is_printed_for_editors(snowpack: Run) -> None:
    assert snowpack("policies", "schema").json == policies_schema()


class TestPage:
    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)

    def test_both_examples_are_policies(self, tmp_path: Path, flights: TableName) -> None:
        (tmp_path / "policies.yaml").write_text(self.blocks("yaml")[0])
        (tmp_path / "policies.py").write_text(self.blocks("python")[0])
        of_yaml, of_python = Policies.load(tmp_path / "policies.yaml"), Policies.load(tmp_path / "policies.py")
        for rules in (of_yaml.rules, of_python.rules):
            assert [rule.name for rule in rules if rule.name != "analytics.page_views"] == ["**", "analytics.*", "legacy.**"]
        shared = [rule.values.keys() for rule in of_yaml.rules if rule.name != "analytics.page_views"]
        assert shared == [rule.values.keys() for rule in of_python.rules]

    def test_its_dag_file_makes_dags(self, dags: Path, monkeypatch: pytest.MonkeyPatch, installation: Path) -> None:
        monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
        (dags / "policies.yaml").write_text("rules: [{tables: analytics.page_views, cadence: 1h}]")
        (dags / "each_table.py").write_text(self.blocks("python")[1])
        bag = bundle(dags)
        assert (bag.import_errors, bag.dag_ids) == ({}, ["maintain.analytics.page_views"])

    def test_its_commands_run(self, snowpack: Run, dags: Path, flights: TableName, monkeypatch: pytest.MonkeyPatch) -> None:
        (dags / "policies.yaml").write_text(RULES)
        monkeypatch.chdir(dags)
        lines = [line for block in self.blocks("bash") for line in block.splitlines()]
        commands = [re.split("[#>]", line)[0].split()[2:] for line in lines]
        assert len(commands) == 4
        for command in commands:
            assert snowpack(*command).code == 0

    def test_its_tables_are_those_of_the_code(self) -> None:
        rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*) \|$", PAGE, re.MULTILINE))
        classes = [action_class(action) for action in OWN]
        thresholds = {f"{each.action}.{name}": found for each in classes for name, found in each.thresholds.items()}
        assert {name: rows.get(name) for name in thresholds} == {
            name: f"{each.default} | {each.doc}" for name, each in thresholds.items()
        }
        one_level = {name for name in known_properties() if name.count(".") < 2}
        by_path = {f"snowpack.{name}" for name in (*TABLE_KEYS, *EACH_ACTION)}
        assert {name for name in rows if name in known_properties()} == one_level - by_path
        assert {*TABLE_KEYS, *EACH_ACTION, "actions"} | {*ACTION_KEYS, "thresholds", "options"} <= rows.keys()
        assert rows["max_rewrite_bytes"].startswith(f"`{size(MAX_REWRITE_BYTES).replace('.0', '')}`")
        assert duration(DEFAULT_CADENCE) == "6 h"

    def test_the_keys_of_the_page_have_the_descriptions_of_the_schema(self) -> None:
        for name in ("enabled", "skip"):
            assert f"| {TABLE_KEYS[name].doc} |" in PAGE


def test_the_example_beside_the_dags_has_no_mistakes(snowpack: Run, installation: Path, flights: TableName) -> None:
    file = REPOSITORY / "dags" / "policies.yaml"
    said = snowpack("policies", "lint", "--policies", str(file), "--no-catalog")
    assert said.code == 0, said.out
    assert Policies.load(file).of(flights, {}).bounds.target_file_size_bytes == 128 * 1024**2
