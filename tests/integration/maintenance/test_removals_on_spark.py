"""Removals on real tables: exactly the approved list is deleted, and nothing that came to be needed since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from spark_world import SparkWorld, aged

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.quarantine import FOLDER
from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs import Attempt, Claim, Job, JobStatus
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.removals.model import ItemOutcome, Removal, RemovalState
from airflow_snowpack.maintenance.removals.orphan_files import NAMED_NOW, REPLACED
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.snapshots import NEEDED_NOW
from airflow_snowpack.store import Actor, open_store

pytestmark = pytest.mark.one_database
VERA = Actor("vera", "page")


class Lake:
    """Jobs on the tables of the tests, run as a worker runs them, in a store of this test."""

    def __init__(self, installation: Installation, world: SparkWorld) -> None:
        self.installation = installation
        self.removals = world.removals = installation.removals
        self.world = world

    def attempt(self, claim: Claim, later: timedelta = timedelta(0)) -> Job:
        return Attempt(self.installation.jobs, claim, self.world.new_engine(later=later)).run()

    def submitted(self, table: TableName, action: str, **options: Any) -> Claim:
        jobs = self.installation.jobs
        job = jobs.submit(table, [action], options={action: {"only_if_needed": False, **options}}, owner="a task")
        claim = jobs.claim("w", job_id=job.job_id)
        assert claim is not None
        return claim

    def run(self, table: TableName, action: str, *, later: timedelta = timedelta(0), **options: Any) -> Job:
        return self.attempt(self.submitted(table, action, **options), later)

    def run_again(self, job: Job) -> Job:
        """Run the job of an attempt that was killed."""
        return self.attempt(self.installation.jobs.take_over(job.job_id, "w2", owner="a task"))

    def planned(self, table: TableName, action: str = Action.REMOVE_ORPHAN_FILES, **options: Any) -> Removal:
        job = self.run(table, action, **({"approve_above_files": 0} | options))
        assert job.status is JobStatus.COMPLETED, job.error
        (removal,) = self.removals.planned_by(job.job_id)
        return removal

    def approved(self, table: TableName, action: str = Action.REMOVE_ORPHAN_FILES, **options: Any) -> Removal:
        return self.removals.approve(self.planned(table, action, **options).removal_id, actor=VERA)

    def delete(self, removal: Removal, action: str = Action.REMOVE_ORPHAN_FILES, later: timedelta = timedelta(0)) -> Job:
        return self.run(removal.table, action, later=later, removal_id=removal.removal_id)

    def state(self, removal: Removal) -> RemovalState:
        return self.removals.get(removal.removal_id).state

    def outcomes(self, removal: Removal) -> Mapping[str, tuple[ItemOutcome | None, str | None]]:
        return {Path(item.name).name: (item.outcome, item.reason) for item in self.removals.items(removal.removal_id)}


@pytest.fixture
def lake_jobs(store_url: str, world: SparkWorld) -> Iterator[Lake]:
    with open_store(store_url) as store:
        installation = Installation(store)
        yield Lake(installation, world)
        installation.close()


def table_of(world: SparkWorld, commits: int = 1, **properties: str) -> TableName:
    """Make a table with a row of each commit, from 0."""
    name = world.new_table("id BIGINT", **properties)
    for number in range(commits):
        world.append(name, id=[number])
    return name


def only_file_of(world: SparkWorld, name: TableName) -> Path:
    (task,) = world.table(name).scan().plan_files()
    return Path(urlparse(task.file.file_path).path)


def test_a_plan_waits_and_exactly_the_approved_files_are_deleted(lake_jobs: Lake, world: SparkWorld) -> None:
    table = world.fragmented(commits=2, deletes=0)
    names = ["a b#c?d%20é.parquet", "'quoted\";--.parquet", "plain.parquet"]
    strays = [world.stray(table, name) for name in names]

    removal = lake_jobs.planned(table)
    assert (removal.state, removal.item_count, removal.bytes) == (RemovalState.AWAITING_APPROVAL, 3, 15)
    assert all(stray.exists() for stray in strays)
    (result,) = lake_jobs.installation.jobs.get(removal.planned_by_job).results
    assert result.message == f"The removal of 3 files of 15 B awaits approval: removal {removal.removal_id}"
    refused = lake_jobs.delete(removal)
    assert refused.status is JobStatus.FAILED
    assert "cannot be run: it awaits approval" in str(refused.error)
    assert refused.results[0].final, "a retry would be refused again"

    later = world.stray(table, "later.parquet")
    lake_jobs.removals.approve(removal.removal_id, actor=VERA)
    job = lake_jobs.delete(removal)

    assert job.status is JobStatus.COMPLETED, job.error
    assert job.results[0].message == "Removed 3 orphan files"
    assert not any(stray.exists() for stray in strays)
    assert later.exists(), "it was not in the approved list"
    assert lake_jobs.outcomes(removal) == dict.fromkeys(names, (ItemOutcome.DELETED, None))
    assert world.value(f"SELECT count(*) FROM {table.quoted}") == 80
    again = lake_jobs.delete(removal)
    assert "was deleted" in str(again.error)


def test_files_that_came_to_be_needed_or_were_written_again_are_left_out_and_named(lake_jobs: Lake, world: SparkWorld) -> None:
    donor, table = world.new_table("id BIGINT"), table_of(world)
    world.append(donor, id=[7, 8])
    committed = world.stray(table, "committed.parquet", only_file_of(world, donor).read_bytes())
    rewritten, gone, stray = (world.stray(table, f"{name}.parquet") for name in ("rewritten", "gone", "stray"))
    removal = lake_jobs.approved(table)
    assert removal.item_count == 4

    world.table(table).add_files([f"file://{committed}"])
    rewritten.write_bytes(b"other")
    aged(rewritten, timedelta(days=6))
    gone.unlink()
    job = lake_jobs.delete(removal)

    assert job.results[0].message == "Removed 1 orphan file; 1 no longer existed; 2 left out"
    assert lake_jobs.outcomes(removal) == {
        "committed.parquet": (ItemOutcome.LEFT_OUT, NAMED_NOW),
        "rewritten.parquet": (ItemOutcome.LEFT_OUT, REPLACED),
        "gone.parquet": (ItemOutcome.GONE, None),
        "stray.parquet": (ItemOutcome.DELETED, None),
    }
    assert not stray.exists()
    assert world.ids(table) == [0, 7, 8]


def test_another_table_of_the_same_name_and_place_keeps_its_files(lake_jobs: Lake, world: SparkWorld) -> None:
    table = table_of(world)
    stray = world.stray(table, "stray.parquet")
    location = world.table(table).location()
    removal = lake_jobs.approved(table)
    world.catalog.drop_table(table.identifier)
    world.sql(f"CREATE TABLE {table.quoted} (id BIGINT) USING iceberg LOCATION '{location}'")

    job = lake_jobs.delete(removal)

    assert job.status is JobStatus.FAILED
    assert f"{table.dotted} was dropped and created again after its removal was planned" in str(job.error)
    assert stray.exists()
    assert lake_jobs.state(removal) is RemovalState.FAILED


def test_a_table_that_came_to_lie_inside_stops_the_whole_removal(lake_jobs: Lake, world: SparkWorld) -> None:
    table = table_of(world)
    stray = world.stray(table, "stray.parquet")
    removal = lake_jobs.approved(table)
    nested = TableName(table.catalog, table.database, f"{table.table}_nested")
    inside = f"file:{world.folder(table)}/data/nested"
    world.sql(f"CREATE TABLE {nested.quoted} (id BIGINT) USING iceberg LOCATION '{inside}'")

    job = lake_jobs.delete(removal)

    assert f"{nested.dotted} (inside it at" in str(job.error)
    assert stray.exists()
    assert lake_jobs.state(removal) is RemovalState.FAILED


def test_exactly_the_approved_snapshots_are_expired_unless_a_tag_needs_one_now(lake_jobs: Lake, world: SparkWorld) -> None:
    table = table_of(world, 4)
    ids = [snapshot.snapshot_id for snapshot in world.table(table).snapshots()]
    expire = {"max_age": "0s", "retain_last": 1}
    removal = lake_jobs.approved(table, Action.EXPIRE_SNAPSHOTS, **expire)
    assert [item.name for item in lake_jobs.removals.items(removal.removal_id)] == [str(each) for each in ids[:3]]

    world.append(table, id=[4])
    world.sql(f"ALTER TABLE {table.quoted} CREATE TAG audit AS OF VERSION {ids[1]}")
    job = lake_jobs.delete(removal, Action.EXPIRE_SNAPSHOTS)

    assert job.results[0].message == "Expired 2 snapshots and deleted 2 files; 1 left out"
    assert lake_jobs.outcomes(removal)[str(ids[1])] == (ItemOutcome.LEFT_OUT, NEEDED_NOW)
    left = {snapshot.snapshot_id for snapshot in world.table(table).snapshots()}
    assert {ids[1], ids[3]} < left
    assert len(left) == 3, "ids[3] would be due now, and was not approved"
    assert len(world.table(table).scan(snapshot_id=ids[1]).to_arrow()) == 2


def test_a_branch_whose_own_settings_would_expire_more_than_the_list_stops_the_whole_removal(
    lake_jobs: Lake, world: SparkWorld
) -> None:
    name = table_of(world, 3)
    table = world.table(name)
    table.manage_snapshots().create_branch(table.snapshots()[-1].snapshot_id, "audit").commit()
    for _ in range(2):
        table.append(table.scan().to_arrow().slice(0, 1), branch="audit")
    removal = lake_jobs.approved(name, Action.EXPIRE_SNAPSHOTS, max_age="0s", retain_last=2)
    *_, on_branch, head = table.refresh().snapshots()
    changed = table.manage_snapshots().create_branch(head.snapshot_id, "audit", max_snapshot_age_ms=1, min_snapshots_to_keep=1)
    changed.commit()

    job = lake_jobs.delete(removal, Action.EXPIRE_SNAPSHOTS)

    assert f"snapshot {on_branch.snapshot_id} of {name.dotted} is past its own age now" in str(job.error)
    assert len(world.table(name).snapshots()) == 5
    assert lake_jobs.state(removal) is RemovalState.FAILED


def test_expiry_without_any_snapshot_still_drops_aged_tags_and_unused_schemas(lake_jobs: Lake, world: SparkWorld) -> None:
    name = table_of(world)
    table = world.table(name)
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "aged", max_ref_age_ms=1).commit()
    for column in ("unused", "current"):
        world.sql(f"ALTER TABLE {name.quoted} ADD COLUMN {column} INT")

    job = lake_jobs.run(name, Action.EXPIRE_SNAPSHOTS, clean_expired_metadata=True)

    assert job.results[0].message == "No snapshot was old enough to expire"
    metadata = world.table(name).metadata
    assert (set(metadata.refs), len(metadata.snapshots)) == ({"main"}, 1)
    assert [len(schema.fields) for schema in metadata.schemas] == [1, 3]
    assert lake_jobs.removals.planned_by(job.job_id) == []


def test_a_staged_commit_keeps_its_files_and_can_be_published_after_maintenance(lake_jobs: Lake, world: SparkWorld) -> None:
    """Write, audit, publish: no branch or tag leads to the snapshot that waits for its audit."""
    name = table_of(world, **{"write.wap.enabled": "true"})
    world.spark.conf.set("spark.wap.id", "audit")
    world.sql(f"INSERT INTO {name.quoted} VALUES (2)")
    world.spark.conf.unset("spark.wap.id")
    for path in world.folder(name).rglob("*.*"):
        aged(path)

    removed = lake_jobs.run(name, Action.REMOVE_ORPHAN_FILES)
    expired = lake_jobs.run(name, Action.EXPIRE_SNAPSHOTS, max_age="1h", retain_last=1)

    assert removed.results[0].message == "No orphan files"
    assert expired.results[0].message == "No snapshot was old enough to expire"
    assert len(world.table(name).scan().to_arrow()) == 1
    world.sql(f"CALL {name.catalog}.system.publish_changes('{name.database}.{name.table}', 'audit')")
    assert world.ids(name) == [0, 2]


def test_what_quarantine_breaks_is_whole_again_after_a_restore(lake_jobs: Lake, world: SparkWorld) -> None:
    """A file that a program reads by its path looks like an orphan: the mistake shows at once, and can be undone."""
    table, source = table_of(world), world.new_table("id BIGINT")
    world.append(source, id=[7, 8, 9])
    hidden, named = (
        world.stray(table, name, only_file_of(world, source).read_bytes()) for name in ("of_the_reader.parquet", "named.parquet")
    )
    strange = world.stray(table, "a b#c?d%20\u00e9.parquet")
    world.stray(table, f"../{FOLDER}/r/data/0.parquet")  # of a table that was here, in the folder that is this table's now

    def ids() -> list[int]:
        return sorted(row["id"] for row in world.spark.read.parquet(f"file://{hidden}").collect())

    before = ids()
    before_bytes = hidden.stat().st_size + strange.stat().st_size
    planned = lake_jobs.planned(table, quarantine="7d", prefix_listing=True)
    assert planned.item_count == 3
    world.table(table).add_files([f"file://{named}"])
    lake_jobs.removals.approve(planned.removal_id, actor=VERA)
    job = lake_jobs.delete(planned)
    removal = lake_jobs.removals.get(planned.removal_id)
    assert job.status is JobStatus.COMPLETED, job.error
    assert str(job.results[0].message).startswith("Moved 2 orphan files to quarantine until ")
    assert job.results[0].metrics["quarantined_files_count"] == 2
    assert job.results[0].metrics["quarantined_bytes_count"] == before_bytes
    assert lake_jobs.outcomes(removal)["named.parquet"] == (ItemOutcome.LEFT_OUT, NAMED_NOW)
    assert (removal.state, named.exists(), strange.exists()) == (RemovalState.QUARANTINED, True, False)
    with pytest.raises(Exception, match=r"of_the_reader\.parquet"):
        ids()

    restored = lake_jobs.run(table, Action.REMOVE_ORPHAN_FILES, restore="all")
    assert restored.results[0].message == "Restored 2 files from quarantine"
    assert lake_jobs.state(removal) is RemovalState.RESTORED
    assert strange.read_bytes() == b"stray"
    assert ids() == before == [7, 8, 9]


class Killed(BaseException):
    """The process is gone: nothing after it runs, and nothing is written."""


def killed_while(lake_jobs: Lake, monkeypatch: pytest.MonkeyPatch, claim: Claim, writes: int) -> None:
    """Run the claimed job until it has written outcomes so often, and kill it before the next time."""
    record, left = Removals.record, [writes]

    def record_or_die(*arguments: Any) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        record(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Removals, "record", record_or_die)
        with pytest.raises(Killed):
            lake_jobs.world.new_engine().run(claim.job, claim.job.actions[0])


@pytest.mark.parametrize("writes", [0, 1])
def test_what_a_killed_attempt_had_begun_to_expire_counts_as_expired_and_the_rest_follows(
    lake_jobs: Lake, world: SparkWorld, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    table = table_of(world, 3)
    removal = lake_jobs.approved(table, Action.EXPIRE_SNAPSHOTS, max_age="0s", retain_last=1)
    claim = lake_jobs.submitted(table, Action.EXPIRE_SNAPSHOTS, removal_id=removal.removal_id)
    killed_while(lake_jobs, monkeypatch, claim, writes)
    assert len(world.table(table).snapshots()) == (3 if writes == 0 else 1)

    assert lake_jobs.run_again(claim.job).status is JobStatus.COMPLETED

    done = lake_jobs.removals.get(removal.removal_id)
    assert (done.state, done.deleted_count, done.gone_count) == (RemovalState.DELETED, 2, 0)


def test_a_list_within_the_limits_is_deleted_at_once_and_to_its_end_by_the_next_attempt_at_its_job(
    lake_jobs: Lake, world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(world)
    stray = world.stray(table, "stray.parquet")
    claim = lake_jobs.submitted(table, Action.REMOVE_ORPHAN_FILES, approve_above_files=1, approve_above_bytes=5)
    killed_while(lake_jobs, monkeypatch, claim, writes=1)
    assert not stray.exists()
    later = world.stray(table, "later.parquet")

    ended = lake_jobs.run_again(claim.job)

    assert ended.results[0].message == "Removed 1 orphan file"
    assert later.exists(), "it was not in the list"
    (removal,) = lake_jobs.removals.planned_by(claim.job.job_id)
    assert (removal.state, removal.deleted_count, removal.decided_by) == (RemovalState.DELETED, 1, None)
    assert lake_jobs.outcomes(removal) == {"stray.parquet": (ItemOutcome.DELETED, None)}


def test_an_approved_list_is_not_deleted_by_a_job_of_another_table_or_a_worker_whose_clock_is_wrong(
    lake_jobs: Lake, world: SparkWorld
) -> None:
    table, other = table_of(world), world.new_table("id BIGINT")
    stray = world.stray(table, "stray.parquet")
    removal = lake_jobs.approved(table)

    def refused(job: Job, why: str, state: RemovalState) -> None:
        assert why in str(job.error)
        assert stray.exists()
        assert lake_jobs.state(removal) is state

    of_other = lake_jobs.run(other, Action.REMOVE_ORPHAN_FILES, removal_id=removal.removal_id)
    whose = f"is a list of orphans of {table.dotted}, and this job is of {other.dotted}"
    refused(of_other, whose, RemovalState.APPROVED)
    ahead = lake_jobs.delete(removal, later=timedelta(days=30))
    refused(ahead, "Cannot remove orphan files with an interval less than 24 hours", RemovalState.APPROVED)
    behind = lake_jobs.delete(removal, later=timedelta(days=-30))
    refused(behind, "is behind the plan", RemovalState.FAILED)
