"""A package that is installed beside this one adds a maintenance action, by an entry point."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from other_package import install
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import (
    Action,
    InvalidOption,
    UnknownAction,
    UnusableAction,
    action_class,
    action_names,
    in_order,
)
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.maintenance.policies import Policies, Rule, policies_schema
from airflow_snowpack.maintenance.submit import MaintenanceRequest

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CODE = '''
from dataclasses import dataclass
from typing import ClassVar

from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import ActionEffect, ActionOptions
from airflow_snowpack.maintenance.options import option
from airflow_snowpack.maintenance.planning import Estimate, Facts, Finding, Rate, Threshold
from airflow_snowpack.maintenance.procedures import procedure_call
from airflow_snowpack.maintenance.readers import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyze(ActionOptions):
    """Write the number of distinct values of columns for Spark's planner."""

    action: ClassVar[str] = "analyze"
    thresholds: ClassVar[dict[str, Threshold]] = {"snapshots": Threshold(3, "Snapshots of the table.")}
    rate: ClassVar[Rate] = Rate(7.0)
    deletes_files: ClassVar[bool] = False

    of: tuple[str, ...] = option((), columns)

    def find(self, facts: Facts) -> Finding:
        count = len(facts.health.snapshots)
        return Finding(f"{count} snapshots", {"snapshots": count}, Estimate(), count >= facts.thresholds["snapshots"], commits=1)

    def plan(self, planning):
        return ActionEffect(ActionOutcome.SUCCEEDED, "Would write statistics", {"columns_count": len(self.of)})

    def run(self, run):
        (row,) = run.call(procedure_call(run.name, "compute_table_stats", {"columns": self.of or None}))
        count = 1 if row["statistics_file"] else 0
        return ActionEffect(ActionOutcome.SUCCEEDED, "Wrote statistics", {"statistics_files_count": count})
'''


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed distribution with one usable and two unusable entry points."""
    points = """\
        [airflow_snowpack.actions]
        analyze = acme_airflow:Analyze
        gone = acme_airflow:Gone
        renamed = acme_airflow:Analyze
    """
    install(tmp_path, "acme_airflow", CODE, points)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_airflow", None)


@pytest.mark.usefixtures("other_package")
def test_an_action_of_another_package_is_planned_and_run_like_our_own(world: SparkWorld, one_commit: TableName) -> None:
    planned = world.preview(one_commit, "analyze", of="id")
    result = world.run(one_commit, "analyze", of="id")

    assert (planned.action, planned.message) == ("analyze", "Would write statistics")
    assert planned.metrics == {"columns_count": 1}
    assert (result.outcome, result.message) == (ActionOutcome.SUCCEEDED, "Wrote statistics")
    assert len(world.table(one_commit).metadata.statistics) == 1


@pytest.mark.usefixtures("other_package")
@pytest.mark.parametrize(("most", "verdict"), [(2, "skip"), (1, "run")])
def test_a_policy_sets_its_thresholds_and_a_plan_decides_by_its_own_rule(
    one_commit: TableName, catalog: Catalog, most: int, verdict: str
) -> None:
    table, now = catalog.load_table(one_commit.identifier), datetime.now(UTC)
    written = {"enabled": True, "thresholds": {"snapshots": most}, "options": {"of": ["id"]}}
    expiring = {"options": {"max_age": "0s", "retain_last": 1}}
    policy = Policies([Rule("**", actions={"analyze": written, "expire_snapshots": expiring})]).of(one_commit, {})
    order = ("analyze", *Action)  # so that the expiry takes its commit into account

    decision = plan_table(read_health(table, now=now, bounds=policy.bounds), policy, now=now, order=order).of("analyze")

    assert (decision.verdict.value, decision.evidence, decision.metrics) == (verdict, "1 snapshots", {"snapshots": 1})
    assert decision.estimate is None or decision.estimate.seconds == 7
    assert "snapshots" in policies_schema()["$defs"]["analyze"]["properties"]["thresholds"]["properties"]


@pytest.mark.usefixtures("other_package")
def test_a_request_may_name_it_and_it_runs_after_our_own() -> None:
    from airflow_snowpack.cli.arguments import ACTION

    request = MaintenanceRequest.parse(
        "db.t", ["analyze", "expire_snapshots"], catalog="lake", options={"analyze": {"of": ["a"]}}
    )

    assert request.actions == ("expire_snapshots", "analyze")
    assert request.options == {"analyze": {"of": ["a"]}}
    assert in_order(["expire_snapshots", "analyze"], ["analyze", *Action])[0] == "analyze"
    assert action_names()[: len(Action)] == tuple(Action)
    assert "analyze" in ACTION.kwargs["choices"], "the command line takes it, too"


@pytest.mark.usefixtures("other_package")
@pytest.mark.parametrize(("name", "problem"), [("gone", "cannot be loaded"), ("renamed", "is not a subclass of ActionOptions")])
def test_an_entry_point_that_cannot_be_used_is_an_error_that_names_it(name: str, problem: str) -> None:
    with pytest.raises(UnusableAction, match=problem):
        action_class(name)


@pytest.mark.usefixtures("other_package")
def test_an_entry_point_that_cannot_be_used_keeps_no_other_action_from_being_requested() -> None:
    from airflow_snowpack.wire.job import SubmitBody

    request = MaintenanceRequest.parse("db.t", ["rewrite_data_files"], catalog="lake", where="month = 3")
    assert request.options == {"rewrite_data_files": {"where": "month = 3"}}
    with pytest.raises(InvalidOption, match="narrows only rewrite_data_files and rewrite_position_delete_files"):
        MaintenanceRequest.parse("db.t", ["expire_snapshots"], catalog="lake", where="month = 3")
    described = SubmitBody.model_json_schema()["properties"]["options"]["properties"]
    assert {"analyze", "expire_snapshots"} <= described.keys()
    assert "gone" not in described


def test_without_that_package_its_action_is_unknown() -> None:
    with pytest.raises(UnknownAction, match="analyze"):
        action_class("analyze")
