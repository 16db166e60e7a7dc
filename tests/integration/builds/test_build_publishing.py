"""What readers see moves from one complete build to a newer one, and never back by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, begun, built, current_run, manifest_of, published, selected, write_attempt
from failing_storage import failing_storage

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound, InvalidBuild, ManifestDamaged, ShardCoverageError
from airflow_snowpack.builds.json_format import to_json
from airflow_snowpack.builds.model import MAX_PUBLICATION, FileCheck
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import keep_selection, kept_selection

pytestmark = pytest.mark.one_database


def test_a_later_run_of_the_same_moment_replaces_the_one_before(registry: BuildRegistry, storage: Storage) -> None:
    first, again = built(registry, storage, MIDNIGHT), built(registry, storage, MIDNIGHT)
    assert again[0].run_id == "20260101T000000Z.2"
    assert publish(registry, storage, *again).moved
    assert not publish(registry, storage, *first).moved
    assert current_run(storage) == again[0].run_id


def test_a_manifest_of_another_run_or_of_other_shards_is_refused(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    with pytest.raises(InvalidBuild, match="the run is flights/20260101T000000Z"):
        publish(registry, storage, handle, replace(manifest, run_id="other"))
    with pytest.raises(ShardCoverageError, match="no attempt at shard 1 succeeded"):
        publish(registry, storage, handle, replace(manifest, shards=manifest.shards[:1]))
    assert current_run(storage) is None


@pytest.mark.parametrize(("left", "message"), [(None, "does not exist"), (b"shorter", "has 7 bytes")])
def test_a_build_whose_files_are_not_all_there_is_never_published(
    registry: BuildRegistry, storage: Storage, left: bytes | None, message: str
) -> None:
    (before,) = published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)
    url = manifest.shards[1].url or ""
    storage.delete(url)
    if left is not None:
        storage.write(url, left)
    with pytest.raises(ManifestDamaged, match=f"its file {url} of .* bytes {message}"):
        publish(registry, storage, handle, manifest)
    assert current_run(storage) == before
    run = registry.run(DATASET, handle.run_id)
    assert (run.status, message in (run.error or "")) == (RunStatus.FAILED, True)
    assert list(storage.objects(layout.manifest_folder(handle.run_id))) == []
    assert published(registry, storage, 2) == [current_run(storage)]


@pytest.mark.parametrize("damage", ["another byte", "shorter", "missing"])
def test_a_publication_that_verifies_checksums_reads_every_file_and_fails_the_run_if_one_is_damaged(
    registry: BuildRegistry, storage: Storage, damage: str
) -> None:
    (before,) = published(registry, storage, 0)
    handle, manifest = built(registry, storage, MIDNIGHT + DAY)
    url = manifest.shards[1].url or ""
    data = storage.read(url)
    storage.delete(url)
    if damage != "missing":
        storage.write(url, data[:-1] + (b"" if damage == "shorter" else bytes([data[-1] ^ 1])))
    with pytest.raises(ManifestDamaged, match="shard=00001"):
        publish(registry, storage, handle, manifest, verify=FileCheck.CHECKSUMS)
    assert registry.run(DATASET, handle.run_id).status is RunStatus.FAILED
    assert current_run(storage) == before
    after = built(registry, storage, MIDNIGHT + DAY)
    outcome = publish(registry, storage, *after, verify=FileCheck.CHECKSUMS)
    assert outcome.moved
    assert publish(registry, storage, *after, verify=FileCheck.CHECKSUMS) == outcome
    with pytest.raises(InvalidBuild, match="verify = 'all' is not usable: it must be one of sizes, checksums"):
        publish(registry, storage, *after, verify="all")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [MAX_PUBLICATION, MAX_PUBLICATION - 1, 2**52])
@pytest.mark.parametrize("readable", [True, False], ids=["of a whole build", "of no build"])
def test_any_number_of_a_foreign_pointer_lets_the_next_builds_be_published_and_every_reader_follows(
    registry: BuildRegistry, storage: Storage, number: int, readable: bool
) -> None:
    published(registry, storage, 0)
    pointer = read_pointer(storage)
    assert pointer is not None
    before = SnapshotReader(storage)
    storage.write(layout.CURRENT, to_json(replace(pointer, publication=number, manifest=pointer.manifest if readable else "x")))
    readers = [before, SnapshotReader(storage)] if readable else [before]
    for day in (1, 2, 3):
        (run,) = published(registry, storage, day)
        assert current_run(storage) == run
        for reader in readers:
            reader.reload()
            assert reader.manifest.run_id == run
    assert rollback(registry, storage, DATASET, "-1", by=None).moved
    assert [reader.reload() for reader in readers] == [True] * len(readers)


@pytest.mark.parametrize("number", [MAX_PUBLICATION, MAX_PUBLICATION - 1])
def test_a_registry_that_was_lost_continues_after_the_last_number(
    registry: BuildRegistry, storage: Storage, tmp_path: Path, number: int
) -> None:
    published(registry, storage, 0)
    pointer = read_pointer(storage)
    assert pointer is not None
    (tmp_path / "moved").mkdir()
    moved = Storage(tmp_path / "moved")
    for found in storage.objects(""):
        moved.write(found.path, storage.read(found.path))
    moved.write(layout.CURRENT, to_json(replace(pointer, dataset="other", publication=number)))
    reader = SnapshotReader(moved)
    for day in (1, 2, 3):
        handle = registry.begin("other", moved.url, as_of=MIDNIGHT + day * DAY, num_shards=1, owner=None, storage=moved)
        write_attempt(moved, handle.run_id, 0)
        assert publish(registry, moved, handle, selected(moved, handle)).moved
        assert reader.reload()
        assert reader.manifest.run_id == handle.run_id


def test_publishing_lists_the_files_once_however_many_shards_there_are(registry: BuildRegistry, tmp_path: Path) -> None:
    calls: list[str] = []
    counted = failing_storage(tmp_path, lambda name, path: calls.append(name))
    asked = []
    for day, shards in enumerate((2, 40)):
        handle, manifest = built(registry, counted, MIDNIGHT + day * DAY, shards=shards)
        calls.clear()
        assert publish(registry, counted, handle, manifest).moved
        asked.append(sorted(calls))
    assert asked[0] == asked[1]
    assert asked[0].count("get_file_info_selector") == 1
    assert len(asked[0]) <= 5


def test_an_attempt_whose_record_was_altered_to_no_rows_is_not_published(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=1)
    attempt = write_attempt(storage, handle.run_id, 0)
    record = f"{(attempt.url or '').rpartition('/')[0]}/{layout.RECORD}"
    storage.write(record, storage.read(record).replace(b'"rows": 1', b'"rows": 0'))
    with pytest.raises(ShardCoverageError, match="no attempt at shard 0 succeeded"):
        selected(storage, handle)


def test_a_selection_that_was_altered_is_not_published(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    path = keep_selection(storage, manifest)
    assert kept_selection(storage, DATASET, handle.run_id) == manifest
    storage.write(path, storage.read(path).replace(b'"rows": 1', b'"rows": 0').replace(b'"rows": 2', b'"rows": 0'))
    with pytest.raises(ManifestDamaged, match="its checksum is"):
        kept_selection(storage, DATASET, handle.run_id)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dataset": "../x"}, "dataset = "),
        ({"label": "a/b"}, "run_id = "),
        ({"num_shards": 0}, "num_shards = 0"),
        ({"as_of": MIDNIGHT.replace(tzinfo=None)}, "it has no time zone"),
        ({"as_of": MIDNIGHT.replace(tzinfo=None), "label": "a"}, "it has no time zone"),
    ],
)
def test_a_run_that_cannot_be_named_is_refused_before_anything_is_written(
    registry: BuildRegistry, wrong: dict[str, Any], message: str
) -> None:
    usual: dict[str, Any] = {"dataset": DATASET, "url": "/x", "as_of": MIDNIGHT, "num_shards": 1}
    with pytest.raises(InvalidBuild, match=message):
        registry.begin(**usual | wrong)
    assert registry.datasets().items == ()


def test_what_the_storage_has_already_is_never_written_into(registry: BuildRegistry, storage: Storage) -> None:
    write_attempt(storage, "20260101T000000Z", 0)
    handle = registry.begin(DATASET, storage.url, as_of=MIDNIGHT, num_shards=1, storage=storage)
    assert handle.run_id == "20260101T000000Z.2"
    assert [run.run_id for run in registry.runs(DATASET).items] == [handle.run_id], "the registry does not know the other one"


def test_a_later_try_of_the_same_task_rolls_back_no_further(registry: BuildRegistry, storage: Storage) -> None:
    first, second, _ = published(registry, storage, 0, 1, 2)
    back = rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True)
    assert (back.run_id, back.moved) == (second, True)
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True) == back
    assert rollback(registry, storage, DATASET, to=first, by="dag/run/back", once=True).run_id == first, "it is another wish"
    published(registry, storage, 3, 4)
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True).run_id == "20260104T000000Z"
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run2/back", once=True).run_id == "20260103T000000Z"


def test_only_published_and_whole_builds_can_be_rolled_back_to(registry: BuildRegistry, storage: Storage) -> None:
    with pytest.raises(DatasetNotFound):
        rollback(registry, storage, DATASET, to="-1", by=None)
    running, _ = built(registry, storage, MIDNIGHT)
    with pytest.raises(BuildNotFound, match="nothing is published yet"):
        rollback(registry, storage, DATASET, to="-1", by=None)
    with pytest.raises(BuildNotFound, match="it is running"):
        rollback(registry, storage, DATASET, to=running.run_id, by=None)
    first, second, third = published(registry, storage, 1, 2, 3)
    with pytest.raises(BuildNotFound, match="no run, manifest or publication"):
        rollback(registry, storage, DATASET, to=f"manifests/{first}/2.json", by=None)
    storage.delete(f"data/{first}/shard=00001/attempt=00-0/shard.parquet")
    with pytest.raises(ManifestDamaged, match=r"shard.parquet of .* bytes does not exist"):
        rollback(registry, storage, DATASET, to=first, by=None)
    storage.write(f"manifests/{second}/1.json", b"{}")
    with pytest.raises(ManifestDamaged, match="its checksum is"):
        rollback(registry, storage, DATASET, to=second, by=None)
    assert current_run(storage) == third


def test_a_rollback_falls_back_to_its_predecessor_and_not_to_the_build_it_left(registry: BuildRegistry, storage: Storage) -> None:
    first, second, _ = published(registry, storage, 0, 1, 2)
    rollback(registry, storage, DATASET, to=second, by=None)
    pointer = read_pointer(storage)
    assert pointer is not None
    assert pointer.previous == f"manifests/{first}/1.json"
    storage.write(f"data/{second}/shard=00000/attempt=00-0/shard.parquet", b"damaged")
    assert current_run(storage) == first


def test_an_empty_shard_without_a_file_is_published(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=1)
    empty = replace(
        write_attempt(storage, handle.run_id, 0), url=None, rows=0, bytes=0, min_key=None, max_key=None, checksum=None
    )
    publish(registry, storage, handle, manifest_of(handle, (empty,)))
    assert current_run(storage) == handle.run_id
    assert registry.run(DATASET, handle.run_id).rows == 0
