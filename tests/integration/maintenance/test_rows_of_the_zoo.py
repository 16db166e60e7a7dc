"""No action changes the rows of any kind of table, at each snapshot that is kept and on each branch and tag.

PyIceberg reads the table after each action, and Spark before the first and after the last one; what PyIceberg cannot read, Spark
reads each time. Rows are compared as text, because no NaN equals another. ``make soak`` has all kinds that can be read.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import SOAK
from spark_world import SparkWorld
from table_zoo import KINDS, KINDS_OF_SPARK, Zoo, rows

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action

At = dict[int, list[str]]

FEW = (
    "all_transforms",
    "evolved_spec",
    "evolved_schema_with_refs",
    "mixed_deletes",
    "never_written",
    "without_gc",
)
"""Each transform of each type, both kinds of evolution, each kind of delete, and what has no files or may lose none."""
EVERY = (*KINDS, *KINDS_OF_SPARK) if SOAK else FEW
ONLY_SPARK_READS = {"equality_deletes", "mixed_deletes"}
NOT_DONE = {
    ("without_gc", Action.EXPIRE_SNAPSHOTS): ActionOutcome.SKIPPED,
    ("without_gc", Action.REMOVE_ORPHAN_FILES): ActionOutcome.SKIPPED,
    ("shared_location", Action.REMOVE_ORPHAN_FILES): ActionOutcome.FAILED,
}
OPTIONS = {
    # One commit: each of several would be a snapshot more to read.
    "rewrite_data_files": {"rewrite_all": True, "partial_progress": False},
    "rewrite_position_delete_files": {"rewrite_all": True},
    "expire_snapshots": {"max_age": "0s", "retain_last": 2},
}


def read_by_pyiceberg(world: SparkWorld, name: TableName) -> At:
    table = world.table(name)
    return {each.snapshot_id: list(map(repr, rows(table, each.snapshot_id))) for each in table.metadata.snapshots}


def read_by_spark(world: SparkWorld, name: TableName) -> At:
    found: At = {}
    for snapshot in world.table(name).metadata.snapshots:
        rows = world.sql(f"SELECT * FROM {name.quoted} VERSION AS OF {snapshot.snapshot_id}")
        found[snapshot.snapshot_id] = sorted(repr(tuple(row)) for row in rows)
    return found


def heads(world: SparkWorld, name: TableName) -> dict[str, int]:
    return {ref: of.snapshot_id for ref, of in world.table(name).metadata.refs.items()}


@pytest.mark.parametrize("kind", EVERY)
def test_no_action_changes_rows(zoo: Zoo, kind: str, world: SparkWorld) -> None:
    name = zoo.new(kind)

    def read_again(known: At, refs: dict[str, int], read: Callable[[SparkWorld, TableName], At]) -> None:
        """Compare what is read now, at each snapshot and on each ref, with what was read before."""
        found, kept = read(world, name), heads(world, name)
        assert kept.keys() == refs.keys()
        assert {ref: found[snapshot] for ref, snapshot in kept.items()} == {ref: known[was] for ref, was in refs.items()}
        both = found.keys() & known.keys()
        assert {each: found[each] for each in both} == {each: known[each] for each in both}

    after_each = read_by_spark if kind in ONLY_SPARK_READS else read_by_pyiceberg
    seen_by_spark, refs = read_by_spark(world, name), heads(world, name)
    seen = seen_by_spark if after_each is read_by_spark else after_each(world, name)
    job = world.job(name, **OPTIONS)
    for action in Action:
        result = world.engine.run(job, action)
        expected = NOT_DONE.get((kind, action), ActionOutcome.SUCCEEDED)
        assert result.outcome is expected, (action, result.message, result.error)
        read_again(seen, refs, after_each)
    if after_each is not read_by_spark:
        read_again(seen_by_spark, refs, read_by_spark)
