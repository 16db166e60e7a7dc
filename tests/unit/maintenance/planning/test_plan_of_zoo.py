"""On real tables of every kind, the plan from stored health selects what the plan from the manifests themselves selects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from health_world import policy
from table_zoo import KINDS, Zoo

from airflow_snowpack.iceberg import MetadataReader
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.maintenance.action_run import PlanningContext
from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.plan import plan_action
from airflow_snowpack.maintenance.planning import plan_table
from airflow_snowpack.maintenance.planning.where import NotSelectable, where_of

DATA, SNAPSHOTS = "rewrite_data_files", "expire_snapshots"
LATER = timedelta(hours=2)
"""After the writers: no partition counts as being written to."""


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_bytes_of_a_rewrite_are_those_of_iceberg_rules(zoo: Zoo, kind: str) -> None:
    table, now = zoo.load(zoo.shared(kind)), datetime.now(UTC) + LATER
    rules = policy(
        {DATA: {"options": {"min_input_files": 2}, "thresholds": {"small_files": 1, "large_files": 1, "files_with_deletes": 1}}}
    )
    options = rules.actions[DATA].options

    decision = plan_table(read_health(table, now=now, bounds=rules.bounds), rules, now=now).of(DATA)
    from_manifests = plan_action(options, PlanningContext(MetadataReader(table), zoo.catalog, now)).metrics

    estimate = decision.estimate
    planned = (0, 0) if estimate is None else (estimate.files_removed, estimate.bytes_rewritten)
    assert planned == (from_manifests["rewritten_data_files_count"], from_manifests["rewritten_bytes_count"])
    if "where" in decision.options:
        check_condition(decision.options["where"], table.schema(), "lake")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_snapshots_expire(zoo: Zoo, kind: str) -> None:
    table, now = zoo.load(zoo.shared(kind)), datetime.now(UTC) + timedelta(days=400)
    rules = policy({SNAPSHOTS: {"options": {"max_age": "5d", "retain_last": 1}}, DATA: {"enabled": False}})
    options = rules.actions[SNAPSHOTS].options

    decision = plan_table(read_health(table, now=now), rules, now=now).of(SNAPSHOTS)
    from_metadata = plan_action(options, PlanningContext(MetadataReader(table), zoo.catalog, now))

    planned = 0 if decision.estimate is None else decision.estimate.snapshots_expired
    assert planned == from_metadata.metrics.get("expired_snapshots_count", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_generated_predicate_is_accepted_at_submit(zoo: Zoo, kind: str) -> None:
    table = zoo.load(zoo.shared(kind))
    health = read_health(table, now=datetime.now(UTC))
    for partition in health.partitions:
        try:
            where = where_of(health.specs[partition.spec_id], [partition.values], catalog="lake")
        except NotSelectable:
            assert kind in ("void", "evolved_spec", "dropped_source") or not health.specs[partition.spec_id]
            continue
        check_condition(where, table.schema(), "lake")
