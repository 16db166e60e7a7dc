"""What lint finds in policies whose file can be read, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import STORE, TIME_ZONES
from airflow_snowpack.interim.frames.tables import TABLE_PROPERTIES
from airflow_snowpack.maintenance.action import action_names
from airflow_snowpack.maintenance.policies import Policies, PolicyFinding, Problem, Rule, TableFacts, lint
from airflow_snowpack.maintenance.policies.reading import read_rules

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
SCHEMA = Schema(NestedField(1, "month", LongType()), NestedField(2, "carrier", StringType()))


def facts(name: str, schema: Schema | None = None, **properties: str) -> TableFacts:
    written: Mapping[str, str] = {name.replace("__", "."): text for name, text in properties.items()}
    return TableFacts(TableName.parse(name, catalog="lake"), written, schema)


def linted(text: str, *tables: TableFacts) -> list[PolicyFinding]:
    return lint(Policies(read_rules(text, "policies.yaml")), tables or [facts("a.t"), facts("a.u"), facts("b.t")], now=NOW)


def test_policies_without_mistakes_have_no_findings() -> None:
    text = """
default: {cadence: 12h}
rules:
  - {tables: a.*, exclude: a.u, deadline: 7d}
  - {tables: a.t, quiet: "08:00-20:00", actions: {rewrite_data_files: {where: month > 3, cadence: 1h}}}
"""
    tables = [facts("a.t", SCHEMA, snowpack__max_snapshot_age_days="9", owner="x"), facts("a.u"), facts("b.t")]
    assert linted(text, *tables) == []


def test_the_shipped_file_has_no_findings_on_the_example_tables_and_interim_tables() -> None:
    shipped = Policies.load(Path(__file__).parents[3] / "dags/policies.yaml")
    interim = TableName("lake", "snowpack_interim", "flights_clean_5d2a91bc04de")
    marks = {**TABLE_PROPERTIES, STORE: "3f2a91bc04de", TIME_ZONES: '{"1": "Europe/Berlin"}'}
    assert lint(shipped, [facts("demo.flights"), TableFacts(interim, marks)], now=NOW) == []
    assert shipped.of(interim, marks).skip == "it is an interim table, which the collector drops"


def test_a_pattern_that_matches_no_table_is_found_also_among_exclusions() -> None:
    text = """rules:
  - tables: [a.*, analytic.*]
    exclude: a.tmp_*
    cadence: 1h
"""
    assert list(map(str, linted(text))) == [
        "policies.yaml:2: The pattern 'analytic.*' in 'tables' matches none of 3 tables. Correct or remove it.",
        "policies.yaml:2: The pattern 'a.tmp_*' in 'exclude' matches none of 3 tables. Correct or remove it.",
    ]


@pytest.mark.parametrize(
    ("rules", "overriding"),
    [
        ("- {tables: a.*, cadence: 1h}\n  - {tables: a.*, cadence: 2h}", "rule 'a.*' (policies.yaml:3)"),
        (
            "- {tables: a.*, cadence: 1h}\n  - {tables: a.t, cadence: 2h}\n  - {tables: a.u, cadence: 3h}",
            "rule 'a.t' (policies.yaml:3), rule 'a.u' (policies.yaml:4)",
        ),
        ("- {tables: a.t, cadence: 1h}\n  - {tables: '**', skip: migration}", "rule '**' (policies.yaml:3)"),
        ("- {tables: a.*, cadence: 1h}\n  - {tables: '*.*', enabled: false}", "rule '*.*' (policies.yaml:3)"),
    ],
)
def test_a_rule_whose_values_are_overridden_on_each_of_its_tables_is_found(rules: str, overriding: str) -> None:
    [found] = linted(f"rules:\n  {rules}\n")
    assert found.problem is Problem.UNUSED_RULE
    assert found.where == "policies.yaml:2"
    assert found.message.endswith(f", by {overriding}. Remove it.")


def test_a_rule_that_has_an_effect_on_one_of_its_tables_is_no_finding() -> None:
    assert linted("rules:\n  - {tables: a.*, cadence: 1h}\n  - {tables: a.t, cadence: 2h}\n") == []
    assert linted("rules:\n  - {tables: a.*, enabled: false}\n  - {tables: a.t, enabled: true}\n") == []


def test_a_rule_that_excludes_all_its_tables_is_found() -> None:
    [found] = linted("rules:\n  - {tables: a.*, exclude: a.**, cadence: 1h}\n")
    assert (found.problem, found.where) == (Problem.UNUSED_RULE, "policies.yaml:2")
    assert found.message.startswith("The rule 'a.*' has no effect: 'exclude' leaves out every table that 'tables' matches.")


def test_properties_of_tables_do_not_make_a_rule_useless() -> None:
    assert linted("rules:\n  - {tables: a.t, cadence: 1h}\n", facts("a.t", compaction_skip="true")) == []


def test_a_rule_without_values_is_found_without_any_table() -> None:
    rules = read_rules("rules:\n  - tables: a.*\n", "policies.yaml")
    assert list(map(str, lint(Policies(rules), [], now=NOW))) == ["policies.yaml:2: The rule 'a.*' sets no value. Remove it."]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("snowpack.max_snapshot_age_day", "9", "did you mean 'snowpack.max_snapshot_age_days'? expire_snapshots is disabled"),
        ("snowpack.target_file_size_byte", "9", "did you mean 'snowpack.target_file_size_bytes'? The value below it holds."),
        ("compaction-skip", "true", "has no effect; did you mean 'compaction_skip'?"),
        ("snowpak.maintenance_enabled", "false", "has no effect; did you mean 'snowpack.maintenance_enabled'?"),
        ("snowpack.maintenance_enabled", "no", "must be true or false, not 'no'. The table is skipped until it is corrected."),
    ],
)
def test_a_misspelt_property_of_a_table_is_found_with_its_right_spelling(name: str, text: str, message: str) -> None:
    table = TableFacts(TableName("lake", "a", "t"), {name: text, "write.target-file-size-bytes": "9", "owner": "x"})
    [found] = lint(Policies(), [table], now=NOW)
    assert (found.problem, found.where) == (Problem.PROPERTY, "a.t")
    assert message in found.message


def test_a_predicate_is_checked_with_the_columns_of_each_table() -> None:
    text = "rules:\n  - {tables: a.*, actions: {rewrite_data_files: {where: mnth = 3}}}\n"
    [found] = linted(text, facts("a.t", SCHEMA), facts("a.u"))
    assert found.problem is Problem.PREDICATE
    assert "rule 'a.*' (policies.yaml:2)) cannot be evaluated: the table has no column 'mnth'" in found.message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cadence": "2d", "deadline": "1d"}, "a deadline (rule 'a.*' (test_policy_lint.py:"),
        ({"quiet": ["00:00-12:00", "12:00-00:00"]}, "cover the whole day, so no maintenance starts"),
    ],
)
def test_values_that_contradict_each_other_are_found_once_for_all_tables(values: dict[str, Any], message: str) -> None:
    long = {action: {"deadline": "9d"} for action in action_names() if action != "rewrite_data_files"}
    rule = Rule("a.*", **values, actions=long)
    [found] = lint(Policies([rule]), [facts("a.t"), facts("a.u")], now=NOW)
    assert found.problem is Problem.CONTRADICTION
    assert message in found.message


def test_a_night_of_25_hours_is_no_contradiction() -> None:
    set_back = datetime(2026, 10, 24, 22, tzinfo=UTC)  # midnight in Berlin, before a day of 25 hours
    policies = Policies([Rule("a.*", quiet="00:00-23:59 Europe/Berlin")])
    assert lint(policies, [facts("a.t")], now=set_back) == []


def test_options_that_do_not_go_together_are_found_on_the_tables_they_meet_on() -> None:
    text = "rules:\n  - {tables: a.t, actions: {rewrite_data_files: {options: {strategy: zorder}}}}\n"
    [found] = linted(text)
    assert (found.problem, found.where) == (Problem.PROPERTY, "a.t")
    assert "is needed for strategy 'zorder'" in found.message


def test_a_table_that_cannot_be_read_is_a_finding_and_the_others_are_checked() -> None:
    broken = TableFacts(TableName("lake", "a", "t"), problem="The metadata of a.t cannot be read.")
    found = lint(Policies(), [broken, facts("a.u", compaction_skip="maybe")], now=NOW)
    assert [each.problem for each in found] == [Problem.UNREADABLE_TABLE, Problem.PROPERTY]
