"""Files in quarantine, without Spark: they are taken away, restored and purged, whatever kills the process in between."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from botocore.client import BaseClient
from clocks import MovedClock
from edited_metadata import edited_metadata
from effort import rounds
from pyarrow.fs import LocalFileSystem
from s3_server import access_to, s3_client, s3_server

from airflow_snowpack.iceberg import CatalogConfig, ForeignFiles, QuarantineNotPossible, StoredFile, TableName
from airflow_snowpack.iceberg.quarantine import (
    FOLDER,
    ArrowFiles,
    Means,
    Quarantine,
    RenamedFiles,
    VersionedBucket,
    is_moved_cheaply,
    means_of,
    open_quarantine,
    quarantine_folder,
)
from airflow_snowpack.installation import Installation, retained_rows
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import Action, SparkEngine
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun
from airflow_snowpack.maintenance.options import parse_options
from airflow_snowpack.maintenance.removals import orphan_files
from airflow_snowpack.maintenance.removals.errors import NothingInQuarantine, RemovalNotPossible
from airflow_snowpack.maintenance.removals.model import ItemOutcome, Removal, RemovalItem, RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.orphan_files import ForeignGuard, OrphanFiles
from airflow_snowpack.maintenance.removals.quarantine import (
    ALL,
    OCCUPIED,
    _each,
    _restored,
    purge,
    quarantine_settings,
    restore,
    take_away,
)
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.request import restore_table_request
from airflow_snowpack.maintenance.removals.running import carry_out
from airflow_snowpack.maintenance.submit import MaintenanceRequest
from airflow_snowpack.spark import SparkInterrupted, SparkWork
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store
from airflow_snowpack.store.retention import Pruner

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

TABLE = TableName("lake", "db", "orders", "0f0f0f0f0f0f")
WEEK = timedelta(days=7)
taken_away = orphan_files._taken_away
NAMES = ["a b#c?d%20é.parquet", "part=1/x.parquet", "part=1/deep/y.parquet", "'quoted\";--.parquet"]


class Killed(BaseException):
    """The process is gone: nothing after it runs."""


class World:
    """A table without Spark, whose jobs remove, restore and purge files as the engine does."""

    def __init__(self, store: Store, clock: MovedClock, tmp_path: Path) -> None:
        self.clock = clock
        self.installation = Installation(store)
        self.removals: Removals = self.installation.removals
        self.jobs: Jobs = self.installation.jobs
        self.catalog: Catalog = CatalogConfig.embedded(tmp_path).load()
        self.catalog.create_namespace("db")
        self.table = self.catalog.create_table(TABLE.identifier, pa.schema([("id", pa.int64())]))
        self.table.append(pa.table({"id": [1, 2, 3]}))
        self.root = Path(self.table.location().removeprefix("file://"))
        self.named: set[str] = set()
        self.work = SparkWork()
        self.before_taking: Callable[[], None] = lambda: None

    @property
    def location(self) -> str:
        return self.table.location()

    def stray(self, name: str, content: bytes = b"stray") -> str:
        path = self.root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        week_ago = (self.clock() - WEEK).timestamp()
        os.utime(path, (week_ago, week_ago))
        return f"file:{path}"

    def attempt(self, job_id: str | None = None) -> JobRemovals:
        """Begin an attempt at a new job, or the next one at a job whose worker was killed."""
        if job_id is None:
            job_id = self.jobs.submit(TABLE, ["remove_orphan_files"]).job_id
        else:
            self.clock.now += timedelta(hours=1)
            self.jobs.sweep()
            self.clock.now += timedelta(hours=1)
        claim = self.jobs.claim("w", job_id=job_id, catalog_id=TABLE.catalog_id)
        assert claim is not None
        return JobRemovals(self.removals, claim.job)

    def end(self, of_job: JobRemovals) -> None:
        self.jobs.cancel(of_job.job.job_id)
        self.jobs.locks.release(TABLE, of_job.job.job_id)

    def planned(self, of_job: JobRemovals, paths: Sequence[str], *, days: int = 7, **more: Any) -> Removal:
        settings = {"quarantine": f"{days}d", **quarantine_settings(self.table, may_copy=False), **more}
        items = ForeignGuard().planned(
            self.table, ForeignFiles(self.catalog, ()), paths, older_than=self.clock() - timedelta(days=1), skipped=Counter()
        )
        planned = of_job.plan(RemovalKind.ORPHANS, self.table, items, settings=settings)
        assert planned is not None
        return planned

    def delete(self, of_job: JobRemovals, removal: Removal) -> ActionEffect:
        nothing = cast("Any", None)
        run = ActionRun("job", TABLE, "remove_orphan_files", nothing, self.work, self.catalog, self.clock(), 1, removals=of_job)
        return carry_out(run, removal.removal_id, OrphanFiles(self._unnamed))

    def _unnamed(self, run: ActionRun, settings: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
        self.before_taking()
        return [path for path in paths if path not in self.named]

    def quarantined(self, names: Sequence[str] = NAMES, **more: Any) -> Removal:
        """Move strays to quarantine, and return the removal."""
        of_job = self.attempt()
        removal = self.planned(of_job, [self.stray(name) for name in names], **more)
        effect = self.delete(of_job, removal)
        assert effect.error is None, effect.error
        self.end(of_job)
        return self.removals.get(removal.removal_id)

    def restore(self, removal_id: str, *paths: str) -> ActionEffect:
        of_job = self.attempt()
        try:
            return restore(of_job, self.catalog, removal_id, paths, lambda: False)
        finally:
            self.end(of_job)

    def purge(self) -> int:
        of_job = self.attempt()
        try:
            return purge(of_job, lambda: self.catalog, lambda: False)
        finally:
            self.end(of_job)

    def files(self) -> dict[str, bytes]:
        """Return the content of each file that is in its place."""
        found = (self.root / "data").rglob("*")
        return {str(each): each.read_bytes() for each in found if each.is_file() and b"stray" in each.read_bytes()}

    def kept(self) -> list[Path]:
        """Return the files that are in quarantine."""
        return [each for each in (self.root.parent / FOLDER).rglob("*") if each.is_file() or each.is_symlink()]

    def outcomes(self, removal: Removal) -> dict[str, ItemOutcome | None]:
        return {Path(item.name).name: item.outcome for item in self.removals.items(removal.removal_id)}


@pytest.fixture
def world(store_url: str, tmp_path: Path) -> Iterator[World]:
    clock = MovedClock(datetime.now(UTC))
    with open_store(store_url, clock=clock) as store:
        world = World(store, clock, tmp_path)
        yield world
        world.installation.close()


def test_files_go_to_quarantine_and_come_back_as_they_were(world: World) -> None:
    removal = world.quarantined()

    assert (removal.state, removal.quarantined_count, removal.deleted_count) == (RemovalState.QUARANTINED, 4, 0)
    assert removal.quarantined_until == world.clock() + WEEK
    assert world.files() == {}
    folder = quarantine_folder(world.location).removeprefix("file://")
    assert all(str(kept).startswith(f"{folder}/{removal.removal_id}/") for kept in world.kept())
    assert [each.removal_id for each in world.removals.list(state=RemovalState.QUARANTINED).items] == [removal.removal_id]

    one = next(item.name for item in world.removals.items(removal.removal_id) if "deep" in item.name)
    assert world.restore(removal.removal_id, one).message == "Restored 1 file from quarantine"
    assert len(world.files()) == 1
    assert world.removals.get(removal.removal_id).state is RemovalState.QUARANTINED
    assert world.restore(removal.removal_id, one).error is None, "a request whose answer was lost can be repeated"
    assert world.restore(ALL).metrics == {"restored_files_count": 3}

    restored = world.removals.get(removal.removal_id)
    assert (restored.state, restored.restored_count, restored.quarantined_until) == (RemovalState.RESTORED, 4, None)
    assert {Path(path).stat().st_mtime for path in world.files()} == {
        item.at.timestamp() for item in world.removals.items(removal.removal_id) if item.at
    }
    assert len(world.files()) == 4
    assert world.kept() == []
    assert not Path(folder, removal.removal_id).exists()
    entries = AuditTrail(world.removals.store).of(f"removal:{removal.removal_id}")
    assert {entry.change for entry in entries} == {"restore_removal"}
    with pytest.raises(NothingInQuarantine, match="No file of the removal"):
        world.restore(removal.removal_id)
    with pytest.raises(NothingInQuarantine, match=r"No file of the table db\.orders"):
        world.restore(ALL)


@pytest.mark.one_database
def test_what_metadata_names_by_now_stays_in_its_place(world: World) -> None:
    world.named = {world.stray(NAMES[0])}
    removal = world.quarantined()

    assert world.outcomes(removal)[NAMES[0]] is ItemOutcome.LEFT_OUT
    assert (removal.quarantined_count, removal.left_out_count, len(world.files())) == (3, 1, 1)


@pytest.mark.one_database
def test_a_restore_overwrites_nothing_and_names_what_is_missing(world: World) -> None:
    removal = world.quarantined(["taken.parquet", "lost.parquet", "fine.parquet"])
    world.stray("taken.parquet", b"newer stray")
    next(each for each in world.kept() if each.name == "lost.parquet").unlink()

    effect = world.restore(removal.removal_id, *[f"file:{world.root}/data/{name}.parquet" for name in ("taken", "lost", "x")])
    assert effect.outcome is ActionOutcome.FAILED
    assert f"1 file could not be restored: {OCCUPIED}" in str(effect.error)
    assert "x.parquet' is not in quarantine" in str(effect.error)
    assert (world.root / "data/taken.parquet").read_bytes() == b"newer stray"
    (world.root / "data/taken.parquet").unlink()
    assert world.restore(removal.removal_id).message == "Restored 2 files from quarantine"
    assert world.outcomes(removal) == {
        "taken.parquet": ItemOutcome.RESTORED,
        "lost.parquet": ItemOutcome.GONE,
        "fine.parquet": ItemOutcome.RESTORED,
    }


@pytest.mark.one_database
def test_a_damaged_or_dropped_table_is_restored_too(world: World) -> None:
    removal = world.quarantined()
    Path(world.table.metadata_location.removeprefix("file://")).unlink()
    assert world.restore(removal.removal_id, next(world.removals.items(removal.removal_id)).name).error is None
    world.catalog.drop_table(TABLE.identifier)
    assert world.restore(ALL).error is None
    assert len(world.files()) == 4


@pytest.mark.one_database
@pytest.mark.parametrize("then", ["dropped", "created again", "renamed", "moved"])
def test_a_job_restores_files_to_their_paths_whatever_became_of_the_table(world: World, then: str) -> None:
    world.quarantined()
    name = TABLE.identifier
    if then == "renamed":
        world.catalog.rename_table(name, ("db", "other"))
    elif then == "moved":
        with edited_metadata(world.catalog.load_table(name)) as metadata:
            metadata["location"] = f"{world.location}_elsewhere"
    else:
        world.catalog.drop_table(name)
        if then == "created again":
            world.catalog.create_table(name, pa.schema([("other", pa.string())]))

    request = restore_table_request(world.removals, TABLE)
    job = world.jobs.submit_and_claim(TABLE, request.actions, "w", options=request.options).job
    result = SparkEngine(no_session, lambda: world.catalog, removals=world.removals).run(job, *job.actions)
    assert (result.error, result.message) == (None, "Restored 4 files from quarantine")
    assert len(world.files()) == len(NAMES)


def no_session() -> SparkSession:
    raise AssertionError("a restore needs no Spark")


def test_files_are_deleted_for_good_when_their_time_is_over_and_never_before(world: World) -> None:
    first, second = world.quarantined(["a.parquet"], days=1), world.quarantined(["b.parquet", "c.parquet"], days=9)
    assert world.purge() == 0
    world.restore(second.removal_id, f"file:{world.root}/data/c.parquet")
    world.clock.now += timedelta(days=1)
    assert world.purge() == 1
    assert {path.name for path in world.kept()} == {"b.parquet"}
    assert world.removals.get(first.removal_id).state is RemovalState.DELETED
    (entry,) = AuditTrail(world.removals.store).of(f"removal:{first.removal_id}")
    assert (entry.change, entry.detail["files"]) == ("purge_removal", 1)

    world.clock.now += timedelta(days=60)
    pruned = Pruner(world.removals.store, retained_rows(world.removals.store), older_than=timedelta(days=7))
    assert pruned.run(sleep=lambda _: None)["removals"] == 1, "what is in quarantine keeps its list"
    assert world.purge() == 1
    ended = world.removals.get(second.removal_id)
    assert (ended.state, ended.deleted_count, ended.restored_count) == (RemovalState.DELETED, 1, 1)
    assert world.kept() == []
    assert len(world.files()) == 1
    assert world.purge() == 0


@pytest.mark.one_database
def test_nothing_is_restored_of_a_list_that_a_job_deletes(world: World) -> None:
    of_job = world.attempt()
    removal = world.planned(of_job, [world.stray(name) for name in NAMES])
    begun = world.removals.begin(removal.removal_id, of_job.job.job_id, of_job.job.attempt_id or "")
    world.removals.begin_quarantine(begun)
    other = world.jobs.submit(TableName("lake", "db", "other", TABLE.catalog_id), ["remove_orphan_files"])
    claim = world.jobs.claim("w2", job_id=other.job_id, catalog_id=TABLE.catalog_id)
    assert claim is not None
    with pytest.raises(RemovalNotPossible, match="cannot be restored: it is being deleted"):
        world.removals.reopen(removal.removal_id, other.job_id, claim.attempt_id)


@pytest.mark.one_database
def test_what_a_dead_job_has_taken_away_is_listed_restored_and_purged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its list may be run again if it was approved, and no attempt at the job follows."""

    def take_and_die(*given: Any) -> None:
        taken_away(*given)
        raise Killed

    for approved, undo in ((False, True), (True, True), (True, False)):
        of_job = world.attempt()
        removal = world.planned(of_job, [world.stray(name) for name in NAMES], approve_above_files=0 if approved else None)
        if approved:
            world.removals.approve(removal.removal_id, actor=Actor("vera", "page"))
        with monkeypatch.context() as patched:
            patched.setattr(orphan_files, "_taken_away", take_and_die)
            with pytest.raises(Killed):
                world.delete(of_job, removal)
        world.end(of_job)

        assert world.files() == {}
        assert [each.removal_id for each in world.removals.list(state=RemovalState.QUARANTINED).items] == [removal.removal_id]
        if undo:
            assert world.restore(ALL).metrics == {"restored_files_count": len(NAMES)}
            assert len(world.files()) == len(NAMES)
        else:
            assert world.purge() == 0
            world.clock.now += WEEK
            assert world.purge() == len(NAMES)
        assert world.kept() == []
        assert not world.removals.list(state=RemovalState.QUARANTINED).items


@pytest.mark.one_database
def test_an_interrupted_attempt_takes_no_further_file_away(world: World) -> None:
    of_job = world.attempt()
    removal = world.planned(of_job, [world.stray(name) for name in NAMES])
    world.before_taking = world.work.interrupt
    with pytest.raises(SparkInterrupted):
        world.delete(of_job, removal)
    world.end(of_job)
    assert (len(world.files()), world.kept()) == (len(NAMES), [])
    assert world.restore(ALL).error is None
    assert set(world.outcomes(removal).values()) == {ItemOutcome.LEFT_OUT}


@pytest.mark.one_database
def test_a_folder_that_cannot_be_written_is_an_error_with_its_cause(world: World) -> None:
    (world.root.parent / FOLDER).write_text("in the way")
    of_job = world.attempt()
    effect = world.delete(of_job, world.planned(of_job, [world.stray(name) for name in NAMES]))
    assert effect.outcome is ActionOutcome.FAILED
    assert str(effect.error).startswith(
        "4 files of the list could not be moved to quarantine, such as: [Errno 20] Not a directory"
    )
    assert len(world.files()) == len(NAMES)


@pytest.mark.one_database
def test_a_machine_that_does_not_have_the_files_forgets_none(world: World) -> None:
    """Such as a worker where the file system of the table is not mounted."""
    removal = world.quarantined()
    away = world.root.parents[1] / "unmounted"
    world.root.parent.rename(away)
    assert "exists on this machine" in str(world.restore(ALL).error)
    world.clock.now += WEEK
    assert world.purge() == 0
    away.rename(world.root.parent)
    assert len(world.kept()) == world.removals.get(removal.removal_id).quarantined_count == len(NAMES)
    assert world.restore(ALL).error is None


@pytest.mark.one_database
def test_files_to_restore_can_be_spelled_as_any_reader_does(world: World) -> None:
    removal, path = world.quarantined(), f"{world.root}/data/part=1/x.parquet"
    for spelling in (path, f"file://{path}", f"file:{path}", f"{world.root}//data/./part=1/x.parquet"):
        assert world.restore(removal.removal_id, spelling).error is None
    assert list(world.files()) == [path]


@pytest.mark.one_database
def test_an_attempt_that_has_restored_all_is_repeated_with_the_same_result(world: World) -> None:
    world.quarantined(NAMES[:1])
    path, of_job = f"file:{world.root}/data/{NAMES[0]}", world.attempt()
    first = restore(of_job, world.catalog, ALL, [path], lambda: False)
    again = restore(world.attempt(of_job.job.job_id), world.catalog, ALL, [path], lambda: False)
    assert (first.error, again.error, again.message) == (None, None, first.message)


@pytest.mark.one_database
def test_a_clock_that_jumps_deletes_nothing(world: World) -> None:
    """A job that was submitted in time was so by the clock of another process."""
    world.quarantined()
    of_job = world.attempt()
    world.clock.now += 2 * WEEK
    assert purge(of_job, lambda: world.catalog, lambda: False) == 0
    assert len(world.kept()) == len(NAMES)


@pytest.mark.one_database
def test_a_link_is_moved_itself_and_never_followed_out_of_the_table(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "live.parquet").write_bytes(b"live")
    week_ago = (world.clock() - WEEK).timestamp()
    os.utime(elsewhere / "live.parquet", (week_ago, week_ago))
    (world.root / "data" / "folder").symlink_to(elsewhere)
    (world.root / "data" / "link.parquet").symlink_to(elsewhere / "live.parquet")
    of_job = world.attempt()
    removal = world.planned(of_job, [f"file:{world.root}/data/{name}" for name in ("folder/live.parquet", "link.parquet")])
    world.delete(of_job, removal)
    world.end(of_job)

    (link,) = world.removals.items(removal.removal_id)
    assert link.outcome is ItemOutcome.QUARANTINED
    assert (elsewhere / "live.parquet").read_bytes() == b"live"
    world.restore(removal.removal_id)
    assert (world.root / "data" / "link.parquet").is_symlink()


@pytest.mark.parametrize("location", ["s3://lake", "/", "file:///"])
def test_a_place_beside_which_nothing_can_lie_has_no_quarantine(location: str) -> None:
    with pytest.raises(QuarantineNotPossible, match="there is no folder beside it"):
        quarantine_folder(location)


def test_the_cheapest_means_is_chosen_and_a_copy_only_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    assert means_of(f"file://{tmp_path}/t", {}, may_copy=True) is Means.MOVE
    assert means_of("hdfs://nn:8020/lake/t", {}, may_copy=True) is Means.MOVE
    assert means_of("gs://lake/db/t", {}, may_copy=True) is Means.COPY
    with pytest.raises(QuarantineNotPossible, match=r"gs://lake/db/t.*quarantine_copy.*approve_above_files=0"):
        means_of("gs://lake/db/t", {}, may_copy=False)
    with pytest.raises(QuarantineNotPossible, match="does not answer"):
        means_of(f"file://{tmp_path}/missing/t", {}, may_copy=False)
    cheap = [f"{tmp_path}/t", f"file:{tmp_path}/t", "hdfs://nn/a"]
    dear = ["s3a://b/a", "abfss://c@a/b", "file:///", "hdfs://nn", f"{tmp_path}/missing", "file:///proc"]
    assert [is_moved_cheaply(each) for each in (*cheap, *dear)] == [True] * len(cheap) + [False] * len(dear)


# --- kills ---


@dataclass(frozen=True)
class Site:
    """A file, the quarantine for it, and what a test changes and reads beside that.

    :param open: returns the quarantine as a new process opens it.
    :param write: puts the file in its place, with nothing in quarantine. ``content``: of what is in its place.
    :param kept: returns whether anything is in quarantine.
    """

    open: Callable[[], Quarantine]
    write: Callable[[], StoredFile]
    content: Callable[[], bytes | None]
    kept: Callable[[], bool]


def local_site(open_one: Callable[[], Quarantine], tmp_path: Path) -> Site:
    path, kept = tmp_path / "t/data/x.parquet", tmp_path / FOLDER / "r/data/x.parquet"
    path.parent.mkdir(parents=True)

    def write() -> StoredFile:
        kept.unlink(missing_ok=True)
        path.write_bytes(b"stray")
        return StoredFile(f"file:{path}", 5, None)

    return Site(open_one, write, lambda: path.read_bytes() if path.exists() else None, kept.exists)


def bucket_site(options: Mapping[str, str]) -> Site:
    key, client = "t/data/a b+é.parquet", s3_client(options)
    client.put_bucket_versioning(Bucket="lake", VersioningConfiguration={"Status": "Enabled"})

    def is_hidden() -> bool:
        listed = client.list_object_versions(Bucket="lake", Prefix=key)
        return any(each["IsLatest"] for each in listed.get("DeleteMarkers", ()))

    def write() -> StoredFile:
        client.put_object(Bucket="lake", Key=key, Body=b"stray")
        return StoredFile(f"s3://lake/{key}", 5, client.head_object(Bucket="lake", Key=key)["LastModified"])

    def content() -> bytes | None:
        return None if is_hidden() else client.get_object(Bucket="lake", Key=key)["Body"].read()

    opened = VersionedBucket("s3://lake/t", access_to(options))  # once: a client keeps nothing, and takes long to make
    return Site(lambda: opened, write, content, is_hidden)


@pytest.fixture(params=["renames", "moves", "copies", "markers"])
def site(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    if request.param == "markers":
        with s3_server() as options:
            yield bucket_site(options)
        return
    location, folder = f"file://{tmp_path}/t", f"file://{tmp_path}/{FOLDER}/r"
    if request.param == "renames":
        yield local_site(lambda: open_quarantine(Means.MOVE, location, {}, "r"), tmp_path)
    else:
        monkeypatch.setattr(ArrowFiles, "_files", ArrowStandIn())
        yield local_site(lambda: ArrowFiles(location, folder, {}, copies=request.param == "copies"), tmp_path)


def test_whatever_call_kills_it_no_file_is_lost_and_each_step_can_be_repeated(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of a step is once the last one, before and after it takes effect."""

    def die() -> None:
        raise Killed

    for step in ("take", "restore", "purge"):
        moment, met = 0, True
        while met:
            file = site.write()
            if step != "take":
                site.open().take(file)
            with disturbed(monkeypatch, moment, die) as happened, contextlib.suppress(Killed):
                getattr(site.open(), step)(file)
            moment, met = moment + 1, bool(happened)
            in_place = site.content()
            if step == "purge":
                site.open().purge(file)
                assert in_place is None
                assert not site.kept() or isinstance(site.open(), VersionedBucket), "the rules of a bucket end its versions"
                continue
            assert in_place in (None, b"stray"), "a reader never finds a part of a file"
            assert in_place or site.open().holds(file), f"the file was lost by kill {moment} of {step}"
            site.open().restore(file)
            assert site.content() == b"stray"
            assert not site.kept()
        assert moment > 1 or isinstance(site.open(), VersionedBucket), step


class ArrowStandIn(LocalFileSystem):
    """PyArrow's own local file system; a class of Python, whose methods can be replaced."""

    def copy_file(self, source: str, target: str) -> None:
        super().copy_file(source, target)

    def move(self, source: str, target: str) -> None:
        super().move(source, target)

    def delete_file(self, path: str) -> None:
        super().delete_file(path)

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        super().create_dir(path, recursive=recursive)


CALLS = {
    os: ("rename", "link", "unlink", "makedirs"),
    ArrowStandIn: ("copy_file", "move", "delete_file", "create_dir"),
    BaseClient: ("_make_api_call",),
}


@contextlib.contextmanager
def disturbed(monkeypatch: pytest.MonkeyPatch, moment: int, by: Callable[[], None]) -> Iterator[Counter[str]]:
    """Have something happen before or after one of the calls that reach a storage; count whether it has.

    :param moment: 0: before the first call, 1: after it, 2: before the second one, and so on.
    """
    happened, left = Counter[str](), moment

    def count() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            happened["once"] += 1
            by()

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def once(*arguments: Any, **options: Any) -> Any:
            count()
            result = call(*arguments, **options)
            count()
            return result

        return once

    with monkeypatch.context() as patched:
        for owner, names in CALLS.items():
            for name in names:
                patched.setattr(owner, name, around(getattr(owner, name)))
        yield happened


def test_an_attempt_that_has_lost_its_job_and_its_successor_lose_no_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a take-over of a task whose process still runs: both take the same file away, or restore it."""
    for step, done in ((take_one, ItemOutcome.QUARANTINED), (restore_one, ItemOutcome.RESTORED)):
        moment, met = 0, True
        while met:
            file = site.write()
            if step is restore_one:
                site.open().take(file)
            with disturbed(monkeypatch, moment, lambda step=step, file=file: step(site.open(), file)) as happened:  # type: ignore[misc]
                outcome = step(site.open(), file)
            moment, met = moment + 1, bool(happened)
            assert outcome in (done, None), f"{step.__name__}, {moment}"
            assert site.open().holds(file) is (step is take_one)
            site.open().restore(file)
            assert site.content() == b"stray"
            assert not site.kept()
        assert moment > 1


def take_one(quarantine: Quarantine, file: StoredFile) -> ItemOutcome | None:
    return _outcome(*take_away(quarantine, [RemovalItem(file.path, file.bytes, file.modified_at)], lambda: False))


def restore_one(quarantine: Quarantine, file: StoredFile) -> ItemOutcome | None:
    held = RemovalItem(file.path, file.bytes, file.modified_at, ItemOutcome.QUARANTINED)
    return _outcome(*_each([held], partial(_restored, quarantine), lambda: False))


def _outcome(item: RemovalItem) -> ItemOutcome | None:
    """Return what became of a file; ``None`` if its storage failed, so that a later attempt repeats it."""
    return None if item.reason is not None else item.outcome


@pytest.mark.one_database
def test_random_kills_of_removals_and_restores_lose_no_file(
    world: World, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Each kill ends an attempt between two writes to the record or two moves; the next attempt at the job continues."""
    chance, faults = random.Random(25), 0
    names = [f"part={number % 3}/{number}.parquet" for number in range(12)]
    deadly = [(Removals, "record"), (Removals, "settle"), *((RenamedFiles, step) for step in ("take", "restore", "purge"))]

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def once(*arguments: Any, **options: Any) -> Any:
            if chance.random() < 0.06:
                raise Killed
            result = call(*arguments, **options)
            if chance.random() < 0.06:
                raise Killed
            return result

        return once

    def until_done(work: Callable[[JobRemovals], ActionEffect | None]) -> None:
        nonlocal faults
        of_job = world.attempt()
        for _ in range(2):
            try:
                with monkeypatch.context() as patched:
                    for owner, name in deadly:
                        patched.setattr(owner, name, mortal(getattr(owner, name)))
                    effect = work(of_job)
                break
            except Killed:
                faults += 1
                if work is not purged:
                    check()
                of_job = world.attempt(of_job.job.job_id)
        else:
            effect = work(of_job)
        assert effect is None or effect.error is None
        world.end(of_job)

    def purged(of_job: JobRemovals) -> None:
        purge(of_job, lambda: world.catalog, lambda: False)

    def check() -> None:
        in_place = {Path(path).name for path in world.files()}
        kept = {path.name for path in world.kept()}
        assert in_place | kept == {Path(name).name for name in names}
        assert not in_place & kept

    for _ in range(rounds(4, soak=200)):
        paths = [world.stray(name) for name in names]
        planned: list[Removal] = []

        def remove(of_job: JobRemovals, planned: list[Removal] = planned, paths: Sequence[str] = paths) -> None:
            if not planned:
                planned.append(world.planned(of_job, paths))
            world.delete(of_job, planned[0])

        until_done(remove)
        (removal,) = planned
        assert world.files() == {}
        check()
        some = [path for path in paths if chance.random() < 0.5]
        if some:
            key = chance.choice([removal.removal_id, ALL])
            until_done(lambda of_job, key=key, some=some: restore(of_job, world.catalog, key, some, lambda: False))  # type: ignore[misc]
            check()
            assert {f"file:{path}" for path in world.files()} == set(some)
        if chance.random() < 0.5:
            until_done(lambda of_job, key=removal.removal_id: restore(of_job, world.catalog, key, (), lambda: False))  # type: ignore[misc]
            check()
            assert len(world.files()) == len(names)
            assert world.removals.get(removal.removal_id).state is RemovalState.RESTORED
            continue
        world.clock.now += WEEK
        until_done(purged)
        assert world.kept() == []
        assert {f"file:{path}" for path in world.files()} == set(some)
        ended = world.removals.get(removal.removal_id)
        assert (ended.quarantined_until, ended.restored_count) == (None, len(some))
    record_property("faults", faults)
    assert faults


def test_the_options_that_do_not_go_together_are_refused() -> None:
    from airflow_snowpack.maintenance.errors import InvalidOption

    restores = {"remove_orphan_files": {"restore": "all"}}
    request = MaintenanceRequest.parse("db.orders", ["remove_orphan_files"], catalog="lake", options=restores)
    assert request.without_orphans_below(timedelta(days=9)) is request, "a running DAG that writes keeps no file from its place"
    parsed = parse_options(Action.REMOVE_ORPHAN_FILES, {"quarantine": "7d", "quarantine_copy": True})
    assert parse_options(Action.REMOVE_ORPHAN_FILES, parsed.to_json()) == parsed
    for wrong, problem in (
        ({"quarantine": "10m"}, "must be at least 1 h"),
        ({"quarantine": "400d"}, "must be at most 365 days"),
        ({"quarantine_copy": True}, "is only for a removal with quarantine"),
        ({"restore_files": ["x"]}, "needs restore"),
        ({"restore": "all", "quarantine": "7d"}, "leave quarantine out"),
        ({"restore": "all", "removal_id": "x"}, "leave removal_id out"),
        ({"restore": "all", "restore_files": ["x"] * 1_001}, "must be at most 1,000 paths"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            parse_options(Action.REMOVE_ORPHAN_FILES, wrong)
