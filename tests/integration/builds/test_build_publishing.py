"""What readers see moves from one complete build to a newer one, and never back by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from built_runs import DATASET, DAY, MIDNIGHT, MovedClock, begun, built, manifest_of, served, write_attempt

from airflow_snowpack.builds.errors import (
    BuildNotFound,
    DatasetBusy,
    DatasetNotFound,
    InvalidBuild,
    ManifestDamaged,
    ShardCoverageError,
    StaleBuild,
)
from airflow_snowpack.builds.model import RunStatus
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registered import BuildPolicy, PublicationKind
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.rollback import rollback
from airflow_snowpack.builds.storage import Storage

if TYPE_CHECKING:
    from airflow_snowpack.store import Store


def published(registry: BuildRegistry, storage: Storage, *days: int) -> list[str]:
    """Builds of these days, published in this order; their run ids."""
    run_ids = []
    for day in days:
        handle, manifest = built(registry, storage, MIDNIGHT + day * DAY)
        publish(registry, storage, handle, manifest)
        run_ids.append(handle.run_id)
    return run_ids


def test_a_published_build_is_served_and_on_record(registry: BuildRegistry, storage: Storage) -> None:
    assert served(storage) is None
    handle, manifest = built(registry, storage, MIDNIGHT, owner="dag/run/task")
    outcome = publish(registry, storage, handle, manifest)
    assert (outcome.moved, outcome.publication, outcome.recorded) == (True, 1, True)
    assert served(storage) == handle.run_id == "20260101T000000Z"
    run = registry.run(DATASET, handle.run_id)
    assert (run.status, run.rows, run.holder, run.manifest) == (RunStatus.SUCCEEDED, 2, None, outcome.manifest)
    known = registry.dataset(DATASET)
    assert (known.current_run, known.publication, known.newest_as_of, known.held_by) == (handle.run_id, 1, MIDNIGHT, None)
    (publication,) = registry.publications(DATASET)
    assert (publication.kind, publication.by) == (PublicationKind.PUBLISH, "dag/run/task")


def test_two_builds_that_finish_in_either_order_leave_the_newer_one_current(registry: BuildRegistry, storage: Storage) -> None:
    older, newer = built(registry, storage, MIDNIGHT), built(registry, storage, MIDNIGHT + DAY)
    assert publish(registry, storage, *newer).moved
    outcome = publish(registry, storage, *older)
    assert not outcome.moved
    assert "went into history" in (outcome.reason or "")
    assert served(storage) == newer[0].run_id
    assert registry.run(DATASET, older[0].run_id).status is RunStatus.SUCCEEDED
    assert [each.run_id for each in registry.publications(DATASET)] == [newer[0].run_id]

    first, second = built(registry, storage, MIDNIGHT + 2 * DAY), built(registry, storage, MIDNIGHT + 3 * DAY)
    assert publish(registry, storage, *first).moved
    assert publish(registry, storage, *second).moved
    assert served(storage) == second[0].run_id


def test_a_later_run_of_the_same_moment_replaces_the_one_before(registry: BuildRegistry, storage: Storage) -> None:
    first, again = built(registry, storage, MIDNIGHT), built(registry, storage, MIDNIGHT)
    assert again[0].run_id == "20260101T000000Z.2"
    assert publish(registry, storage, *again).moved
    assert not publish(registry, storage, *first).moved
    assert served(storage) == again[0].run_id


def test_publishing_twice_gives_the_same_outcome(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    assert publish(registry, storage, handle, manifest) == publish(registry, storage, handle, manifest)
    assert len(registry.publications(DATASET)) == 1
    published(registry, storage, 1)
    late = publish(registry, storage, handle, manifest)
    assert not late.moved
    assert "stands on 20260102T000000Z" in (late.reason or "")


def test_a_later_try_of_the_same_task_takes_the_run_over(registry: BuildRegistry, storage: Storage) -> None:
    old, manifest = built(registry, storage, MIDNIGHT, owner="dag/run/task")
    new, _ = built(registry, storage, MIDNIGHT, owner="dag/run/task")
    assert new.run_id == "20260101T000000Z.2"
    assert registry.run(DATASET, old.run_id).status is RunStatus.FAILED
    assert "A later try" in (registry.run(DATASET, old.run_id).error or "")
    assert not registry.heartbeat(old)
    assert registry.heartbeat(new)
    with pytest.raises(StaleBuild, match="the run 20260101T000000Z of flights"):
        publish(registry, storage, old, manifest)
    assert served(storage) is None


def test_a_run_handed_to_another_task_is_no_longer_its_first_holders(registry: BuildRegistry, storage: Storage) -> None:
    first, manifest = built(registry, storage, MIDNIGHT)
    second = registry.resume(DATASET, first.run_id, holder="publish")
    assert not registry.fail(first, "too late")
    with pytest.raises(StaleBuild):
        publish(registry, storage, first, manifest)
    outcome = publish(registry, storage, second, manifest)
    assert outcome.manifest == f"manifests/{first.run_id}/2.json"
    assert served(storage) == first.run_id
    with pytest.raises(BuildNotFound, match="has succeeded already"):
        registry.resume(DATASET, first.run_id)
    with pytest.raises(BuildNotFound, match="no run, manifest or publication"):
        registry.resume(DATASET, "other")


def test_a_run_that_failed_cannot_be_published(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    assert registry.fail(handle, "no space\0left")
    with pytest.raises(StaleBuild):
        publish(registry, storage, handle, manifest)
    assert (registry.run(DATASET, handle.run_id).error or "").startswith("no space")


def test_a_manifest_of_another_run_or_of_other_shards_is_refused(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    with pytest.raises(InvalidBuild, match="the run is flights/20260101T000000Z"):
        publish(registry, storage, handle, replace(manifest, run_id="other"))
    with pytest.raises(ShardCoverageError, match="no attempt at shard 1 succeeded"):
        publish(registry, storage, handle, replace(manifest, shards=manifest.shards[:1]))
    assert served(storage) is None


def test_a_dataset_stands_in_one_folder_which_is_its_own(registry: BuildRegistry, storage: Storage) -> None:
    published(registry, storage, 0)
    with pytest.raises(InvalidBuild, match="the dataset flights stands at"):
        registry.begin(DATASET, f"{storage.url}2", as_of=MIDNIGHT, num_shards=1)
    with pytest.raises(InvalidBuild, match="the dataset flights stands there"):
        registry.begin("other", storage.url, as_of=MIDNIGHT, num_shards=1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dataset": "../x"}, "dataset = "),
        ({"label": "a/b"}, "run_id = "),
        ({"num_shards": 0}, "num_shards = 0"),
        ({"as_of": MIDNIGHT.replace(tzinfo=None)}, "it has no time zone"),
        ({"as_of": MIDNIGHT.replace(tzinfo=None), "label": "a"}, "it has no time zone"),
    ],
)
def test_a_run_that_cannot_be_named_is_refused_before_anything_is_written(
    registry: BuildRegistry, wrong: dict[str, Any], said: str
) -> None:
    usual: dict[str, Any] = {"dataset": DATASET, "url": "/x", "as_of": MIDNIGHT, "num_shards": 1}
    with pytest.raises(InvalidBuild, match=said):
        registry.begin(**usual | wrong)
    assert registry.datasets() == []


def test_labels_that_look_like_second_runs_of_others_stay_apart(registry: BuildRegistry) -> None:
    def run_id(label: str) -> str:
        return registry.begin(DATASET, "/x", as_of=MIDNIGHT, num_shards=1, label=label).run_id

    assert [run_id("a.2"), run_id("a"), run_id("a"), run_id("a.2")] == ["a.2", "a", "a.3", "a.2.2"]
    assert [run_id("b") for _ in range(25)][-1] == "b.25"


def test_what_the_storage_has_already_is_never_written_into(registry: BuildRegistry, storage: Storage) -> None:
    write_attempt(storage, "20260101T000000Z", 0)
    handle = registry.begin(DATASET, storage.url, as_of=MIDNIGHT, num_shards=1, storage=storage)
    assert handle.run_id == "20260101T000000Z.2"
    assert [run.run_id for run in registry.runs(DATASET)] == [handle.run_id], "of the other one the registry says nothing"


def test_rolling_back_is_a_publication_of_its_own_and_does_not_make_older_runs_current(
    registry: BuildRegistry, storage: Storage
) -> None:
    first, _, third = published(registry, storage, 0, 2, 4)
    outcome = rollback(registry, storage, DATASET, to=first, by="ada")
    assert (outcome.moved, outcome.publication) == (True, 4)
    assert served(storage) == first
    published(registry, storage, 3)  # newer than what is served, and older than what has been
    assert served(storage) == first
    (latest, *_) = registry.publications(DATASET)
    assert (latest.kind, latest.by, latest.run_id) == (PublicationKind.ROLLBACK, "ada", first)
    assert rollback(registry, storage, DATASET, to=f"manifests/{third}/1.json", by=None).moved
    assert served(storage) == third
    again = rollback(registry, storage, DATASET, to=third, by=None)
    assert not again.moved
    assert again.reason == f"{third} is the current build of flights already."
    published(registry, storage, 5)
    assert served(storage) == "20260106T000000Z"


def test_an_offset_counts_published_builds_in_the_order_of_their_data(registry: BuildRegistry, storage: Storage) -> None:
    published(registry, storage, 0, 4, 2)  # the last one goes into history
    failed, _ = built(registry, storage, MIDNIGHT + 3 * DAY)
    registry.fail(failed, "x")
    assert rollback(registry, storage, DATASET, to="-1", by=None).run_id == "20260103T000000Z"
    assert rollback(registry, storage, DATASET, to="-1", by=None).run_id == "20260101T000000Z"
    with pytest.raises(BuildNotFound, match="so many published builds are not kept"):
        rollback(registry, storage, DATASET, to="-1", by=None)
    assert rollback(registry, storage, DATASET, to="20260105T000000Z", by=None).moved
    assert rollback(registry, storage, DATASET, to="-2", by=None).run_id == "20260101T000000Z"


def test_a_later_try_of_the_same_task_goes_back_no_further(registry: BuildRegistry, storage: Storage) -> None:
    first, second, _ = published(registry, storage, 0, 1, 2)
    back = rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True)
    assert (back.run_id, back.moved) == (second, True)
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True) == back
    assert rollback(registry, storage, DATASET, to=first, by="dag/run/back", once=True).run_id == first, "it is another wish"
    published(registry, storage, 3, 4)
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run/back", once=True).run_id == "20260104T000000Z"
    assert rollback(registry, storage, DATASET, to="-1", by="dag/run2/back", once=True).run_id == "20260103T000000Z"


def test_only_what_is_published_and_whole_can_be_gone_back_to(registry: BuildRegistry, storage: Storage) -> None:
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
    with pytest.raises(ManifestDamaged, match=r"shard.parquet of .* bytes is not there"):
        rollback(registry, storage, DATASET, to=first, by=None)
    storage.write(f"manifests/{second}/1.json", b"{}")
    with pytest.raises(ManifestDamaged, match="its checksum is"):
        rollback(registry, storage, DATASET, to=second, by=None)
    assert served(storage) == third


def test_who_goes_back_falls_back_to_what_was_served_before_and_not_to_what_he_left(
    registry: BuildRegistry, storage: Storage
) -> None:
    first, second, _ = published(registry, storage, 0, 1, 2)
    rollback(registry, storage, DATASET, to=second, by=None)
    pointer = read_pointer(storage)
    assert pointer is not None
    assert pointer.previous == f"manifests/{first}/1.json"
    storage.write(f"data/{second}/shard=00000/attempt=00-0/shard.parquet", b"damaged")
    assert served(storage) == first


def test_a_publication_waits_for_the_dataset_and_then_gives_up(store: Store, storage: Storage) -> None:
    naps: list[float] = []
    registry = BuildRegistry(store, BuildPolicy(lock_wait=timedelta(seconds=10)), sleep=naps.append)
    handle, manifest = built(registry, storage, MIDNIGHT)
    with registry.lock(DATASET, "somebody"):
        with pytest.raises(DatasetBusy, match="is held by somebody until 2026-01-01T00:02:00"):
            publish(registry, storage, handle, manifest)
        assert naps == [1.0] * 10
        assert registry.dataset(DATASET).held_by == "somebody"
    assert publish(registry, storage, handle, manifest).moved


def test_a_lock_whose_holder_is_gone_is_free_once_its_lease_has_run_out(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    left = registry.lock(DATASET, "killed")
    clock.move(registry.policy.lock_lease)
    assert publish(registry, storage, handle, manifest).moved
    with pytest.raises(StaleBuild, match="the dataset flights"):
        left.check()


def test_lists_go_on_where_the_page_before_ended(registry: BuildRegistry, storage: Storage, tmp_path: Any) -> None:
    published(registry, storage, 3, 0, 2, 4)
    for name in ("a", "z"):
        registry.begin(name, str(tmp_path / name), as_of=MIDNIGHT, num_shards=1)
    first = registry.runs(DATASET, limit=3)
    rest = registry.runs(DATASET, limit=3, before=(first[-1].as_of, first[-1].sequence))
    assert [run.as_of.day for run in first + rest] == [5, 4, 3, 1]
    moves = registry.publications(DATASET, limit=1)
    assert [each.number for each in registry.publications(DATASET, before=moves[-1].number)] == [1]
    names = registry.datasets(limit=2)
    assert [each.dataset for each in names + registry.datasets(limit=2, after=names[-1].dataset)] == ["a", DATASET, "z"]
    assert registry.runs(DATASET, status=RunStatus.FAILED) == registry.runs("nowhere") == []


def test_a_row_of_somebody_elses_change_is_written_with_the_publication_or_not_at_all(
    registry: BuildRegistry, storage: Storage
) -> None:
    notes: list[str] = []
    handle, manifest = built(registry, storage, MIDNIGHT)
    publish(registry, storage, handle, manifest, also=lambda conn: notes.append("published"))
    published(registry, storage, 1)
    rollback(registry, storage, DATASET, to="-1", by=None, also=lambda conn: notes.append("rolled back"))
    assert notes == ["published", "rolled back"]


def test_an_empty_shard_without_a_file_is_published(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=1)
    empty = replace(
        write_attempt(storage, handle.run_id, 0), url=None, rows=0, bytes=0, min_key=None, max_key=None, checksum=None
    )
    publish(registry, storage, handle, manifest_of(handle, (empty,)))
    assert served(storage) == handle.run_id
    assert registry.run(DATASET, handle.run_id).rows == 0


def test_a_lease_that_is_renewed_outlasts_its_first_end(registry: BuildRegistry, storage: Storage, clock: MovedClock) -> None:
    handle = begun(registry, storage, MIDNIGHT)
    clock.move(timedelta(minutes=29))
    assert registry.heartbeat(handle)
    assert registry.run(DATASET, handle.run_id).lease_until == clock.now + registry.policy.run_lease
