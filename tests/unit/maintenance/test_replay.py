"""The simulation of a policy on the commits that a table really had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from table_zoo import KINDS, Zoo, append, commit_times, data_files
from written_deletes import commit_position_delete

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.health import FileCounts, read_health
from airflow_snowpack.maintenance.actions.rewrite_data_files import RewriteDataFiles
from airflow_snowpack.maintenance.policies import Policies, Rule, TablePolicy
from airflow_snowpack.maintenance.replay.health import health_of
from airflow_snowpack.maintenance.replay.history import NoHistory, read_history
from airflow_snowpack.maintenance.replay.simulation import passes, recorded, replay_tables, simulate
from airflow_snowpack.maintenance.replay.state import SimulatedTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

NOW = datetime(2026, 11, 20, tzinfo=UTC)
DAY = timedelta(days=1)
DAILY, EVERY_THREE_DAYS = passes(NOW - DAY * 9, NOW, DAY), passes(NOW - DAY * 9, NOW, DAY * 3)
COMPACTING: dict[str, Any] = {"thresholds": {"small_files": 2}, "options": {"min_input_files": 2}}


def name_of(table: Table) -> TableName:
    return TableName("lake", *table.name())


def policy(
    name: TableName, *, cadence: str = "1h", properties: Mapping[str, str] | None = None, **actions: dict[str, Any]
) -> TablePolicy:
    """A policy with these actions alone, of a table with these properties."""
    off: dict[str, Any] = {
        action: {"enabled": False}
        for action in ("rewrite_data_files", "rewrite_position_delete_files", "rewrite_manifests", "expire_snapshots")
    }
    return Policies([Rule("**", cadence=cadence, actions={**off, **actions})]).of(name, properties or {})


def compacting(table: Table) -> TablePolicy:
    """A policy that compacts two files and more."""
    return policy(name_of(table), rewrite_data_files=COMPACTING)


@pytest.fixture
def daily(zoo: Zoo) -> Table:
    """A table without partitions that gets a file of ten rows every noon; the tenth of them at the last noon before now."""
    name = zoo.new("never_written")
    for _ in range(10):
        append(zoo.load(name), ["a"] * 10)
    commit_times(zoo, name, [NOW - DAY * 9.5 + DAY * each for each in range(10)])
    return zoo.load(name)


READABLE = [kind for kind in KINDS if kind not in ("never_written", "branches_and_tags", "evolved_schema_with_refs")]
"""A replay follows ``main``: it does not count the snapshots of other branches."""


@pytest.mark.parametrize("kind", READABLE)
def test_a_replay_without_passes_ends_with_the_health_of_the_table(zoo: Zoo, kind: str) -> None:
    table = zoo.load(zoo.shared(kind))
    history = read_history(table, NOW - DAY * 30)
    state = SimulatedTable(history)
    for commit in history.commits:
        state.write(commit)
    real = read_health(table, now=NOW)

    simulated = health_of(state, real, real.bounds, NOW)

    assert counts(simulated) == counts(real)
    assert counts(simulated.outdated) == counts(real.outdated)
    for name in ("totals", "partition_count", *(field.name for field in fields(real) if "manifests" in field.name)):
        assert getattr(simulated, name) == getattr(real, name), name
    assert {partition(each) for each in simulated.partitions} == {partition(each) for each in real.partitions}


def counts(found: FileCounts) -> dict[str, int]:
    return {name: getattr(found, name) for name in asdict(FileCounts())}


def partition(found: Any) -> tuple[Any, ...]:
    manifests = found.data_manifests, found.delete_manifests
    return found.spec_id, found.label, found.values, found.own_deletes_files, *manifests, *counts(found).values()


def test_the_table_is_compacted_at_each_pass_that_finds_enough(daily: Table) -> None:
    history = read_history(daily, NOW - DAY * 10)
    found = simulate(history, compacting(daily), EVERY_THREE_DAYS, label="new")

    assert [(run.at, run.action, run.done.files_removed, run.done.files_added) for run in found.runs] == [
        (NOW - DAY * 6, "rewrite_data_files", 4, 1),
        (NOW - DAY * 3, "rewrite_data_files", 4, 1),
        (NOW, "rewrite_data_files", 4, 1),
    ]
    assert found.points[-1].files == 1
    assert found.most_files == 4


@pytest.mark.parametrize(("granularity", "left"), [("file", 2), ("partition", 1)])
def test_position_deletes_are_combined_as_spark_combines_them_and_then_left_alone(zoo: Zoo, granularity: str, left: int) -> None:
    name = zoo.new("never_written")
    table = zoo.load(name)
    table.transaction().set_properties({"write.delete.granularity": granularity}).commit_transaction()
    for _ in range(2):
        append(table.refresh(), ["a"] * 10)
    first, second = data_files(table)
    for position in (0, 1, 2):
        commit_position_delete(table, {first: [position]})
        commit_position_delete(table, {second: [position]})
    commit_times(zoo, name, [NOW - DAY * 8] * 8)
    deletes = {"thresholds": {"delete_files": 2}, "options": {"min_input_files": 2}}
    history = read_history(zoo.load(name), NOW - DAY * 10)

    found = simulate(history, policy(name, rewrite_position_delete_files=deletes), EVERY_THREE_DAYS, label="new")

    assert [(run.done.files_removed, run.done.files_added) for run in found.runs] == [(6, left)]
    assert found.points[-1].delete_files == left


def test_the_bytes_of_the_runs_are_those_of_the_files_that_they_read(daily: Table) -> None:
    history = read_history(daily, NOW - DAY * 10)
    sizes = [commit.added[0].bytes for commit in (history.start, *history.commits)]
    found = simulate(history, compacting(daily), EVERY_THREE_DAYS, label="new")

    assert [run.done.bytes_rewritten for run in found.runs] == [sum(sizes[:4]), sum(sizes[:7]), sum(sizes)]


def test_without_maintenance_the_files_stay(daily: Table) -> None:
    found = recorded(read_history(daily, NOW - DAY * 10), NOW, maintained=False)

    assert [point.files for point in found.points] == [*range(1, 11), 10]
    assert found.points[-1].at == NOW


def test_a_replay_begins_with_what_the_table_had_then(daily: Table) -> None:
    history = read_history(daily, NOW - DAY * 4)

    assert len(history.start.added) == 6
    assert len(history.earlier) == 5
    assert len(history.commits) == 4


def test_a_table_that_was_never_written_has_no_history(zoo: Zoo) -> None:
    with pytest.raises(NoHistory, match=r"no current snapshot"):
        read_history(zoo.load(zoo.shared("never_written")), NOW)


def replace_table(table: Table) -> None:
    """Remove the main branch, as the replacement of a table does."""
    with table.transaction() as transaction:
        transaction._apply((RemoveSnapshotRefUpdate(ref_name="main"),))
    table.refresh()


def test_the_commits_after_which_a_table_was_rolled_back_are_counted(daily: Table) -> None:
    since, line = NOW - DAY * 5, [each.snapshot_id for each in daily.metadata.snapshots]
    daily.manage_snapshots().rollback_to_snapshot(line[5]).commit()
    append(daily, ["a"] * 10)
    daily.refresh()

    history = read_history(daily, since)

    assert [each.snapshot_id for each in history.commits] == [line[5], daily.metadata.current_snapshot_id]
    assert history.abandoned == len(line[6:])
    since_rollback = datetime.now(UTC)
    assert read_history(daily, since_rollback).abandoned == 0, "before the time of the replay"


@pytest.mark.parametrize(("days", "left_behind"), [(5, 6), (0, 1)])
def test_the_commits_before_which_a_table_was_replaced_are_counted(daily: Table, days: int, left_behind: int) -> None:
    """After a CREATE OR REPLACE TABLE, the first snapshot has no parent, and the log still has those of before."""
    replace_table(daily)
    with pytest.raises(NoHistory, match="no current snapshot"):
        read_history(daily, NOW)
    append(daily, ["a"] * 10)
    daily.refresh()

    history = read_history(daily, NOW - DAY * days)

    assert history.start.snapshot_id == daily.metadata.current_snapshot_id
    assert history.abandoned == left_behind


def test_expired_snapshots_free_what_compaction_has_replaced(daily: Table) -> None:
    history = read_history(daily, NOW - DAY * 10)
    keeping = {"thresholds": {"old_snapshots": 1}, "options": {"max_age": "2d", "retain_last": 1}}
    both = policy(name_of(daily), rewrite_data_files=COMPACTING, expire_snapshots=keeping)
    found = simulate(history, both, DAILY, label="new")
    never = simulate(history, compacting(daily), DAILY, label="never")

    assert found.bytes_freed == never.points[-1].stored_bytes - found.points[-1].stored_bytes > 0
    assert found.points[-1].snapshots == 5  # of the last two days: two of the writer, three of the policy
    assert found.points[-1].files == never.points[-1].files


@pytest.mark.parametrize(("threshold", "runs"), [(7, 1), (8, 0)])
def test_snapshots_that_are_kept_whatever_their_age_do_not_count_as_old(daily: Table, threshold: int, runs: int) -> None:
    expiring = {"thresholds": {"old_snapshots": threshold}, "options": {"max_age": "5d", "retain_last": 3}}
    history = read_history(daily, NOW - DAY * 10)

    found = simulate(history, policy(name_of(daily), expire_snapshots=expiring), [NOW + DAY * 20], label="new")

    assert [run.done.snapshots_expired for run in found.runs] == [7] * runs


def test_a_tag_keeps_its_snapshot_when_maintenance_has_replaced_it(daily: Table) -> None:
    snapshot = daily.current_snapshot()
    assert snapshot is not None
    daily.manage_snapshots().create_tag(snapshot.snapshot_id, "release").commit()
    expiring = {"thresholds": {"old_snapshots": 1}, "options": {"max_age": "0s", "retain_last": 1}}
    both = policy(name_of(daily), rewrite_data_files=COMPACTING, expire_snapshots=expiring)

    found = simulate(read_history(daily, NOW - DAY * 10), both, [NOW], label="new")

    assert [(run.action, run.done.snapshots_expired) for run in found.runs] == [
        ("rewrite_data_files", 0),
        ("expire_snapshots", 9),
    ]
    assert found.points[-1].snapshots == 2


def test_the_retention_of_main_goes_before_that_of_the_policy(daily: Table) -> None:
    metadata = daily.metadata
    main = metadata.refs["main"].model_copy(update={"min_snapshots_to_keep": 6})
    daily.metadata = metadata.model_copy(update={"refs": {**metadata.refs, "main": main}})
    expiring = {"thresholds": {"old_snapshots": 4}, "options": {"max_age": "5d", "retain_last": 1}}

    found = simulate(
        read_history(daily, NOW - DAY * 10), policy(name_of(daily), expire_snapshots=expiring), [NOW + DAY * 20], label=""
    )

    assert [run.done.snapshots_expired for run in found.runs] == [4]


def test_what_the_owner_sets_by_icebergs_properties_is_what_a_replay_does(daily: Table) -> None:
    total = sum(file["file_size_in_bytes"] for file in daily.inspect.data_files().to_pylist())
    properties = {"history.expire.min-snapshots-to-keep": "8", "write.target-file-size-bytes": str(total // 2)}
    with daily.transaction() as transaction:
        transaction.set_properties(properties)
    own = policy(
        name_of(daily),
        properties=properties,
        rewrite_data_files=COMPACTING,
        expire_snapshots={"thresholds": {"old_snapshots": 1}},
    )

    found = simulate(read_history(daily, NOW - DAY * 10), own, [NOW + DAY * 20], label="")

    assert [(run.done.files_removed, run.done.files_added, run.done.snapshots_expired) for run in found.runs] == [
        (10, 2, 0),
        (0, 0, 3),
    ]


def test_what_a_writer_removes_shrinks_the_file_that_it_was_compacted_into(daily: Table, zoo: Zoo) -> None:
    name = name_of(daily)
    daily.delete("id < 20")  # two of the ten files, whole
    commit_times(zoo, name, [*(NOW - DAY * 9.5 + DAY * each for each in range(10)), NOW - timedelta(hours=1)])
    history = read_history(zoo.load(name), NOW - DAY * 10)
    before = sum(file.records for file in _left(history, NOW - DAY / 4))

    found = _left(history, NOW)

    assert before == 100
    assert [file.records for file in found] == [80]
    assert sum(file.bytes for file in found) == pytest.approx(0.8 * 10 * history.start.added[0].bytes, rel=0.01)


def test_bytes_that_a_writer_removed_are_stored_until_their_snapshots_expire(daily: Table, zoo: Zoo) -> None:
    name = name_of(daily)
    daily.delete("id < 20")
    commit_times(zoo, name, [*(NOW - DAY * 9.5 + DAY * each for each in range(10)), NOW - timedelta(hours=1)])
    history = read_history(zoo.load(name), NOW - DAY * 10)
    removed = sum(file.bytes for file in history.commits[-1].removed)
    keeping = {"thresholds": {"old_snapshots": 1}, "options": {"max_age": "0s", "retain_last": 1}}

    kept = recorded(history, NOW, maintained=True).points[-1]
    [run] = simulate(history, policy(name, expire_snapshots=keeping), [NOW], label="new").runs

    assert kept.stored_bytes == sum(file.bytes for commit in (history.start, *history.commits) for file in commit.added)
    assert (run.done.snapshots_expired, run.done.bytes_freed) == (10, removed)


def _left(history: Any, until: datetime) -> list[Any]:
    """The data files of a simulation in which all were compacted six hours before now."""
    state = SimulatedTable(history)
    for commit in history.commits:
        if commit.at <= NOW - DAY / 4:
            state.write(commit)
    RewriteDataFiles(min_input_files=2).simulate(state, NOW - DAY / 4, None)
    for commit in history.commits:
        if NOW - DAY / 4 < commit.at <= until:
            state.write(commit)
    return list(state.data.values())


def test_the_passes_count_back_from_the_last_one() -> None:
    assert passes(NOW - DAY * 2.5, NOW, DAY) == (NOW - DAY * 2, NOW - DAY, NOW)


def test_a_cadence_keeps_an_action_from_running_at_each_pass(daily: Table) -> None:
    history = read_history(daily, NOW - DAY * 10)
    slow = policy(name_of(daily), cadence="3d", rewrite_data_files=COMPACTING)

    runs = simulate(history, slow, passes(NOW - DAY * 8, NOW, DAY), label="slow").runs

    assert [run.at for run in runs] == [NOW - DAY * each for each in (7, 4, 1)]


def test_a_table_that_cannot_be_simulated_is_a_problem_and_the_others_are_replayed(zoo: Zoo) -> None:
    spoilt, other = zoo.new("unpartitioned"), zoo.shared("unpartitioned")

    class Faulty(Policies):
        def of(self, table: TableName, properties: Mapping[str, str]) -> TablePolicy:
            if table == spoilt:
                raise ArithmeticError("a mistake")
            return super().of(table, properties)

    found = replay_tables(
        zoo.catalog, [spoilt, other], {"eager": Faulty([Rule("**")])}, since=NOW - DAY * 30, until=datetime.now(UTC), every=DAY
    )

    assert [each.table for each in found.tables] == [other.dotted]
    assert found.problems[spoilt.dotted] == "It cannot be simulated: ArithmeticError: a mistake."
