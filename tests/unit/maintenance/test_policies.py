"""Policies: what holds for a table after its rules and its properties were merged, and where each value came from."""

from __future__ import annotations

from datetime import timedelta

import pytest
from made_policies import policy, table

from airflow_snowpack.iceberg.health.bounds import HealthBounds
from airflow_snowpack.maintenance.action import action_names
from airflow_snowpack.maintenance.policies import Policies, Rule
from airflow_snowpack.maintenance.policies.errors import InvalidPolicies
from airflow_snowpack.maintenance.policies.patterns import Pattern


class TestWithoutRules:
    def test_every_action_that_a_table_suffers_without_and_that_metadata_can_judge_is_enabled(self) -> None:
        enabled = {action: each.enabled for action, each in policy().actions.items()}
        assert enabled == dict.fromkeys(action_names(), True) | {"remove_orphan_files": False, "compute_table_stats": False}

    def test_an_action_runs_every_six_hours_at_most_and_without_a_deadline(self) -> None:
        compaction = policy().actions["rewrite_data_files"]
        assert (compaction.cadence, compaction.deadline, compaction.where) == (timedelta(hours=6), None, None)
        assert policy().actions["remove_orphan_files"].deadline == timedelta(days=7)

    def test_a_plan_rewrites_ten_gibibytes_at_most(self) -> None:
        assert policy().max_rewrite_bytes == 10 * 1024**3

    def test_the_bounds_of_health_are_the_defaults(self) -> None:
        assert policy().bounds == HealthBounds()

    def test_every_value_comes_from_the_default(self) -> None:
        assert policy().origins == {}
        assert str(policy().origin("expire_snapshots.cadence")) == "default"


class TestPatterns:
    @pytest.mark.parametrize(
        ("pattern", "matching", "others"),
        [
            ("analytics.*", ["analytics.a"], ["other.a", "analytics.eu.a", "xanalytics.a"]),
            ("analytics.**", ["analytics.a", "analytics.eu.a"], ["analytic.a"]),
            ("**", ["analytics.a", "a.b.c.d"], []),
            ("*.page_*", ["analytics.page_views", "b.page_"], ["analytics.my_page_views", "a.b.page_views"]),
            ("a.**.log", ["a.b.log", "a.b.c.log"], ["a.log", "a.b.logs"]),
            ("a.b-c", ["a.b-c"], ["a.b_c"]),
        ],
    )
    def test_a_star_stays_within_a_level_and_two_stars_span_levels(
        self, pattern: str, matching: list[str], others: list[str]
    ) -> None:
        parsed = Pattern.parse(pattern)
        assert [name for name in (*matching, *others) if parsed.matches(name)] == matching

    @pytest.mark.parametrize("text", ["", "page_views", "a..b", "a.b?", "a.[bc]", "a.**b", "a b.c", 7, None, "a.b; drop"])
    def test_what_is_no_pattern_is_refused(self, text: object) -> None:
        with pytest.raises(ValueError, match=r"pattern|name the database"):
            Pattern.parse(text)

    def test_patterns_in_the_order_of_their_specificity(self) -> None:
        ordered = ["**", "a.**", "a.*", "*.page_views", "analytics.page_*", "a.b.**", "a.b.*", "a.page_views"]
        by_specificity = sorted(ordered, key=lambda text: Pattern.parse(text).specificity)
        assert by_specificity == ordered

    def test_a_name_is_more_specific_than_each_pattern_that_matches_it(self) -> None:
        name = Pattern.parse("analytics.eu.page_views")
        patterns = [
            Pattern.parse(text) for text in ("analytics.eu.page_view*", "analytics.**.page_views", "**", "*.eu.page_views")
        ]
        assert all(each.matches(name.text) and each.specificity < name.specificity for each in patterns)


class TestMerging:
    def test_the_most_specific_rule_that_sets_a_value_wins_wherever_it_stands(self) -> None:
        rules = [
            Rule("analytics.page_views", cadence="1h"),
            Rule("analytics.*", cadence="2h", deadline="2d"),
            Rule("**", cadence="3h", deadline="3d", max_rewrite_bytes="1 GiB"),
        ]
        for order in (rules, rules[::-1]):
            merged = policy(*order)
            action = merged.actions["rewrite_manifests"]
            assert (action.cadence, action.deadline, merged.max_rewrite_bytes) == (timedelta(hours=1), timedelta(days=2), 1024**3)

    def test_of_equally_specific_rules_the_later_one_wins(self) -> None:
        first, second = Rule("analytics.*", cadence="1h"), Rule("analytics.*", cadence="2h")
        assert policy(first, second).actions["expire_snapshots"].cadence == timedelta(hours=2)
        assert policy(second, first).actions["expire_snapshots"].cadence == timedelta(hours=1)

    def test_a_rule_with_several_patterns_is_as_specific_as_the_one_that_matches(self) -> None:
        several = Rule(["**", "analytics.page_views"], cadence="1h")
        assert policy(several, Rule("analytics.*", cadence="2h")).actions["expire_snapshots"].cadence == timedelta(hours=1)

    def test_an_excluded_table_keeps_the_values_of_other_rules(self) -> None:
        rules = (Rule("**", cadence="3h"), Rule("analytics.*", exclude="analytics.tmp_*", cadence="1h"))
        assert policy(*rules, of="analytics.tmp_1").actions["expire_snapshots"].cadence == timedelta(hours=3)

    def test_a_value_for_one_action_is_above_the_same_rule_s_value_for_all(self) -> None:
        merged = policy(Rule("**", cadence="3h", actions={"rewrite_manifests": {"cadence": "7d"}}))
        assert {name: each.cadence for name, each in merged.actions.items()} == dict.fromkeys(
            action_names(), timedelta(hours=3)
        ) | {"rewrite_manifests": timedelta(days=7)}

    def test_null_removes_what_less_specific_rules_set(self) -> None:
        wide = Rule("**", deadline="3d", actions={"rewrite_data_files": {"where": "a > 1", "options": {"branch": "b"}}})
        narrow = {"deadline": None, "where": None, "options": {"branch": None}}
        action = policy(wide, Rule("analytics.*", actions={"rewrite_data_files": narrow})).actions["rewrite_data_files"]
        assert (action.deadline, action.where) == (None, None)
        assert "branch" not in action.options.to_json()

    def test_none_in_python_is_null_in_a_file(self) -> None:
        wide = Rule("**", cadence="1d", deadline="3d", frozen_until="2099-01-01T00:00:00Z")
        narrow = Rule("analytics.*", cadence=None, deadline=None, frozen_until=None)
        merged = policy(wide, narrow)
        assert merged.frozen_until is None
        assert {(each.cadence, each.deadline) for each in merged.actions.values()} == {(None, None)}
        with pytest.raises(InvalidPolicies, match="'enabled' must have a value, not null"):
            Rule("**", enabled=None)  # type: ignore[arg-type]  # the mistake that is refused

    def test_options_of_several_rules_are_merged_and_checked_together(self) -> None:
        rules = (
            Rule("**", actions={"rewrite_data_files": {"options": {"strategy": "zorder"}}}),
            Rule("analytics.*", actions={"rewrite_data_files": {"where": "day > 3", "options": {"zorder_columns": ["a", "b"]}}}),
        )
        action = policy(*rules).actions["rewrite_data_files"]
        assert action.enabled
        assert action.options.to_json()["zorder_columns"] == ["a", "b"]
        assert action.where == "day > 3"

    def test_options_that_do_not_go_together_disable_their_action_and_are_reported(self) -> None:
        merged = policy(Rule("**", actions={"rewrite_data_files": {"options": {"strategy": "zorder"}}}))
        assert not merged.actions["rewrite_data_files"].enabled
        assert merged.actions["expire_snapshots"].enabled
        [problem] = merged.problems
        assert "needed for strategy 'zorder'" in problem.message
        assert problem.message.endswith("rewrite_data_files is disabled until this is corrected.")

    def test_the_bounds_of_health_follow_the_options_of_the_compaction(self) -> None:
        options = {"target_file_size_bytes": 1000, "delete_file_threshold": 7}
        bounds = policy(Rule("**", actions={"rewrite_data_files": {"options": options}})).bounds
        assert bounds == HealthBounds(target_file_size_bytes=1000, delete_file_threshold=7)
        assert (bounds.min_file_size_bytes, bounds.max_file_size_bytes) == (750, 1800)

    def test_options_that_are_maps_are_read_with_the_others(self) -> None:
        merged = policy(Rule("**", actions={"remove_orphan_files": {"options": {"equal_schemes": {"s3a": "s3"}}}}))
        assert merged.problems == ()
        assert merged.actions["remove_orphan_files"].options.to_json()["equal_schemes"] == {"s3a": "s3"}


class TestSkipping:
    def test_a_skip_holds_against_any_other_rule_and_property(self) -> None:
        rules = (Rule("**", skip="migration to v3"), Rule("analytics.page_views", enabled=True))
        merged = policy(*rules, snowpack__maintenance_enabled="true")
        assert merged.skip is not None
        assert merged.skip.startswith("migration to v3 (rule '**' (test_policies.py:")

    def test_the_property_compaction_skip_beats_everything(self) -> None:
        merged = policy(Rule("analytics.page_views", enabled=True), compaction_skip="true", snowpack__maintenance_enabled="true")
        assert merged.skip == "table property compaction_skip is true"
        assert policy(compaction_skip="false").skip is None

    def test_a_disabled_table_is_skipped_unless_something_more_specific_enables_it(self) -> None:
        off = Rule("**", enabled=False)
        assert "maintenance is disabled" in str(policy(off).skip)
        assert policy(off, Rule("analytics.*", enabled=True)).skip is None
        assert policy(off, snowpack__maintenance_enabled="true").skip is None
        assert "snowpack.maintenance_enabled" in str(policy(snowpack__maintenance_enabled="false").skip)

    def test_only_a_skip_excludes_a_table_whatever_its_properties_say(self) -> None:
        policies = Policies([Rule("a.*", skip="frozen"), Rule("b.*", enabled=False)])
        assert [policies.excludes(table(name)) for name in ("a.t", "b.t", "c.t")] == [True, False, False]


class TestFleets:
    def test_a_table_is_compared_with_the_rules_of_its_database_only(self) -> None:
        policies = Policies([Rule("**"), *(Rule(f"db_{number}.*", cadence=f"{number + 1}h") for number in range(100))])
        tables = [table(f"db_{number % 100}.t_{number}") for number in range(10_000)]

        assert sum(len(list(policies.candidates(each))) for each in tables) == 2 * len(tables)

    def test_tables_with_the_same_rules_and_properties_share_one_merge(self) -> None:
        policies = Policies([Rule(f"db_{number}.*", cadence=f"{number + 1}h") for number in range(100)])
        merged = [policies.of(table(f"db_{number % 100}.t_{number}"), {"owner": str(number)}) for number in range(1_000)]

        assert len({id(each.actions) for each in merged}) == 100
        assert {each.actions["rewrite_manifests"].cadence for each in merged} == {timedelta(hours=n + 1) for n in range(100)}
        assert merged[150].table.dotted == "db_50.t_150"
