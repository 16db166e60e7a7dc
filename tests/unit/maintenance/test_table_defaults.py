"""What Iceberg's own properties of a table set holds unless something above it is set, and is named as the origin."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from edited_metadata import edited_metadata
from health_world import NOW, health, partition
from hypothesis import given, strategies as st
from made_policies import policy
from pyiceberg.transforms import IdentityTransform

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import HealthBounds, read_health, score
from airflow_snowpack.iceberg.table_properties import READERS, owner_properties
from airflow_snowpack.maintenance.actions.expire_snapshots import ExpireSnapshots
from airflow_snowpack.maintenance.actions.rewrite_data_files import RewriteDataFiles, Strategy
from airflow_snowpack.maintenance.errors import InvalidOption
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.maintenance.policies import Policies, Rule, values_of
from airflow_snowpack.maintenance.submit import MaintenanceRequest
from airflow_snowpack.maintenance.table_defaults import NAMES, options_for, table_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.options import ActionOptions

    Flights = Callable[..., Table]

NAME = TableName("lake", "db", "flights")
MIB = 1024**2
AGE, KEEP = "history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep"
TARGET, DELETE_TARGET = "write.target-file-size-bytes", "write.delete.target-file-size-bytes"
DAY_MS = 24 * 3_600_000
OPTIONS: dict[str, tuple[str, str, Callable[[int], str], Callable[[int], Any], Any]] = {
    AGE: ("expire_snapshots", "max_age", lambda days: str(days * DAY_MS), lambda days: timedelta(days=days), timedelta(days=5)),
    KEEP: ("expire_snapshots", "retain_last", str, int, 3),
    TARGET: ("rewrite_data_files", "target_file_size_bytes", lambda mib: str(mib * MIB), lambda mib: mib * MIB, 512 * MIB),
    DELETE_TARGET: (
        "rewrite_position_delete_files",
        "target_file_size_bytes",
        lambda mib: str(mib * MIB),
        lambda mib: mib * MIB,
        None,
    ),
}
"""By property: the option that it sets, its text and the option's value for a number, and the package's default."""
number = st.none() | st.integers(10, 1000)


@given(st.sampled_from(sorted(OPTIONS)), number, number, number, number)
def test_each_layer_is_above_the_ones_before_it_and_named_as_the_origin(
    name: str, iceberg: int | None, rule: int | None, own: int | None, request: int | None
) -> None:
    action, option, text, value, default = OPTIONS[name]
    path = f"{action}.options.{option}"
    rules = [] if rule is None else [Rule("**", actions={action: {"options": {option: value(rule)}}})]
    properties = {} if iceberg is None else {name: text(iceberg)}
    as_text = (lambda days: f"{days}d") if name == AGE else (lambda each: str(value(each)))
    layers = {"default": default} if iceberg is None else {"default": default, f"table property {name}": value(iceberg)}
    layers |= {} if rule is None else {"rule '**'": value(rule)}
    layers |= {} if own is None else {f"table property snowpack.{path}": value(own)}

    found = Policies(rules).of(NAME, properties | ({} if own is None else {f"snowpack.{path}": as_text(own)}))

    strongest, expected = list(layers.items())[-1]
    assert getattr(found.actions[action].options, option) == expected
    assert found.origin(path).source == strongest
    assert {each.path: each.origin.source for each in values_of(found)}[path] == strongest
    direct = options_for(action, {} if request is None else {option: value(request)}, properties)
    nearest = next((each for each in (request, iceberg) if each is not None), None)
    assert getattr(direct, option) == (default if nearest is None else value(nearest))
    if name == TARGET:
        assert found.bounds == HealthBounds(target_file_size_bytes=expected)


JUNK = ["9" * 30, "9" * 5000, "-1", "0", "NaN", "1e3", " 7 ", "true"]
texts = st.text(max_size=8) | st.integers().map(str) | st.sampled_from(JUNK)


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), texts))
def test_no_text_of_a_property_keeps_a_table_from_being_planned_and_scored(properties: dict[str, str]) -> None:
    ages = [timedelta(days=days) for days in range(40, 0, -1)]
    found = Policies().of(NAME, properties)
    table = health([partition(0, data_files=9, small_files=9)], ages=ages, properties=properties)

    plan = plan_table(table, found, now=NOW)
    values_of(found)

    assert 0 <= score(table).total <= 100
    for problem in found.problems:
        assert problem.name in properties
        assert problem.name in problem.message
    for each in plan.decisions:
        assert not (each.runs and each.action in table_defaults(properties).forbidden)
    for action in found.actions:
        parse_options(action, options_for(action, {}, properties).to_json())


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_property_that_cannot_be_used_is_a_problem_with_its_name(name: str) -> None:
    (problem,) = Policies().of(NAME, {name: "junk"}).problems

    assert (problem.name, problem.value) == (name, "junk")
    assert problem.message.startswith(f"The table property {name} = 'junk' cannot be used: it must be ")


@pytest.mark.parametrize("text", ["soon", "-5", "9" * 19, "9" * 5000, ""])
def test_where_the_retention_cannot_be_read_nothing_expires_whatever_rules_say(text: str) -> None:
    eager = Rule("**", actions={"expire_snapshots": {"enabled": True, "deadline": "1d", "options": {"max_age": "1d"}}})
    found = Policies([eager]).of(NAME, {KEEP: text})
    old = health([], ages=[timedelta(days=days) for days in range(90, 0, -1)], properties={KEEP: text})

    decision = plan_table(old, found, now=NOW).of("expire_snapshots")

    assert not decision.runs
    assert KEEP in decision.evidence
    assert found.origin("expire_snapshots.enabled").source == f"table property {KEEP}"
    assert score(old).parts[-1].points == score(old).parts[-1].of


def test_a_retention_for_ever_is_one() -> None:
    found = Policies().of(NAME, {AGE: str(2**63 - 1)})
    options = found.actions["expire_snapshots"].options

    assert isinstance(options, ExpireSnapshots)
    assert options.max_age == timedelta(days=36_500)
    assert found.problems == ()


def test_the_null_of_a_rule_leaves_what_the_owner_set() -> None:
    rules = [Rule("**", actions={"expire_snapshots": {"options": {"max_age": None, "retain_last": None}}})]

    found = Policies(rules).of(NAME, {AGE: str(36 * DAY_MS)})

    assert found.actions["expire_snapshots"].options == ExpireSnapshots(max_age=timedelta(days=36))
    assert found.origin("expire_snapshots.options.max_age").source == f"table property {AGE}"


def test_a_size_that_does_not_go_together_with_a_rule_is_left_out_and_reported() -> None:
    rules = [Rule("**", actions={"rewrite_data_files": {"options": {"min_file_size_bytes": 400 * MIB}}})]

    found = Policies(rules).of(NAME, {TARGET: str(128 * MIB)})

    assert found.actions["rewrite_data_files"].enabled
    assert found.bounds == HealthBounds(min_file_size_bytes=400 * MIB)
    assert found.origin("rewrite_data_files.options.target_file_size_bytes").source == "default"
    assert [problem.name for problem in found.problems] == [TARGET]
    corrected = Policies(rules).of(
        NAME, {TARGET: str(128 * MIB), "snowpack.rewrite_data_files.options.min_file_size_bytes": str(64 * MIB)}
    )
    assert (corrected.bounds.target_file_size_bytes, corrected.problems) == (128 * MIB, ())


@pytest.mark.parametrize("size", ["min_file_size_bytes", "max_file_size_bytes"])
def test_a_size_of_0_in_a_request_follows_the_target_of_the_table(size: str) -> None:
    request = MaintenanceRequest.parse(
        "db.flights", ["rewrite_data_files"], catalog="lake", options={"rewrite_data_files": {size: "0"}}
    )

    found = options_for("rewrite_data_files", request.options["rewrite_data_files"], {TARGET: str(128 * MIB)})

    assert found == RewriteDataFiles(target_file_size_bytes=128 * MIB)


@pytest.mark.parametrize(
    ("target", "sizes"), [(128, {"min_file_size_bytes": 200 * MIB}), (1024, {"max_file_size_bytes": 600 * MIB})]
)
def test_a_request_whose_sizes_do_not_fit_the_target_of_the_table_is_refused(target: int, sizes: dict[str, int]) -> None:
    """As Iceberg does. Without the table's target, files that its owner wants small would grow to ours."""
    properties = {TARGET: str(target * MIB)}

    with pytest.raises(InvalidOption, match=f"is {target * MIB} by the table property {TARGET}, and the other options"):
        options_for("rewrite_data_files", sizes, properties)

    complete = {**sizes, "target_file_size_bytes": 400 * MIB}
    assert options_for("rewrite_data_files", complete, properties) == parse_options("rewrite_data_files", complete)


@pytest.mark.parametrize("given", [{"snapshot_ids": [7]}, {"removal_id": "r1"}])
def test_a_request_of_named_snapshots_takes_no_age_from_the_table(given: dict[str, Any]) -> None:
    assert options_for("expire_snapshots", given, {AGE: str(36 * DAY_MS), KEEP: "50"}) == parse_options("expire_snapshots", given)


@pytest.mark.parametrize(
    ("properties", "strategy", "origin"),
    [
        ({"sort-order": "id ASC", "write.distribution-mode": "range"}, Strategy.SORT, "table property write.distribution-mode"),
        ({"sort-order": "id ASC", "write.distribution-mode": "hash"}, Strategy.BINPACK, "default"),
        ({"sort-order": "id ASC", "write.distribution-mode": "none"}, Strategy.BINPACK, "default"),
        ({"sort-order": "id ASC"}, Strategy.BINPACK, "default"),
        ({"write.distribution-mode": "range"}, Strategy.BINPACK, "default"),
    ],
)
def test_a_table_whose_owner_wants_it_globally_sorted_is_rewritten_in_its_order(
    properties: Mapping[str, str], strategy: Strategy, origin: str
) -> None:
    found = Policies().of(NAME, properties)
    options = found.actions["rewrite_data_files"].options

    assert isinstance(options, RewriteDataFiles)
    assert (options.strategy, found.origin("rewrite_data_files.options.strategy").source) == (strategy, origin)


def test_values_that_iceberg_takes_from_the_table_are_explained() -> None:
    properties = {"commit.manifest.target-size-bytes": str(16 * MIB), "history.expire.max-ref-age-ms": str(DAY_MS)}
    found = Policies().of(NAME, properties)

    shown = {each.path: (each.text, each.origin.source) for each in values_of(found)}

    assert shown["rewrite_manifests.target_size_bytes"] == ("16.0 MiB", "table property commit.manifest.target-size-bytes")
    assert shown["expire_snapshots.max_ref_age"] == ("1 d", "table property history.expire.max-ref-age-ms")
    assert {each.path: each.text for each in values_of(policy())}["rewrite_manifests.target_size_bytes"] == "8.0 MiB"


def test_a_table_of_good_files_by_its_own_target_is_healthy_and_left_alone() -> None:
    properties = {TARGET: str(128 * MIB)}
    bounds = Policies().of(NAME, properties).bounds
    table = replace(health([partition(0, data_files=300, bytes=300 * 120 * MIB)], properties=properties), bounds=bounds)

    decision = plan_table(table, Policies().of(NAME, properties), now=NOW).of("rewrite_data_files")

    assert (bounds.min_file_size_bytes, bounds.max_file_size_bytes) == (96 * MIB, int(1.8 * 128 * MIB))
    assert (decision.verdict, decision.cause) == ("skip", "healthy")
    assert score(table).total == 100


def test_snapshots_that_the_owner_keeps_cost_no_points() -> None:
    ages = [timedelta(days=days) for days in range(200, 0, -1)]

    def points(**properties: str) -> int:
        return score(health([], ages=ages, properties={name.replace("__", "."): text for name, text in properties.items()})).total

    assert points() < 100
    for properties in ({"gc.enabled": "false"}, {AGE: str(2**63 - 1)}, {KEEP: "500"}, {AGE: str(300 * DAY_MS)}):
        assert points(**properties) == 100, properties


def test_the_settings_of_the_branch_are_above_the_properties_in_the_score() -> None:
    ages = [timedelta(days=days) for days in range(200, 0, -1)]

    def points(properties: Mapping[str, str], **settings: int) -> int:
        table = health([], ages=ages, properties=properties)
        return score(replace(table, refs=(replace(table.refs[0], **settings),))).total

    assert points({}, min_snapshots_to_keep=500) == points({}, max_snapshot_age_ms=300 * DAY_MS) == 100
    assert points({}, max_snapshot_age_ms=2**63 - 1) == 100
    assert points({AGE: str(300 * DAY_MS)}, max_snapshot_age_ms=DAY_MS) < 100
    assert points({KEEP: "500"}, min_snapshots_to_keep=1) < 100


def test_health_has_the_bounds_and_the_sort_order_of_its_table(flights: Flights) -> None:
    table = flights(1, 1, 1, properties={TARGET: "512", "write.distribution-mode": "range"})
    with table.update_sort_order() as order:
        order.asc("carrier", IdentityTransform())

    found = read_health(table, now=datetime.now(UTC))

    assert found.bounds == HealthBounds(target_file_size_bytes=512)
    assert found.small_files == 0
    assert found.properties["sort-order"] == owner_properties(table)["sort-order"] == "carrier ASC NULLS LAST"


def test_a_table_whose_writer_left_the_order_of_no_columns_out_is_unsorted(flights: Flights) -> None:
    table = flights(1)
    with edited_metadata(table) as metadata:
        metadata |= {"sort-orders": [], "default-sort-order-id": 0}

    assert "sort-order" not in owner_properties(table.refresh())


@pytest.mark.parametrize("at_plan", [{}, {AGE: str(7 * DAY_MS)}])
def test_a_job_of_a_plan_keeps_what_the_owner_has_set_since_the_plan(at_plan: dict[str, str]) -> None:
    old = health([], ages=[timedelta(days=days) for days in range(90, 0, -1)], properties=at_plan)
    since = {AGE: str(36 * DAY_MS), KEEP: "50"}

    def runs_with(*rules: Rule) -> ActionOptions:
        request = plan_table(old, Policies(rules).of(NAME, at_plan), now=NOW).request()
        return options_for("expire_snapshots", request.options["expire_snapshots"], since)

    assert runs_with() == ExpireSnapshots(max_age=timedelta(days=36), retain_last=50)
    nulls = Rule("**", actions={"expire_snapshots": {"options": {"max_age": None, "retain_last": None}}})
    assert runs_with(nulls) == runs_with(), "the null of a rule sets nothing"
    ruled = Rule("**", actions={"expire_snapshots": {"options": {"max_age": "10d"}}})
    assert runs_with(ruled) == ExpireSnapshots(max_age=timedelta(days=10), retain_last=50)


@pytest.mark.parametrize(
    ("target", "sizes"), [(128, {"max_file_size_bytes": 200 * MIB}), (1024, {"min_file_size_bytes": 600 * MIB})]
)
def test_a_size_of_a_rule_that_fits_the_target_of_the_table_holds_although_it_does_not_fit_ours(
    target: int, sizes: dict[str, int]
) -> None:
    own, properties = {"options": sizes, "thresholds": {"small_files": 1}}, {TARGET: str(target * MIB)}
    found = Policies([Rule("**", actions={"rewrite_data_files": own})]).of(NAME, properties)
    assert (found.bounds, found.problems) == (HealthBounds(target_file_size_bytes=target * MIB, **sizes), ())

    sick = replace(health([partition(0, small_files=60)], properties=properties), bounds=found.bounds)
    request = plan_table(sick, found, now=NOW).request()
    options = parse_options("rewrite_data_files", request.options["rewrite_data_files"])
    assert options == found.actions["rewrite_data_files"].options


def test_a_job_of_a_plan_compacts_to_the_sizes_that_the_plan_was_made_with() -> None:
    own = {"options": {"min_file_size_bytes": 50 * MIB}, "thresholds": {"small_files": 1}}
    properties = {TARGET: str(128 * MIB)}
    found = Policies([Rule("**", actions={"rewrite_data_files": own})]).of(NAME, properties)
    sick = replace(health([partition(0, small_files=60)], properties=properties), bounds=found.bounds)

    options = plan_table(sick, found, now=NOW).request().options["rewrite_data_files"]

    assert "target_file_size_bytes" not in options
    assert options_for("rewrite_data_files", options, properties) == found.actions["rewrite_data_files"].options
