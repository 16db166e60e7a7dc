"""Settings of Spark for one action."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from spark_world import SparkWorld

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, ActionEffect, InvalidOption, RewriteManifests, parse_options
from airflow_snowpack.maintenance.action_run import ActionRun

PARTITIONS = "spark.sql.shuffle.partitions"
UNSET = "spark.sql.adaptive.acme"


def test_an_action_has_its_settings_and_the_session_its_own_again(
    world: SparkWorld, one_commit: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    really = RewriteManifests.run

    def run(options: RewriteManifests, given: ActionRun) -> ActionEffect:
        seen.extend(given.statements.setting(name) for name in (PARTITIONS, UNSET))
        return really(options, given)

    monkeypatch.setattr(RewriteManifests, "run", run)
    before = world.spark.conf.get(PARTITIONS)
    result = world.run(one_commit, Action.REWRITE_MANIFESTS, spark_conf={PARTITIONS: "77", UNSET: "lake"})

    assert result.outcome is ActionOutcome.SUCCEEDED
    assert seen == ["77", "lake"]
    assert world.spark.conf.get(PARTITIONS) == before
    assert world.spark.conf.get(UNSET, "unset") == "unset"


def test_a_value_that_spark_refuses_fails_the_action_for_good_and_changes_nothing(
    world: SparkWorld, one_commit: TableName
) -> None:
    before = world.spark.conf.get(PARTITIONS)
    result = world.run(
        one_commit, Action.REWRITE_MANIFESTS, spark_conf={PARTITIONS: "77", "spark.sql.adaptive.enabled": "perhaps"}
    )

    assert (result.outcome, result.final) == (ActionOutcome.FAILED, True)
    assert "spark_conf" in str(result.error)
    assert "is refused by Spark: SparkIllegalArgumentException: [INVALID_CONF_VALUE" in str(result.error)
    assert world.spark.conf.get(PARTITIONS) == before


def test_a_time_limit_ends_an_action_without_another_call_of_spark_which_would_wait_for_its_statement(
    world: SparkWorld, one_commit: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.spark.conf.get(PARTITIONS)

    def run(options: RewriteManifests, given: ActionRun) -> ActionEffect:
        raise KeyboardInterrupt

    monkeypatch.setattr(RewriteManifests, "run", run)
    with pytest.raises(KeyboardInterrupt):
        world.run(one_commit, Action.REWRITE_MANIFESTS, spark_conf={PARTITIONS: "77"})

    assert world.spark.conf.get(PARTITIONS) == "77"
    world.spark.conf.set(PARTITIONS, before)


@pytest.mark.parametrize(
    ("conf", "problem"),
    [
        *(
            ({name: "x"}, f"may set, below spark.sql, .*{name}' is not one of them")
            for name in (
                "spark.driver.memory",
                "spark.sql.variable.substitute",
                "spark.sql.catalog.lake.uri",
                "spark.sql.session.timeZone",
                "spark.sql.ansi.enabled",
                "spark.sql.parser.escapedStringLiterals",
                "spark.sql.sources.commitProtocolClass",
                "spark.sql.adaptive.customCostEvaluatorClass",
                "spark.sql.files.ignoreMissingFiles",
            )
        ),
        ({PARTITIONS: "1; DROP TABLE x"}, "must have a value of letters, digits"),
        ({PARTITIONS: 7}, "must have a value of letters, digits"),
        ("x", "must be a map such as"),
    ],
)
def test_settings_that_are_not_sparks_own_for_one_action_are_refused(conf: Mapping[str, object] | str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        parse_options(Action.REWRITE_MANIFESTS, {"spark_conf": conf})


def test_settings_survive_json() -> None:
    options = parse_options(Action.REWRITE_MANIFESTS, {"spark_conf": {PARTITIONS: "7"}})
    assert options.to_json()["spark_conf"] == {PARTITIONS: "7"}
    assert parse_options(Action.REWRITE_MANIFESTS, options.to_json()) == options
