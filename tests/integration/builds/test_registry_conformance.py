"""Every operation of the registry of builds, on SQLite and on Postgres.

What does not depend on the database (refusals, what a cleanup plans, what readers fall back to) is tested on SQLite alone, in the
other files of this folder.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from built_runs import (
    DATASET,
    DAY,
    MIDNIGHT,
    begun,
    built,
    cleanup_losers,
    cleanup_old_runs,
    cleanup_stale_attempts,
    current_run,
    everything,
    folders,
    published,
    unknown_folders,
    write_attempt,
)
from clocks import MovedClock

from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound, DatasetBusy, InvalidBuild, StaleBuild
from airflow_snowpack.builds.model import CleanupAction, CleanupPhase, Retention
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.model import BuildPolicy, PublicationKind, RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Actor, AuditTrail, Store
from airflow_snowpack.store.paging import Page


def paths(actions: list[CleanupAction]) -> list[str]:
    return [action.path for action in actions]


# -- runs and their publications -------------------------------------------------------------------------------------------


def test_a_published_build_is_current_and_recorded(registry: BuildRegistry, storage: Storage) -> None:
    assert current_run(storage) is None
    handle, manifest = built(registry, storage, MIDNIGHT, owner="dag/run/task")
    outcome = publish(registry, storage, handle, manifest)
    assert (outcome.moved, outcome.publication, outcome.recorded) == (True, 1, True)
    assert current_run(storage) == handle.run_id == "20260101T000000Z"
    run = registry.run(DATASET, handle.run_id)
    assert (run.status, run.rows, run.holder, run.manifest) == (RunStatus.SUCCEEDED, 2, None, outcome.manifest)
    known = registry.dataset(DATASET)
    assert (known.current_run, known.publication, known.newest_as_of, known.locked_by) == (handle.run_id, 1, MIDNIGHT, None)
    (publication,) = registry.publications(DATASET)
    assert (publication.kind, publication.by) == (PublicationKind.PUBLISH, "dag/run/task")


def test_two_builds_that_finish_in_either_order_leave_the_newer_one_current(registry: BuildRegistry, storage: Storage) -> None:
    older, newer = built(registry, storage, MIDNIGHT), built(registry, storage, MIDNIGHT + DAY)
    assert publish(registry, storage, *newer).moved
    outcome = publish(registry, storage, *older)
    assert not outcome.moved
    assert "went into history" in (outcome.reason or "")
    assert current_run(storage) == newer[0].run_id
    assert registry.run(DATASET, older[0].run_id).status is RunStatus.SUCCEEDED
    assert [each.run_id for each in registry.publications(DATASET)] == [newer[0].run_id]

    first, second = built(registry, storage, MIDNIGHT + 2 * DAY), built(registry, storage, MIDNIGHT + 3 * DAY)
    assert publish(registry, storage, *first).moved
    assert publish(registry, storage, *second).moved
    assert current_run(storage) == second[0].run_id


def test_publishing_twice_gives_the_same_outcome(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    assert publish(registry, storage, handle, manifest) == publish(registry, storage, handle, manifest)
    assert len(registry.publications(DATASET)) == 1
    published(registry, storage, 1)
    late = publish(registry, storage, handle, manifest)
    assert not late.moved
    assert "the current build of flights is 20260102T000000Z" in (late.reason or "")


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
    assert current_run(storage) is None


def test_a_run_handed_to_another_task_is_no_longer_its_first_holders(registry: BuildRegistry, storage: Storage) -> None:
    first, manifest = built(registry, storage, MIDNIGHT)
    second = registry.resume(DATASET, first.run_id, holder="publish")
    assert not registry.fail(first, "too late")
    with pytest.raises(StaleBuild):
        publish(registry, storage, first, manifest)
    outcome = publish(registry, storage, second, manifest)
    assert outcome.manifest == f"manifests/{first.run_id}/2.json"
    assert current_run(storage) == first.run_id
    with pytest.raises(BuildNotFound, match="has already succeeded"):
        registry.resume(DATASET, first.run_id)
    with pytest.raises(BuildNotFound, match="no run, manifest or publication"):
        registry.resume(DATASET, "other")


def test_a_run_that_failed_cannot_be_published(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    assert registry.fail(handle, "no space\0left")
    with pytest.raises(StaleBuild):
        publish(registry, storage, handle, manifest)
    assert (registry.run(DATASET, handle.run_id).error or "").startswith("no space")


def test_a_lease_that_is_renewed_outlasts_its_first_end(registry: BuildRegistry, storage: Storage, clock: MovedClock) -> None:
    handle = begun(registry, storage, MIDNIGHT)
    clock.move(timedelta(minutes=29))
    assert registry.heartbeat(handle)
    assert registry.run(DATASET, handle.run_id).lease_until == clock.now + registry.policy.run_lease


def test_a_dataset_has_one_folder_of_its_own(registry: BuildRegistry, storage: Storage) -> None:
    published(registry, storage, 0)
    with pytest.raises(InvalidBuild, match="the URL of the dataset flights is"):
        registry.begin(DATASET, f"{storage.url}2", as_of=MIDNIGHT, num_shards=1)
    with pytest.raises(InvalidBuild, match="the dataset flights has this URL"):
        registry.begin("other", storage.url, as_of=MIDNIGHT, num_shards=1)


def test_labels_that_look_like_second_runs_of_others_stay_apart(registry: BuildRegistry) -> None:
    def run_id(label: str) -> str:
        return registry.begin(DATASET, "/x", as_of=MIDNIGHT, num_shards=1, label=label).run_id

    assert [run_id("a.2"), run_id("a"), run_id("a"), run_id("a.2")] == ["a.2", "a", "a.3", "a.2.2"]
    assert [run_id("b") for _ in range(25)][-1] == "b.25"


def test_lists_go_on_where_the_page_before_ended(registry: BuildRegistry, storage: Storage, tmp_path: Any) -> None:
    published(registry, storage, 3, 0, 2, 4)
    for name in ("a", "z"):
        registry.begin(name, str(tmp_path / name), as_of=MIDNIGHT, num_shards=1)
    first = registry.runs(DATASET, limit=3)
    rest = registry.runs(DATASET, limit=3, before=first.next)
    assert [run.as_of.day for run in first.items + rest.items] == [5, 4, 3, 1]
    assert rest.next is None
    moves = registry.publications(DATASET, limit=1)
    assert [each.number for each in registry.publications(DATASET, before=moves[-1].number)] == [1]
    names = registry.datasets(limit=2)
    more = registry.datasets(limit=2, after=names.next)
    assert [each.dataset for each in names.items + more.items] == ["a", DATASET, "z"]
    assert registry.runs(DATASET, status=RunStatus.FAILED) == registry.runs("nowhere") == Page((), None)


def test_an_actors_change_has_its_audit_entry(registry: BuildRegistry, storage: Storage) -> None:
    ada = Actor("ada", via="api")
    handle, manifest = built(registry, storage, MIDNIGHT)
    publish(registry, storage, handle, manifest, actor=ada)
    published(registry, storage, 1)  # a task's, which has none
    publish(registry, storage, *built(registry, storage, MIDNIGHT - DAY), actor=ada)
    rollback(registry, storage, DATASET, to="-1", by="ada", actor=ada)
    entries = AuditTrail(registry.store).of("build:flights")
    assert [(each.actor, each.change, dict(each.detail)) for each in entries] == [
        ("ada", "publish_build", {"run_id": handle.run_id}),
        ("ada", "publish_build", {"run_id": "20251231T000000Z"}),
        ("ada", "rollback_build", {"to": "-1"}),
    ]


# -- rollbacks -------------------------------------------------------------------------------------------------------------


def test_rolling_back_is_a_publication_of_its_own_and_does_not_make_older_runs_current(
    registry: BuildRegistry, storage: Storage
) -> None:
    first, _, third = published(registry, storage, 0, 2, 4)
    outcome = rollback(registry, storage, DATASET, to=first, by="ada")
    assert (outcome.moved, outcome.publication) == (True, 4)
    assert current_run(storage) == first
    published(registry, storage, 3)  # newer than the current build, and older than the newest one
    assert current_run(storage) == first
    (latest, *_) = registry.publications(DATASET)
    assert (latest.kind, latest.by, latest.run_id) == (PublicationKind.ROLLBACK, "ada", first)
    assert rollback(registry, storage, DATASET, to=f"manifests/{third}/1.json", by=None).moved
    assert current_run(storage) == third
    again = rollback(registry, storage, DATASET, to=third, by=None)
    assert not again.moved
    assert again.reason == f"{third} is the current build of flights already."
    published(registry, storage, 5)
    assert current_run(storage) == "20260106T000000Z"


def test_an_offset_counts_published_builds_in_the_order_of_their_data(registry: BuildRegistry, storage: Storage) -> None:
    published(registry, storage, 0, 4, 2)  # the last one goes into history
    failed, _ = built(registry, storage, MIDNIGHT + 3 * DAY)
    registry.fail(failed, "x")
    assert rollback(registry, storage, DATASET, to="-1", by=None).run_id == "20260103T000000Z"
    assert rollback(registry, storage, DATASET, to="-1", by=None).run_id == "20260101T000000Z"
    with pytest.raises(BuildNotFound, match="fewer published builds than that are kept"):
        rollback(registry, storage, DATASET, to="-1", by=None)
    assert rollback(registry, storage, DATASET, to="20260105T000000Z", by=None).moved
    assert rollback(registry, storage, DATASET, to="-2", by=None).run_id == "20260101T000000Z"


# -- the dataset's lock ----------------------------------------------------------------------------------------------------


def test_a_publication_waits_for_the_dataset_and_then_gives_up(store: Store, storage: Storage) -> None:
    naps: list[float] = []
    registry = BuildRegistry(store, BuildPolicy(lock_wait=timedelta(seconds=10)), sleep=naps.append)
    handle, manifest = built(registry, storage, MIDNIGHT)
    with registry.lock(DATASET, "another"):
        with pytest.raises(DatasetBusy, match="is locked by another until 2026-01-01T00:02:00"):
            publish(registry, storage, handle, manifest)
        assert naps == [1.0] * 10
        assert registry.dataset(DATASET).locked_by == "another"
    assert publish(registry, storage, handle, manifest).moved


def test_the_lock_of_a_killed_process_is_free_after_its_lease(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT)
    left = registry.lock(DATASET, "killed")
    clock.move(registry.policy.lock_lease)
    assert publish(registry, storage, handle, manifest).moved
    with pytest.raises(StaleBuild, match="the dataset flights"):
        left.check()


# -- cleanup ---------------------------------------------------------------------------------------------------------------


def test_losing_attempts_go_and_the_winners_stay(registry: BuildRegistry, storage: Storage) -> None:
    (run_id,) = published(registry, storage, 0, losers=2)
    assert registry.run(DATASET, run_id).losers_left
    done = cleanup_losers(registry, storage, DATASET)
    assert paths(done) == [f"data/{run_id}/shard=0000{shard}/attempt=00-{task}/" for shard in (0, 1) for task in (1, 2)]
    assert {(action.phase, action.objects, action.error) for action in done} == {(CleanupPhase.LOSERS, 2, None)}
    assert done[0].reason == "the attempt 00-1 at shard 0 lost to 00-0"
    assert current_run(storage) == run_id
    assert cleanup_losers(registry, storage, DATASET) == []


def test_runs_that_failed_or_were_left_go_and_those_in_flight_stay(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    (current,) = published(registry, storage, 0)
    failed, _ = built(registry, storage, MIDNIGHT + DAY)
    left, _ = built(registry, storage, MIDNIGHT + 2 * DAY)
    alive, alive_manifest = built(registry, storage, MIDNIGHT + 3 * DAY)
    registry.fail(failed, "no space left")
    (action,) = cleanup_stale_attempts(registry, storage, DATASET)
    assert (action.path, action.objects, action.reason) == (f"data/{failed.run_id}/", 4, "the run failed: no space left")

    clock.move(DAY)
    assert cleanup_stale_attempts(registry, storage, DATASET) == [], "its lease expired, but less than a day ago"
    assert registry.heartbeat(alive)
    clock.move(registry.policy.run_lease)
    registry.heartbeat(alive)
    (action,) = cleanup_stale_attempts(registry, storage, DATASET)
    assert (action.path, action.reason) == (f"data/{left.run_id}/", "its lease expired at 2026-01-01 00:30 UTC")
    gone = registry.run(DATASET, left.run_id)
    assert (gone.status, gone.deleted_at) == (RunStatus.FAILED, clock.now)

    assert publish(registry, storage, alive, alive_manifest).moved
    assert folders(storage, "data/") == [current, alive.run_id]


def test_the_newest_runs_and_the_current_one_stay(registry: BuildRegistry, storage: Storage) -> None:
    runs = published(registry, storage, 0, 1, 2, 3, 4)
    rollback(registry, storage, DATASET, to=runs[0], by=None)
    done = cleanup_old_runs(registry, storage, DATASET, Retention(keep_runs=2))
    assert paths(done) == [f"{kind}/{run_id}/" for run_id in (runs[2], runs[1]) for kind in ("manifests", "data")]
    assert folders(storage, "data/") == folders(storage, "manifests/") == [runs[0], runs[3], runs[4]]
    assert current_run(storage) == runs[0]
    assert cleanup_old_runs(registry, storage, DATASET, Retention(keep_runs=2)) == []


def test_a_dry_run_returns_what_a_cleanup_does_and_deletes_nothing(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    published(registry, storage, 0, 1, 2, losers=1)
    failed, _ = built(registry, storage, MIDNIGHT + 3 * DAY)
    registry.fail(failed, "x")
    left, _ = built(registry, storage, MIDNIGHT + 4 * DAY)
    clock.move(2 * DAY)
    before, rows = everything(storage), registry.runs(DATASET)
    retention = Retention(keep_runs=2)
    parts = [phase(registry, storage, DATASET, retention, dry_run=True) for phase in (cleanup_losers, cleanup_stale_attempts)]
    planned = cleanup(registry, storage, DATASET, retention, dry_run=True)
    assert planned[: len(parts[0] + parts[1])] == parts[0] + parts[1]
    assert (everything(storage), registry.runs(DATASET)) == (before, rows)
    assert {action.phase for action in planned} == set(CleanupPhase)
    assert cleanup(registry, storage, DATASET, retention) == planned
    assert len(before) - len(everything(storage)) == sum(action.objects or 0 for action in planned)
    assert left.run_id not in folders(storage, "data/")


def test_a_folder_that_the_registry_does_not_know_is_reported_and_never_deleted(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    published(registry, storage, 0, 1)
    unknown = write_attempt(storage, "unknown", 0)
    storage.write("manifests/lost/1.json", b"{}")
    clock.move(9 * DAY)
    cleanup(registry, storage, DATASET, Retention(keep_runs=1))
    assert unknown_folders(registry, storage, DATASET) == ["manifests/lost/", "data/unknown/"]
    assert unknown.url in everything(storage)
