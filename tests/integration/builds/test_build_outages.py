"""Storage or registry that fails, a publisher that sleeps through its lease: readers see a complete build, and it all heals."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, begun, built, current_run, folders, published
from clocks import MovedClock
from failing_storage import every_third, failing_storage
from postgres_server import PostgresServer
from pyarrow import fs
from s3_server import BUCKET, s3_server

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import InvalidBuild, PointerUnknown, PublishFailed, StaleBuild, StorageFailed
from airflow_snowpack.builds.json_format import to_json
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.model import BuildPolicy, PublicationKind, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store, StoreUnreachable, upgrade_schema
from airflow_snowpack.store.opening import open_engine

KEEP_ONE = Retention(keep_runs=1)
T = TypeVar("T")


class Pointed(Storage):
    """A storage that calls a function when the pointer is about to be set, or was."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def write(self, path: str, data: bytes, *, tries: int = 3) -> None:
        if path == layout.CURRENT and self.before is not None:
            self.before()
        super().write(path, data, tries=tries)
        if path == layout.CURRENT and self.after is not None:
            self.after()


@pytest.fixture
def pointed(tmp_path: Path) -> Pointed:
    return Pointed(tmp_path / "flights")


# -- a storage that fails --------------------------------------------------------------------------------------------------


@pytest.mark.one_database
def test_a_storage_that_fails_every_third_call_costs_time_and_nothing_else(registry: BuildRegistry, tmp_path: Path) -> None:
    storage, sound = failing_storage(tmp_path, every_third()), Storage(tmp_path)
    for day in range(4):
        (run_id,) = published(registry, storage, day, losers=1)
        assert current_run(sound) == run_id
        assert not any(action.error for action in cleanup(registry, storage, DATASET, Retention(keep_runs=2)))
    assert rollback(registry, storage, DATASET, to="-1", by=None).moved
    assert current_run(sound) == "20260103T000000Z"
    assert folders(sound, "data/") == ["20260103T000000Z", "20260104T000000Z"]
    assert len(list(sound.objects("data/"))) == 2 * 2 * 2, "two runs of two shards, with one attempt each"


def test_an_upload_whose_last_request_fails_is_repeated_and_then_raises(tmp_path: Path) -> None:
    shard = tmp_path / "shard.parquet"
    shard.write_bytes(b"rows")
    failures = [True, True, False, True, True, True]

    with s3_server(before=lambda request: request.method != "PUT" or not failures.pop(0)) as options:
        once = {**options, "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=1)}
        storage = Storage(f"s3://{BUCKET}/flights", once, sleep=lambda seconds: None)
        storage.upload(shard, "data/1/shard.parquet")
        assert storage.read("data/1/shard.parquet") == b"rows"
        with pytest.raises(StorageFailed, match="SLOW_DOWN"):
            storage.upload(shard, "data/2/shard.parquet")
        assert [found.path for found in storage.objects("data/")] == ["data/1/shard.parquet"]
    assert failures == []


def test_a_pointer_that_cannot_be_set_fails_the_run_and_stays_what_it_was(
    registry: BuildRegistry, storage: Storage, pointed: Pointed, naps: list[float]
) -> None:
    (before,) = published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)
    tries: list[None] = []

    def fail() -> None:
        tries.append(None)
        raise StorageFailed("write", "_CURRENT", "no")

    pointed.before = fail
    with pytest.raises(PublishFailed, match="could not be set in 3 tries"):
        publish(registry, pointed, handle, manifest)
    assert (len(tries), naps) == (3, [1.0, 2.0])
    assert current_run(storage) == before
    run = registry.run(DATASET, handle.run_id)
    assert run.status is RunStatus.FAILED
    assert "could not be set" in (run.error or "")
    assert published(registry, storage, 2) == [current_run(storage)]
    assert [each.run_id for each in registry.publications(DATASET)] == ["20260103T000000Z", before]


@pytest.mark.one_database
def test_a_pointer_that_can_be_set_at_the_third_try_is_set(registry: BuildRegistry, pointed: Pointed, naps: list[float]) -> None:
    tries: list[None] = []

    def fail_twice() -> None:
        tries.append(None)
        if len(tries) < 3:
            raise StorageFailed("write", "_CURRENT", "no")

    pointed.before = fail_twice
    assert published(registry, pointed, 0) == [current_run(pointed)]
    assert naps == [1.0, 2.0]


@pytest.mark.one_database
def test_a_pointer_that_was_set_although_the_answer_was_lost_is_set(registry: BuildRegistry, pointed: Pointed) -> None:
    def lose_the_answer() -> None:
        raise StorageFailed("write", "_CURRENT", "the connection was reset")

    pointed.after = lose_the_answer
    assert published(registry, pointed, 0) == [current_run(pointed)]
    assert registry.dataset(DATASET).publication == 1


@pytest.mark.one_database
def test_an_interrupted_publication_without_its_files_is_not_completed(
    registry: BuildRegistry, storage: Storage, pointed: Pointed
) -> None:
    (before,) = published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)

    def interrupt() -> None:
        raise KeyboardInterrupt

    pointed.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        publish(registry, pointed, handle, manifest)
    storage.delete(manifest.shards[0].url or "")
    cleanup(registry, storage, DATASET, KEEP_ONE)
    assert current_run(storage) == before
    assert registry.dataset(DATASET).current_run == before


class SlowToRead(Storage):
    """A storage in which something happens while the pointer is read for its replacement."""

    meanwhile: Callable[[], None] | None = None
    pointers = 0

    def write(self, path: str, data: bytes, *, tries: int = 3) -> None:
        self.pointers += path == layout.CURRENT
        super().write(path, data, tries=tries)

    def read_version(self, path: str) -> tuple[bytes | None, str | None]:
        found = super().read_version(path)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return found


def test_a_publisher_whose_read_of_the_pointer_outlasts_its_lease_does_not_write_it(
    registry: BuildRegistry, storage: Storage, tmp_path: Path, clock: MovedClock
) -> None:
    published(registry, storage, 0)
    slow = SlowToRead(tmp_path / "flights")
    mine = built(registry, storage, MIDNIGHT + DAY)
    seen: list[str | None] = []

    def be_replaced() -> None:
        clock.move(registry.policy.lock_lease)
        published(registry, storage, 2)
        seen.append(storage.read(layout.CURRENT).decode())

    slow.meanwhile = be_replaced
    publish(registry, slow, *mine)
    assert seen == [storage.read(layout.CURRENT).decode()]
    assert slow.pointers == 0


class Mute(Pointed):
    """A storage that, once it is mute, neither takes the pointer nor gives it away."""

    mute = False

    def read(self, path: str) -> bytes:
        if self.mute and path == layout.CURRENT:
            raise StorageFailed("read", path, "no")
        return super().read(path)


@pytest.mark.parametrize("was_set", [True, False])
def test_after_an_unknown_outcome_the_next_process_completes_the_publication(
    registry: BuildRegistry, storage: Storage, tmp_path: Path, clock: MovedClock, was_set: bool
) -> None:
    published(registry, storage, 0)
    mute = Mute(tmp_path / "flights")
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)

    def fall_silent() -> None:
        mute.mute = True
        raise StorageFailed("write", "_CURRENT", "no")

    if was_set:
        mute.after = fall_silent
    else:
        mute.before = fall_silent
    with pytest.raises(PointerUnknown, match="It is unknown"):
        publish(registry, mute, handle, manifest)
    assert registry.run(DATASET, handle.run_id).status is RunStatus.RUNNING
    with pytest.raises(StorageFailed):
        cleanup(registry, mute, DATASET, KEEP_ONE)
    clock.move(3 * DAY)  # other runs are stale by now, this one must not be deleted
    planned = cleanup(registry, storage, DATASET, KEEP_ONE, dry_run=True)
    assert cleanup(registry, storage, DATASET, KEEP_ONE) == planned
    assert current_run(storage) == handle.run_id
    assert registry.run(DATASET, handle.run_id).status is RunStatus.SUCCEEDED
    assert registry.dataset(DATASET).current_run == handle.run_id


class Killed(BaseException): ...


@pytest.mark.one_database
def test_a_publication_that_fails_keeps_the_record_of_the_one_that_the_pointer_shows(
    registry: BuildRegistry, storage: Storage, pointed: Pointed
) -> None:
    runs = published(registry, storage, 0, 1)

    def kill() -> None:
        raise Killed

    pointed.after = kill
    with pytest.raises(Killed):
        rollback(registry, pointed, DATASET, to="-1", by="dag/run/task", once=True)
    manifests = {path: storage.read(path) for run in runs if (path := registry.run(DATASET, run).manifest) is not None}
    for path in manifests:
        storage.delete(path)  # then nothing can be reconciled until they are restored
    handle, manifest = built(registry, storage, MIDNIGHT + 2 * DAY)

    def fail() -> None:
        raise StorageFailed("write", "_CURRENT", "no")

    pointed.before = fail
    with pytest.raises(PublishFailed):
        publish(registry, pointed, handle, manifest)
    for path, data in manifests.items():
        storage.write(path, data)
    repeated = rollback(registry, storage, DATASET, to="-1", by="dag/run/task", once=True)
    assert (repeated.run_id, repeated.publication) == (runs[0], 3)
    assert registry.publications(DATASET)[0].kind is PublicationKind.ROLLBACK


# -- a registry that is away -----------------------------------------------------------------------------------------------


class Cut(Store):
    """A store that can be cut off."""

    off = False

    def _retried(self, once: Callable[[], T]) -> T:
        if self.off:
            raise StoreUnreachable(self.where, OSError("cut off"))
        return super()._retried(once)


def test_a_build_whose_registry_went_away_after_the_pointer_was_set_is_published(
    store_url: str, pointed: Pointed, storage: Storage, clock: MovedClock
) -> None:
    with Cut(open_engine(store_url), clock) as store:
        registry = BuildRegistry(store)
        published(registry, storage, 0)
        handle, manifest = built(registry, storage, MIDNIGHT + DAY)

        def cut() -> None:
            store.off = True

        pointed.after = cut
        outcome = publish(registry, pointed, handle, manifest)
        assert (outcome.moved, outcome.recorded) == (True, False)
        assert current_run(storage) == handle.run_id
        store.off = False
        assert registry.run(DATASET, handle.run_id).status is RunStatus.RUNNING

        clock.move(3 * DAY)
        assert handle.run_id not in {each.run_id for each in cleanup(registry, storage, DATASET, KEEP_ONE, dry_run=True)}
        next_one, its_manifest = built(registry, storage, MIDNIGHT + 2 * DAY)
        assert publish(registry, storage, next_one, its_manifest).moved
        assert registry.run(DATASET, handle.run_id).status is RunStatus.SUCCEEDED
        assert [each.number for each in registry.publications(DATASET)] == [3, 2, 1]
        assert rollback(registry, storage, DATASET, to="-1", by=None).run_id == handle.run_id


def test_a_real_postgres_that_goes_down_after_the_pointer_was_set(
    own_postgres: PostgresServer, pointed: Pointed, clock: MovedClock
) -> None:
    url = own_postgres.url.render_as_string(hide_password=False)
    with Store(open_engine(url), clock, sleep=lambda _: None) as store:
        upgrade_schema(store)
        registry = BuildRegistry(store)
        handle, manifest = built(registry, pointed, MIDNIGHT)
        pointed.after = own_postgres.stop
        assert not publish(registry, pointed, handle, manifest).recorded
        pointed.after = None
        own_postgres.start()
        clock.move(3 * DAY)
        assert cleanup(registry, pointed, DATASET, KEEP_ONE) == []
        assert registry.run(DATASET, handle.run_id).status is RunStatus.SUCCEEDED
        assert current_run(pointed) == handle.run_id


def test_a_later_try_after_the_registry_was_away_replaces_the_current_build(
    store_url: str, pointed: Pointed, storage: Storage, clock: MovedClock
) -> None:
    with Cut(open_engine(store_url), clock) as store:
        registry = BuildRegistry(store)
        first, manifest = built(registry, storage, MIDNIGHT, owner="task")

        def cut() -> None:
            store.off = True

        pointed.after = cut
        publish(registry, pointed, first, manifest)
        store.off = False
        second, manifest = built(registry, storage, MIDNIGHT, owner="task")
        assert registry.run(DATASET, first.run_id).status is RunStatus.FAILED, "as far as the registry knew"
        assert current_run(storage) == first.run_id
        clock.move(registry.policy.lock_lease)
        assert cleanup(registry, storage, DATASET, KEEP_ONE) == []
        assert current_run(storage) == first.run_id, "cleanup reads the pointer first"
        assert publish(registry, storage, second, manifest).moved
        assert current_run(storage) == second.run_id


@pytest.fixture
def fresh(migrated_sqlite: Path, tmp_path: Path, clock: MovedClock) -> Iterator[BuildRegistry]:
    """The registry that replaces a lost one: it has all tables and no rows."""
    database = shutil.copy(migrated_sqlite, tmp_path / "fresh.db")
    with Store(open_engine(f"sqlite:///{database}"), clock) as store:
        yield BuildRegistry(store)


@pytest.mark.one_database
def test_a_lost_registry_continues_from_the_current_build(
    registry: BuildRegistry, fresh: BuildRegistry, storage: Storage
) -> None:
    published(registry, storage, 0, 1, 2)
    handle = fresh.begin(DATASET, storage.url, as_of=MIDNIGHT + DAY, num_shards=2, storage=storage)
    assert handle.run_id == "20260102T000000Z.2"
    assert cleanup(fresh, storage, DATASET, KEEP_ONE) == []
    assert fresh.dataset(DATASET).current_run == "20260103T000000Z"
    older, manifest = built(fresh, storage, MIDNIGHT + DAY)
    assert not publish(fresh, storage, older, manifest).moved, "the lost registry had something newer"
    newer, manifest = built(fresh, storage, MIDNIGHT + 3 * DAY)
    assert publish(fresh, storage, newer, manifest).publication == 4, "numbers go on where they were"
    assert current_run(storage) == newer.run_id


@pytest.mark.one_database
def test_a_lost_registry_never_claims_a_published_run_as_its_own(
    registry: BuildRegistry, fresh: BuildRegistry, storage: Storage, tmp_path: Path, clock: MovedClock
) -> None:
    """A folder that is not the run's own is found before the run is registered, so that no cleanup deletes from it."""
    (run_id,) = published(registry, storage, 0)

    def not_listed(name: str, path: str) -> None:
        if name == "get_file_info_selector":
            raise OSError("not now")

    silent = failing_storage(tmp_path / "flights", not_listed)
    with pytest.raises(StorageFailed, match="not now"):
        begun(fresh, silent, MIDNIGHT, owner="task")
    assert fresh.runs(DATASET).items == ()
    again, _ = built(fresh, storage, MIDNIGHT + DAY, owner="task")
    fresh.fail(again, "it was no good")
    clock.move(3 * DAY)
    assert {action.run_id for action in cleanup(fresh, storage, DATASET, KEEP_ONE)} == {again.run_id}
    assert current_run(storage) == run_id


@pytest.mark.one_database
def test_a_lost_registry_begins_the_same_time_again_and_keeps_the_publication(
    registry: BuildRegistry, fresh: BuildRegistry, storage: Storage
) -> None:
    published(registry, storage, 0, 1)
    assert begun(fresh, storage, MIDNIGHT + DAY).run_id == "20260102T000000Z.2"
    older, manifest = built(fresh, storage, MIDNIGHT)
    assert not publish(fresh, storage, older, manifest).moved
    assert current_run(storage) == "20260102T000000Z"


# -- a pointer that is not what it should be -------------------------------------------------------------------------------


@pytest.mark.one_database
@pytest.mark.parametrize("damage", [None, b"", b"{}"])
def test_a_damaged_or_missing_pointer_is_written_again(registry: BuildRegistry, storage: Storage, damage: bytes | None) -> None:
    published(registry, storage, 0, 1)
    before = storage.read(layout.CURRENT)
    storage.delete(layout.CURRENT)
    if damage is not None:
        storage.write(layout.CURRENT, damage)
    assert cleanup(registry, storage, DATASET) == []
    assert storage.read(layout.CURRENT) == before


def test_a_pointer_ahead_without_a_manifest_is_repaired_with_a_higher_number(registry: BuildRegistry, storage: Storage) -> None:
    _, current = published(registry, storage, 0, 1)
    pointer = read_pointer(storage)
    assert pointer is not None
    storage.write(layout.CURRENT, to_json(replace(pointer, publication=7, run_id="gone", manifest="manifests/gone/1.json")))
    cleanup(registry, storage, DATASET)
    repaired = read_pointer(storage)
    assert repaired is not None
    assert (repaired.publication, repaired.run_id) == (8, current)
    assert registry.publications(DATASET)[0].kind is PublicationKind.REPAIR
    assert published(registry, storage, 2) == [current_run(storage)]


@pytest.mark.one_database
def test_the_folder_of_another_dataset_is_not_touched(registry: BuildRegistry, storage: Storage, tmp_path: Path) -> None:
    published(registry, storage, 0)
    registry.begin("other", str(tmp_path / "other"), as_of=MIDNIGHT, num_shards=1)
    with pytest.raises(InvalidBuild, match="the folder belongs to the dataset flights, not to other"):
        cleanup(registry, storage, "other")


# -- a publisher that sleeps between its look at the fence and its write ---------------------------------------------------


def asleep(pointed: Pointed, clock: MovedClock, policy: BuildPolicy, meanwhile: Callable[[], object]) -> None:
    """The next write of the pointer happens after ``meanwhile``, long after the lease has run out."""

    def sleep() -> None:
        pointed.before = None
        clock.move(policy.lock_lease + timedelta(seconds=1))
        meanwhile()

    pointed.before = sleep


def test_a_suspended_publisher_returns_the_outcome_that_another_process_completed(
    registry: BuildRegistry, storage: Storage, pointed: Pointed, clock: MovedClock
) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    asleep(pointed, clock, registry.policy, lambda: cleanup(registry, storage, DATASET))
    outcome = publish(registry, pointed, handle, manifest)
    assert (outcome.moved, outcome.publication, outcome.recorded) == (True, 1, True)
    assert current_run(storage) == handle.run_id


def test_a_suspended_publisher_restores_the_newer_build_that_it_overwrote(
    registry: BuildRegistry, storage: Storage, pointed: Pointed, clock: MovedClock
) -> None:
    published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)
    asleep(pointed, clock, registry.policy, lambda: published(registry, storage, 2))
    outcome = publish(registry, pointed, handle, manifest)
    assert not outcome.moved, "another process completed it, and then published a newer one"
    assert current_run(storage) == "20260103T000000Z"
    pointer = read_pointer(storage)
    assert pointer is not None
    assert pointer.publication == registry.dataset(DATASET).publication


def test_the_late_write_of_a_suspended_publisher_is_ignored_and_repaired(
    registry: BuildRegistry, storage: Storage, pointed: Pointed, clock: MovedClock
) -> None:
    published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)
    locks = []

    def publish_newer() -> None:
        published(registry, storage, 2)
        locks.append(registry.lock(DATASET, "another").__enter__())

    asleep(pointed, clock, registry.policy, publish_newer)
    outcome = publish(registry, pointed, handle, manifest)
    assert not outcome.moved, "another process completed it, and then published a newer one"
    pointer, known = read_pointer(storage), registry.dataset(DATASET)
    assert pointer is not None
    assert known.publication is not None
    assert pointer.publication < known.publication, "so readers that have seen the newer one stay there"
    assert current_run(storage) == handle.run_id, "a new reader sees the older one, complete"
    locks[0].__exit__(None, None, None)
    cleanup(registry, storage, DATASET)
    assert current_run(storage) == "20260103T000000Z"
    assert read_pointer(storage) == replace(read_pointer(storage) or pointer, publication=known.publication)


def test_a_sleeper_whose_run_was_taken_over_and_deleted_leaves_readers_a_way_back(
    registry: BuildRegistry, storage: Storage, pointed: Pointed, clock: MovedClock
) -> None:
    (before,) = published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY, owner="task")

    def retry_and_clean_up() -> None:
        built(registry, storage, MIDNIGHT + DAY, owner="task")
        cleanup(registry, storage, DATASET)

    asleep(pointed, clock, registry.policy, retry_and_clean_up)
    with pytest.raises(StaleBuild):
        publish(registry, pointed, handle, manifest)
    assert folders(storage, "data/") == [before, f"{handle.run_id}.2"]
    assert current_run(storage) == before
    pointer = read_pointer(storage)
    assert pointer is not None
    assert (pointer.run_id, pointer.publication) == (before, 3)
