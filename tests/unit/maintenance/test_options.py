"""What a caller may say about an action."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.maintenance import (
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
    Strategy,
    action_class,
)
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.errors import InvalidOption, UnknownAction
from airflow_snowpack.maintenance.options import (
    ActionOptions,
    defaults,
    option_names,
    parse_all_options,
    parse_options,
    refuse_newer,
)
from airflow_snowpack.maintenance.submit import MaintenanceRequest


def data_files(**given: Any) -> RewriteDataFiles:
    options = parse_options(Action.REWRITE_DATA_FILES, given)
    assert isinstance(options, RewriteDataFiles)
    return options


def test_data_files_have_the_defaults_of_the_specification() -> None:
    assert data_files().procedure_options() == {
        "target-file-size-bytes": "536870912",
        "min-file-size-bytes": "402653184",
        "max-file-size-bytes": "966367641",
        "max-file-group-size-bytes": "107374182400",
        "min-input-files": "5",
        "delete-file-threshold": "2",
        "delete-ratio-threshold": "0.1",
        "rewrite-all": "false",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "10",
        "max-concurrent-file-group-rewrites": "5",
        "remove-dangling-deletes": "false",
    }
    assert data_files().strategy is Strategy.BINPACK


def test_the_other_actions_have_the_defaults_of_the_specification() -> None:
    assert RewritePositionDeleteFiles().partial_progress
    assert RewritePositionDeleteFiles().partial_progress_max_commits == 10
    assert RewriteManifests() == RewriteManifests(use_caching=None, spec_id=None)
    assert ExpireSnapshots() == ExpireSnapshots(max_age=timedelta(days=5), retain_last=3, stream_results=True)
    assert RemoveOrphanFiles().older_than == timedelta(days=3)


def test_the_size_bounds_follow_the_target() -> None:
    options = data_files(target_file_size_bytes=1000)

    assert (options.min_file_size_bytes, options.max_file_size_bytes) == (750, 1800)


def test_every_action_has_options_and_every_default_can_be_given_back() -> None:
    for action in Action:
        assert action_class(action).action == action
        assert parse_options(action, defaults(action)) == action_class(action)()


@pytest.mark.parametrize(
    ("action", "given"),
    [
        (Action.REWRITE_DATA_FILES, {"strategy": "zorder", "zorder_columns": ["origin", "dest"], "where": "month = 3"}),
        (Action.REWRITE_DATA_FILES, {"strategy": "sort", "sort_order": "day desc, carrier"}),
        (Action.REWRITE_POSITION_DELETE_FILES, {"target_file_size_bytes": 1024, "rewrite_all": True}),
        (Action.REWRITE_POSITION_DELETE_FILES, {"max_file_group_input_files": 7}),
        (Action.REWRITE_DATA_FILES, {"output_spec_id": 0, "use_starting_sequence_number": False, "cache_delete_files": True}),
        (Action.REWRITE_MANIFESTS, {"use_caching": False, "spec_id": 0}),
        (Action.EXPIRE_SNAPSHOTS, {"max_age": timedelta(days=1, seconds=1.5), "retain_last": 1, "stream_results": False}),
        (Action.REMOVE_ORPHAN_FILES, {"older_than": "36h", "location": "s3://lake/db/t/data", "prefix_listing": True}),
    ],
)
def test_options_survive_json(action: Action, given: dict[str, Any]) -> None:
    options = parse_options(action, given)

    assert parse_options(action, json.loads(json.dumps(options.to_json()))) == options


def test_text_from_a_rendered_template_is_read() -> None:
    options = data_files(
        min_input_files="2", rewrite_all="True", delete_ratio_threshold="0.25", zorder_columns="a, b.c", strategy="zorder"
    )

    assert (options.min_input_files, options.rewrite_all, options.delete_ratio_threshold) == (2, True, 0.25)
    assert options.zorder_columns == ("a", "b.c")


def test_none_stands_for_not_given() -> None:
    assert data_files(where=None, min_input_files=None) == RewriteDataFiles()


def test_an_unknown_option_is_answered_with_those_that_exist() -> None:
    with pytest.raises(InvalidOption, match=r"option 'retain' of expire_snapshots is not known.*retain_last"):
        parse_options(Action.EXPIRE_SNAPSHOTS, {"retain": 3})


def test_snapshots_are_picked_by_id_alone_and_not_by_age_too() -> None:
    picked = parse_options(Action.EXPIRE_SNAPSHOTS, {"snapshot_ids": "7, 8"})
    assert picked.to_json()["snapshot_ids"] == [7, 8]
    for more in ({"max_age": "1d"}, {"retain_last": 5}):
        with pytest.raises(InvalidOption, match="leave max_age and retain_last out"):
            parse_options(Action.EXPIRE_SNAPSHOTS, {"snapshot_ids": [7], **more})


@pytest.mark.parametrize(
    ("action", "given", "problem"),
    [
        (Action.REWRITE_DATA_FILES, {"max_files_to_rewrite": 0}, "must be at least 1"),
        (Action.REWRITE_DATA_FILES, {"rewrite_job_order": "biggest"}, "must be one of bytes-asc"),
        (Action.REWRITE_DATA_FILES, {"branch": "a b"}, "must be a name"),
        *(
            (Action.REWRITE_DATA_FILES, {"strategy": "zorder", "zorder_columns": ["a"], name: value}, problem)
            for name, value, problem in (
                ("max_file_group_input_files", 0, "must be at least 1"),
                ("max_file_group_input_files", 2**63, "must be at most"),
                ("output_spec_id", -1, "must be at least 0"),
                ("output_spec_id", "new", "must be a whole number"),
                ("use_starting_sequence_number", 0, "must be true or false"),
                ("cache_delete_files", "on", "must be true or false"),
                ("shuffle_partitions_per_file", 0, "must be at least 1"),
                ("max_output_size", 2**31, "must be at most"),
                ("var_length_contribution", 0.5, "must be a whole number"),
            )
        ),
        *(
            (Action.REWRITE_DATA_FILES, {"strategy": "sort", "sort_order": "a", name: 8}, f"'{name}'.*needs strategy 'zorder'")
            for name in ("max_output_size", "var_length_contribution")
        ),
        (Action.REWRITE_DATA_FILES, {"shuffle_partitions_per_file": 2}, "needs strategy 'sort' or 'zorder', not 'binpack'"),
        # A write option that Iceberg sets itself: no procedure reads it.
        *((action, {"output_sort_order_id": 1}, "'output_sort_order_id' of .* is not known") for action in Action),
        *(
            (action, {name: 1}, f"'{name}' of {action} is not known")
            for action in Action
            for name in ("output_spec_id", "use_starting_sequence_number", "cache_delete_files", "max_output_size")
            if action is not Action.REWRITE_DATA_FILES
        ),
        (Action.REWRITE_MANIFESTS, {"max_file_group_input_files": 1}, "is not known"),
        (Action.EXPIRE_SNAPSHOTS, {"snapshot_ids": ["x"]}, "must be a whole number"),
        (Action.REMOVE_ORPHAN_FILES, {"prefix_mismatch_mode": "keep"}, "must be one of error, ignore, delete"),
        (Action.REMOVE_ORPHAN_FILES, {"equal_schemes": ["s3a"]}, "must be a map of texts"),
    ],
)
def test_a_newer_option_of_iceberg_is_read_as_strictly(action: Action, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        parse_options(action, given)


@pytest.mark.parametrize(
    ("action", "given", "problem"),
    [
        (Action.REWRITE_DATA_FILES, {"min_input_files": 0}, "must be at least 1, not 0"),
        (Action.REWRITE_DATA_FILES, {"min_input_files": True}, "must be a whole number, not True"),
        (Action.REWRITE_DATA_FILES, {"min_input_files": 1.5}, "must be a whole number, not 1.5"),
        (Action.REWRITE_DATA_FILES, {"min_input_files": "many"}, "must be a whole number, not 'many'"),
        (Action.REWRITE_DATA_FILES, {"partial_progress_max_commits": 5000}, "must be at most 1000"),
        (Action.REWRITE_DATA_FILES, {"delete_ratio_threshold": 0}, "must be above 0 and at most 1"),
        (Action.REWRITE_DATA_FILES, {"delete_ratio_threshold": "nan"}, "must be above 0 and at most 1"),
        (Action.REWRITE_DATA_FILES, {"rewrite_all": "yes"}, "must be true or false"),
        (Action.REWRITE_DATA_FILES, {"rewrite_all": 1}, "must be true or false"),
        (Action.REWRITE_DATA_FILES, {"strategy": "shuffle"}, "must be one of binpack, sort, zorder"),
        (Action.REWRITE_DATA_FILES, {"where": "  "}, "must be text"),
        (Action.REWRITE_DATA_FILES, {"where": 3}, "must be text"),
        (Action.REWRITE_DATA_FILES, {"min_file_size_bytes": 600_000_000}, "must be below the target"),
        (Action.REWRITE_DATA_FILES, {"max_file_size_bytes": 1000}, "must be above the target"),
        (Action.REWRITE_DATA_FILES, {"sort_order": "day"}, "needs strategy 'sort', not 'binpack'"),
        (Action.REWRITE_DATA_FILES, {"zorder_columns": ["day"]}, "needs strategy 'zorder', not 'binpack'"),
        (Action.REWRITE_DATA_FILES, {"strategy": "zorder"}, "is needed for strategy 'zorder'"),
        (Action.EXPIRE_SNAPSHOTS, {"retain_last": 0}, "must be at least 1"),
        (Action.EXPIRE_SNAPSHOTS, {"max_age": "-1d"}, "must be a duration"),
        (Action.EXPIRE_SNAPSHOTS, {"max_age": timedelta(days=-1)}, "is negative"),
        (Action.EXPIRE_SNAPSHOTS, {"max_age": 5}, "must be a duration"),
        (Action.EXPIRE_SNAPSHOTS, {"max_age": "900000d"}, "must be at most 36500 days"),
        (Action.REMOVE_ORPHAN_FILES, {"older_than": "23h"}, "must be at least 1 d, not 23 h"),
        (Action.REWRITE_MANIFESTS, {"spec_id": -1}, "must be at least 0"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_its_rule(action: Action, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_options(action, given)

    assert problem in str(caught.value)
    assert next(iter(given)) in str(caught.value) or "zorder_columns" in str(caught.value)


def test_a_sort_order_comes_back_spelled_out() -> None:
    options = data_files(strategy="sort", sort_order="day desc , carrier nulls last,origin.code ASC NULLS FIRST")

    assert options.sort_order_argument == "day DESC NULLS LAST, carrier ASC NULLS LAST, origin.code ASC NULLS FIRST"
    assert options.strategy_argument == "sort"


def test_a_z_order_is_a_sort_to_iceberg() -> None:
    options = data_files(strategy="zorder", zorder_columns=["origin", "dest"])

    assert (options.strategy_argument, options.sort_order_argument) == ("sort", "zorder(origin, dest)")


HOSTILE = st.one_of(
    st.sampled_from(
        ["day'); DROP TABLE t; --", "day)", "`day`", "day, ", "zorder(a)", "day DESC DESC", "day\nASC", "a b", "a..b", ".a"]
    ),
    st.text(alphabet="ab'\"`;()-/*\\ ,.\n", min_size=1),
)


@given(HOSTILE)
def test_what_comes_out_of_column_options_is_names_only(text: str) -> None:
    for options in ({"strategy": "zorder", "zorder_columns": [text]}, {"strategy": "sort", "sort_order": text}):
        try:
            argument = data_files(**options).sort_order_argument or ""
        except InvalidOption:
            continue
        assert set(argument) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_., ()")
        assert argument.count("(") == argument.count(")") == (1 if "zorder_columns" in options else 0)


@pytest.mark.parametrize(
    ("action", "options", "lacking", "having"),
    [
        ("rewrite_data_files", {"branch": "audit"}, "1.10.1", "1.11.0"),
        ("rewrite_data_files", {"cache_delete_files": True}, "1.11.0", "1.12.0"),
        ("rewrite_manifests", {"sort_by": "part"}, "1.11.0", "1.12.0"),
    ],
)
def test_an_option_that_the_version_of_iceberg_lacks_is_refused_by_its_name(
    action: str, options: dict[str, Any], lacking: str, having: str
) -> None:
    def request(iceberg: str | None) -> MaintenanceRequest:
        return MaintenanceRequest.parse("db.t", [action], catalog="lake", options={action: options}, iceberg=iceberg)

    (name,) = options
    with pytest.raises(
        InvalidOption, match=rf"'{name}' of {action} needs Iceberg 1\.\d\d, and Spark runs with Iceberg {lacking}:"
    ):
        request(lacking)
    assert request(having).options == request(None).options


def test_options_with_their_defaults_fit_every_version_of_iceberg() -> None:
    refuse_newer([parse_options(action, {}) for action in Action], "1.4.0")


def test_options_for_several_actions_are_read_at_once() -> None:
    parsed = parse_all_options({"expire_snapshots": {"retain_last": 7}, "rewrite_manifests": {}})

    assert parsed == {
        Action.EXPIRE_SNAPSHOTS: ExpireSnapshots(retain_last=7),
        Action.REWRITE_MANIFESTS: RewriteManifests(),
    }


def test_options_for_an_action_that_does_not_exist_are_refused() -> None:
    with pytest.raises(UnknownAction, match="'vacuum' is not a maintenance action"):
        parse_all_options({"vacuum": {}})


def test_options_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(InvalidOption, match="must be a mapping"):
        parse_all_options({"expire_snapshots": ["retain_last"]})  # type: ignore[dict-item]  # what a DAG author may well write


def test_the_base_has_no_rules_of_its_own() -> None:
    assert issubclass(RewriteManifests, ActionOptions)
    RewriteManifests().check()


@pytest.mark.parametrize("text", ["${env:HOME}", "a${system:user.home}b", "s3://x/${x}"])
@pytest.mark.parametrize("action", Action)
def test_no_option_of_any_action_takes_text_with_a_variable(action: Action, text: str) -> None:
    for name in option_names(action):
        for value in (text, [text], {"a": text}, {text: "a"}, [{"a": [text]}]):
            with pytest.raises(InvalidOption, match=r"has '\$\{', with which Spark names a setting or a variable of its process"):
                parse_options(action, {name: value})


@pytest.mark.parametrize("digits", ["\N{FULLWIDTH DIGIT FIVE}", "\N{ARABIC-INDIC DIGIT FIVE}", "0_5"])
def test_numbers_have_ascii_digits_only(digits: str) -> None:
    for name in ("min_input_files", "delete_ratio_threshold"):
        with pytest.raises(InvalidOption):
            parse_options(Action.REWRITE_DATA_FILES, {name: digits})
    with pytest.raises(InvalidOption):
        parse_options(Action.EXPIRE_SNAPSHOTS, {"max_age": f"{digits}d"})
