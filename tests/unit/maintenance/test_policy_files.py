"""Policies in YAML and in Python files, and the messages of what cannot be used."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from made_policies import PAGE_VIEWS, loaded, policy

from airflow_snowpack.maintenance.policies import InvalidPolicies, Policies, PoliciesNotFound, Rule


class TestFiles:
    def test_each_value_has_the_line_that_set_it(self, tmp_path: Path) -> None:
        policies = loaded(
            tmp_path,
            """\
            default:
              cadence: 12h
            rules:
              - tables: analytics.*
                exclude: analytics.tmp_*
                quiet: 08:00-20:00 Europe/Berlin
                frozen_until: 2026-12-27T00:00:00+01:00
                actions:
                  expire_snapshots:
                    deadline: 7d
                    options: {max_age: 10d}
            """,
        )
        merged = policies.of(PAGE_VIEWS, {})
        assert {path: str(origin) for path, origin in merged.origins.items() if not path.endswith("cadence")} == {
            "quiet": "rule 'analytics.*' (policies.yaml:6)",
            "frozen_until": "rule 'analytics.*' (policies.yaml:7)",
            "expire_snapshots.deadline": "rule 'analytics.*' (policies.yaml:10)",
            "expire_snapshots.options.max_age": "rule 'analytics.*' (policies.yaml:11)",
        }
        assert str(merged.origin("rewrite_manifests.cadence")) == "rule '**' (policies.yaml:2)"
        assert merged.frozen_until == datetime(2026, 12, 26, 23, tzinfo=UTC)

    def test_python_objects_give_the_same_policies(self, tmp_path: Path) -> None:
        file = tmp_path / "policies.py"
        file.write_text(
            "from airflow_snowpack.maintenance.policies import Policies, Rule\n"
            "policies = Policies([\n"
            "    Rule('analytics.*', cadence='2h', actions={'expire_snapshots': {'options': {'max_age': '10d'}}}),\n"
            "])\n"
        )
        yaml = """\
            rules:
              - {tables: analytics.*, cadence: 2h, actions: {expire_snapshots: {options: {max_age: 10d}}}}
            """
        of_python, of_yaml = Policies.load(file).of(PAGE_VIEWS, {}), loaded(tmp_path, yaml).of(PAGE_VIEWS, {})
        assert of_python.actions == of_yaml.actions
        assert str(of_python.origin("expire_snapshots.cadence")) == "rule 'analytics.*' (policies.py:3)"

    def test_all_problems_of_a_file_are_named_with_their_lines(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidPolicies) as caught:
            loaded(
                tmp_path,
                """\
                rule: []
                rules:
                  - tables: analytics
                    cadance: 3h
                    cadence: 5
                    frozen_until: 2026-12-27
                    quiet: 8-20
                    actions:
                      expire_snapshot: {}
                      rewrite_manifests: true
                      expire_snapshots:
                        options: {max_ag: 1, retain_last: 0}
                        where: a > 1
                        thresholds: {snapshots: 3}
                  - cadence: 1h
                  - skip:
                    tables: a.*
                """,
            )
        assert [str(fault) for fault in caught.value.faults] == [
            "policies.yaml:1: The key 'rule' is not known; did you mean 'rules'?",
            "policies.yaml:3: 'tables' has 'analytics': name the database and the table, such as \"analytics.*\"; "
            '"**" is every table.',
            "policies.yaml:4: The key 'cadance' is not known; did you mean 'cadence'?",
            'policies.yaml:5: \'cadence\' must be a duration such as "5d", "30m", "1d12h" or the ISO 8601 "P5D", not \'5\'.',
            "policies.yaml:6: 'frozen_until' must be a moment with an offset such as \"2026-12-27T00:00:00Z\", not '2026-12-27'.",
            "policies.yaml:7: 'quiet' must be a daily window such as \"08:00-20:00 Europe/Berlin\", not '8-20'.",
            "policies.yaml:9: The action 'expire_snapshot' is not known; did you mean 'expire_snapshots'?",
            "policies.yaml:10: 'rewrite_manifests' must be a mapping, not True; to run it, write 'enabled: true'.",
            "policies.yaml:12: The option of expire_snapshots 'max_ag' is not known; did you mean 'max_age'?",
            "policies.yaml:12: 'expire_snapshots.options.retain_last' must be at least 1, not 0.",
            "policies.yaml:13: expire_snapshots takes no 'where'.",
            "policies.yaml:14: The threshold of expire_snapshots 'snapshots' is not known; did you mean 'old_snapshots'?",
            "policies.yaml:15: A rule needs the key 'tables' with a pattern of table names such as 'analytics.*'.",
            "policies.yaml:16: 'skip' must have a value, not null.",
        ]
        assert str(caught.value).startswith("The policies have 14 problems:\npolicies.yaml:1: ")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("rules: [", "policies.yaml:2: This is not valid YAML: "),
            ("rules: []\nrules: []\n", "policies.yaml:2: The key 'rules' is there twice, first in line 1."),
            ("- tables: a.*\n", "policies.yaml:1: The file must be a mapping with 'default' and 'rules'"),
            ("rules: {tables: a.*}\n", "policies.yaml:1: 'rules' must be a list"),
            ("rules:\n  - a.*\n", "policies.yaml:2: A rule must be a mapping with the key 'tables', not 'a.*'"),
            ("default:\n  tables: a.*\n", "policies.yaml:2: 'default' is for every table; move 'tables' to a rule."),
            ("default:\n  tables: a.*\n  exclude: b.*\n", "policies.yaml:2: 'default' is for every table; move 'tables'"),
            ("default:\n  exclude: b.*\n  tables: a.*\n", "policies.yaml:2: 'default' is for every table; move 'exclude'"),
            ("rules: &a\n  - *a\n", "policies.yaml:2: This file cannot be read: the alias *a refers to a value that"),
            ("rules:\n  - !!python/object:os.x {}\n", "policies.yaml:2: "),
            ("rules: \x07\n", "policies.yaml: This is not valid YAML: "),
            (
                "\ndefault: {frozen_until: 2026-02-30T00:00:00Z}\n",
                "policies.yaml:2: This is not valid YAML: '2026-02-30T00:00:00Z'",
            ),
            ("default: {frozen_until: 9999-12-31T00:00:00Z}\n", "policies.yaml:1: 'frozen_until' must be before the year 9999"),
        ],
    )
    def test_a_file_that_is_no_policies_is_refused(self, tmp_path: Path, text: str, problem: str) -> None:
        with pytest.raises(InvalidPolicies) as caught:
            loaded(tmp_path, text)
        assert str(caught.value).splitlines()[1].startswith(problem)

    def test_parts_can_be_shared_by_anchors(self, tmp_path: Path) -> None:
        policies = loaded(
            tmp_path,
            """\
            default: &often {cadence: 1h, deadline: 1d}
            rules:
              - {<<: *often, tables: analytics.*, deadline: 2d}
            """,
        )
        action = policies.of(PAGE_VIEWS, {}).actions["rewrite_data_files"]
        assert (action.cadence, action.deadline) == (timedelta(hours=1), timedelta(days=2))

    @pytest.mark.parametrize("text", ["", "# nothing yet\n", "rules:\n", "default: {}\nrules: []\n"])
    def test_an_empty_file_leaves_the_defaults(self, tmp_path: Path, text: str) -> None:
        assert loaded(tmp_path, text).of(PAGE_VIEWS, {}) == Policies().of(PAGE_VIEWS, {})

    def test_a_missing_file_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        for name in ("absent.yaml", "absent.py"):
            with pytest.raises(PoliciesNotFound, match=f"{name} cannot be read: No such file .*or correct its path."):
                Policies.load(tmp_path / name)

    @pytest.mark.parametrize(
        ("source", "problem"), [("x = 1", "must name its policies 'policies'"), ("1 / 0", "cannot be run: ZeroDivisionError")]
    )
    def test_a_python_file_without_policies_is_refused(self, tmp_path: Path, source: str, problem: str) -> None:
        file = tmp_path / "policies.py"
        file.write_text(source)
        with pytest.raises(InvalidPolicies, match=problem):
            Policies.load(file)


class TestRulesInPython:
    @pytest.mark.parametrize(
        ("values", "problem"),
        [
            ({"cadence": "5"}, "'cadence' must be a duration"),
            ({"quiet": "25:00-26:00"}, "must be a time of day"),
            ({"quiet": "08:00-08:00"}, "whose end must differ"),
            ({"quiet": "08:00-09:00 Mars/Base"}, "no such time zone"),
            ({"frozen_until": datetime(2026, 1, 1)}, "must be a moment with an offset"),  # noqa: DTZ001  # naive on purpose
            ({"max_rewrite_bytes": 0}, "must be at least one byte"),
            ({"actions": {"rewrite_data_files": {"options": {"where": "a"}}}}, "write it beside 'options'"),
            ({"actions": {"rewrite_data_files": {"thresholds": {"small_files": 0}}}}, "must be at least 1"),
            ({"actions": []}, "must be a mapping of names of actions"),
        ],
    )
    def test_a_value_that_cannot_be_used_is_refused_where_it_stands(self, values: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidPolicies, match=problem) as caught:
            Rule("a.*", **values)
        assert caught.value.faults[0].where.startswith("test_policy_files.py:")

    def test_policies_do_not_change(self) -> None:
        with pytest.raises(FrozenInstanceError):
            policy().skip = "no"  # type: ignore[misc]
