"""What the properties of a table set, and how faulty ones fail safe."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from made_policies import PAGE_VIEWS, policy

from airflow_snowpack.daily_window import DailyWindow
from airflow_snowpack.maintenance.action import action_names
from airflow_snowpack.maintenance.policies import Policies, Rule


class TestProperties:
    def test_the_published_names_set_their_values(self) -> None:
        merged = policy(
            snowpack__maintenance_cadence_hours="24",
            snowpack__target_file_size_bytes="1000",
            snowpack__max_snapshot_age_days="30",
            snowpack__min_input_files="9",
            snowpack__delete_file_threshold="50",
            snowpack__partial_progress_max_commits="3",
            snowpack__rewrite_data_delete_file_threshold="4",
            snowpack__rewrite_data_delete_ratio_threshold="0.25",
            snowpack__rewrite_data_rewrite_all="true",
        )
        assert merged.problems == ()
        assert {each.cadence for each in merged.actions.values()} == {timedelta(hours=24)}
        data, deletes = (
            merged.actions[name].options.to_json() for name in ("rewrite_data_files", "rewrite_position_delete_files")
        )
        expected = {"target_file_size_bytes": 1000, "min_input_files": 9, "partial_progress_max_commits": 3}
        expected |= {"delete_file_threshold": 4, "rewrite_all": True}
        assert {name: data[name] for name in expected} == expected
        assert data["delete_ratio_threshold"] == 0.25
        assert deletes["partial_progress_max_commits"] == 3
        assert merged.actions["rewrite_position_delete_files"].thresholds == {"delete_files": 50}
        assert merged.actions["expire_snapshots"].options.to_json()["max_age"] == "P30D"

    def test_a_property_is_above_the_most_specific_rule_and_names_itself_as_the_origin(self) -> None:
        rule = Rule("analytics.page_views", actions={"expire_snapshots": {"options": {"max_age": "10d"}}})
        merged = policy(rule, snowpack__max_snapshot_age_days="30")
        assert merged.actions["expire_snapshots"].options.to_json()["max_age"] == "P30D"
        assert str(merged.origin("expire_snapshots.options.max_age")) == "table property snowpack.max_snapshot_age_days"

    def test_any_value_can_be_set_by_its_path(self) -> None:
        merged = policy(
            snowpack__rewrite_data_files__deadline="2d",
            snowpack__expire_snapshots__enabled="false",
            snowpack__rewrite_manifests__options__spec_id="1",
            snowpack__frozen_until="2026-12-27T00:00:00Z",
            snowpack__quiet="08:00-12:00, 13:00-17:00 Europe/Berlin",
            snowpack__max_rewrite_bytes="1 GiB",
            snowpack__cadence="1h",
            snowpack__rewrite_data_files__cadence="2h",
        )
        assert merged.problems == ()
        assert merged.actions["rewrite_data_files"].deadline == timedelta(days=2)
        assert not merged.actions["expire_snapshots"].enabled
        assert merged.actions["rewrite_manifests"].options.to_json()["spec_id"] == 1
        assert merged.frozen_until == datetime(2026, 12, 27, tzinfo=UTC)
        assert merged.quiet == (DailyWindow(time(8), time(12)), DailyWindow(time(13), time(17), "Europe/Berlin"))
        assert merged.max_rewrite_bytes == 1024**3
        assert merged.actions["rewrite_data_files"].cadence == timedelta(hours=2)
        assert merged.actions["rewrite_manifests"].cadence == timedelta(hours=1)

    def test_properties_of_other_programs_are_none_of_its_business(self) -> None:
        merged = policy(write__format="parquet", owner="jana", icepack__compaction_skip="true", snowpacks__x="1")
        assert (merged.problems, merged.skip, merged.origins) == ((), None, {})

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("compaction_skip", "yes"),
            ("compaction_skip", ""),
            ("snowpack.compaction_skip", "true"),
            ("snowpack.maintenance_enabled", "flase"),
            ("snowpack.maintenance_enable", "false"),
            ("snowpack.frozen_until", "next week"),
            ("snowpack.frozen_until", "9999-12-31T23:59:59-12:00"),
            ("snowpack.quiet", "8-20"),
            ("snowpack.skip", " "),
        ],
    )
    def test_a_faulty_property_that_keeps_maintenance_away_skips_the_table(self, name: str, text: str) -> None:
        merged = Policies([Rule("**", enabled=True)]).of(PAGE_VIEWS, {name: text})
        assert merged.skip is not None
        assert merged.skip.startswith(f"table property {name} cannot be used: it ")
        [problem] = merged.problems
        assert (problem.name, problem.value) == (name, text)
        assert problem.message.endswith("The table is skipped until it is corrected.")

    @pytest.mark.parametrize(
        ("name", "text", "action"),
        [
            ("snowpack.max_snapshot_age_days", "30d", "expire_snapshots"),
            ("snowpack.max_snapshot_age_day", "30", "expire_snapshots"),
            ("snowpack.expire_snapshots.options.retain_last", "many", "expire_snapshots"),
            ("snowpack.remove_orphan_files.options.older_than", "1h", "remove_orphan_files"),
            ("snowpack.rewrite_data_files.enabled", "nope", "rewrite_data_files"),
            ("snowpack.rewrite_data_files.where", "", "rewrite_data_files"),
            ("snowpack.rewrite_data_files.where", "a = '${env:AIRFLOW_CONN_CRM}'", "rewrite_data_files"),
            ("snowpack.rewrite_position_delete_files.where", "a = '${system:user.home}'", "rewrite_position_delete_files"),
            ("snowpack.remove_orphan_files.options.location", "s3://${env:X}/a", "remove_orphan_files"),
        ],
    )
    def test_a_faulty_property_that_limits_an_action_disables_it(self, name: str, text: str, action: str) -> None:
        on = Rule("**", actions={name: {"enabled": True} for name in action_names()})
        merged = Policies([on]).of(PAGE_VIEWS, {name: text})
        assert merged.skip is None
        assert [each for each in merged.actions if not merged.actions[each].enabled] == [action]
        assert str(merged.origin(f"{action}.enabled")) == f"table property {name}"
        assert [problem.message for problem in merged.problems if f"{action} is disabled until" in problem.message]

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("snowpack.maintenance_cadence_hours", "0"),
            ("snowpack.target_file_size_bytes", "512MB"),
            ("snowpack.rewrite_data_files.thresholds.small_files", "-1"),
            ("snowpack.max_rewrite_bytes", "much"),
            ("snowpack.nothing_of_the_sort", "1"),
            ("snowpack.spark.sql.autoBroadcastJoinThreshold", "-1"),
        ],
    )
    def test_below_another_faulty_property_the_value_of_the_rules_holds(self, name: str, text: str) -> None:
        rule = Rule("**", cadence="3h", max_rewrite_bytes=7)
        merged = Policies([rule]).of(PAGE_VIEWS, {name: text})
        [problem] = merged.problems
        assert problem.message.startswith(f"The table property {name} = '{text}' cannot be used: it ")
        assert problem.message.endswith("The value below it holds.")
        without = Policies([rule]).of(PAGE_VIEWS, {})
        assert (merged.actions, merged.skip, merged.max_rewrite_bytes) == (without.actions, None, 7)

    def test_a_size_that_does_not_fit_the_rules_leaves_those_of_the_rules(self) -> None:
        rule = Rule(
            "**", actions={"rewrite_data_files": {"options": {"min_file_size_bytes": 4000, "target_file_size_bytes": 5000}}}
        )
        merged = policy(rule, snowpack__target_file_size_bytes="1000")
        assert merged.bounds.target_file_size_bytes == 5000
        assert merged.actions["rewrite_data_files"].enabled
        assert "min_file_size_bytes" in merged.problems[0].message
        assert str(merged.origin("rewrite_data_files.options.target_file_size_bytes")).startswith("rule '**'")

    def test_below_a_size_that_does_not_fit_the_rules_the_size_of_iceberg_s_property_holds(self) -> None:
        rule = Rule("**", actions={"rewrite_data_files": {"options": {"min_file_size_bytes": 4000}}})
        sizes = {"snowpack.target_file_size_bytes": "1000", "write.target-file-size-bytes": "5000"}
        merged = Policies([rule]).of(PAGE_VIEWS, sizes)
        assert merged.bounds.target_file_size_bytes == 5000
        origin = merged.origin("rewrite_data_files.options.target_file_size_bytes")
        assert str(origin) == "table property write.target-file-size-bytes"
