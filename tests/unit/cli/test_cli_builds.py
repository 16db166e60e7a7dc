"""``airflow snowpack builds``: what is published, going back, and cleaning up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builds_world import FAILED, FIRST, SECOND, SELECTED, THIRD, WRITING, Built, make_builds
from built_runs import MIDNIGHT, current_run, damage_shard
from published_builds import publish_build

from airflow_snowpack.builds.errors import StorageFailed
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.build import PublishOutcomeShape

Run = Callable[..., Any]


@pytest.fixture
def made(jobs: Jobs, tmp_path: Path) -> Built:
    return make_builds(jobs.store, tmp_path / "built")


def changes(jobs: Jobs) -> list[tuple[str, str, str, str]]:
    return [(entry.actor, entry.via, entry.change, entry.subject) for entry in AuditTrail(jobs.store).latest()]


def test_datasets_and_their_runs_are_tables_for_people_and_bodies_for_programs(snowpack: Run, made: Built) -> None:
    listed = snowpack("builds", "list").out
    assert "none" in listed
    assert SECOND in listed
    assert [each["dataset"] for each in snowpack("builds", "list", "-o", "json").json["datasets"]] == ["empty", "flights"]
    first = snowpack("builds", "list", "--limit", "1")
    assert "--cursor empty shows the next page" in first.err

    shown = snowpack("builds", "show", "flights").out
    (row,) = [line for line in shown.splitlines() if line.startswith(SECOND)]
    assert "current" in row
    assert "1,300" in row
    body = snowpack("builds", "show", "flights", "--output", "json", "--limit", "2").json
    assert [run["run_id"] for run in body["runs"]] == [WRITING, SELECTED]
    assert snowpack("builds", "show", "flights", "--cursor", body["next"], "-o", "json").json["runs"][0]["run_id"] == FAILED

    shown = snowpack("builds", "show", "flights", THIRD)
    assert f"data/{THIRD}/shard=00003/attempt=00-0/shard.parquet" in shown.out
    body = snowpack("builds", "show", "flights", THIRD, "-o", "json", "--limit", "3").json
    assert [len(shard["attempts"]) for shard in body["shards"]] == [3, 3, 3]
    assert body["next"] == 2
    assert "--cursor 2 shows the next page" in snowpack("builds", "show", "flights", THIRD, "--limit", "3").err
    assert len(snowpack("builds", "show", "flights", THIRD, "--cursor", "2", "-o", "json").json["shards"]) == 1
    assert len(snowpack("builds", "show", "flights", THIRD, "--after-shard", "2", "-o", "json").json["shards"]) == 1
    junk = snowpack("builds", "show", "flights", THIRD, "--cursor", "junk")
    assert (junk.code, "--cursor 'junk' is not the number of a shard" in junk.err) == (2, True)
    nothing = snowpack("builds", "show", "nothing")
    assert (nothing.code, "There is no dataset 'nothing'" in nothing.err) == (4, True)
    failed = snowpack("builds", "show", "flights", FAILED)
    assert (failed.code, "no space left" in failed.out) == (0, True)


def test_going_back_asks_first_and_is_noted_with_the_users_name(snowpack: Run, made: Built, jobs: Jobs) -> None:
    refused = snowpack("builds", "rollback", "flights", "--to=-1")
    assert (refused.code, f"The current run of flights is {SECOND}. Roll back to -1?" in refused.err) == (2, True)
    said = snowpack("builds", "rollback", "flights", "--to", "-1", "--yes")
    assert (said.code, said.out, current_run(made.storage)) == (0, f"{FIRST} is the current run of flights now.\n", FIRST)
    again = snowpack("builds", "rollback", "flights", "--to", FIRST, "--yes")
    assert (again.code, "is the current build of flights already" in again.out) == (0, True)
    assert changes(jobs) == [("ann", "cli", "rollback_build", "build:flights")]
    assert snowpack("builds", "rollback", "flights", "--to", FAILED, "--yes").code == 4


def test_a_selected_run_is_published_and_one_that_is_being_written_is_not(snowpack: Run, made: Built, jobs: Jobs) -> None:
    assert snowpack("builds", "publish", "flights", WRITING).code == 4
    said = snowpack("builds", "publish", "flights", SELECTED, "-o", "json")
    assert said.json == PublishOutcomeShape.encode(made.outcome(SELECTED))
    assert current_run(made.storage) == SELECTED
    assert changes(jobs) == [("ann", "cli", "publish_build", "build:flights")]


def test_a_run_with_a_damaged_shard_is_not_published_if_checksums_are_verified(snowpack: Run, made: Built, jobs: Jobs) -> None:
    path = damage_shard(made.storage, SELECTED)
    said = snowpack("builds", "publish", "flights", SELECTED, "--verify", "checksums")
    assert (said.code, f"{path} cannot be used" in said.err, current_run(made.storage)) == (1, True, SECOND)
    assert (made.registry.run("flights", SELECTED).status, changes(jobs)) == (RunStatus.FAILED, [])


def test_cleanup_lists_what_it_would_delete_and_then_deletes_it(snowpack: Run, made: Built, jobs: Jobs) -> None:
    planned = snowpack("builds", "cleanup", "flights", "--keep-runs", "2", "--dry-run", "-o", "json").json
    assert {action["run_id"] for action in planned["actions"]} == {FIRST, THIRD, FAILED}
    unasked = snowpack("builds", "cleanup", "flights", "--keep-runs", "2")
    assert (unasked.code, "Delete " in unasked.err, changes(jobs)) == (2, True, [])
    done = snowpack("builds", "cleanup", "flights", "--keep-runs", "2", "--yes")
    assert done.code == 0
    assert f"data/{FAILED}/" in done.out
    assert "Deleted " in done.err
    assert snowpack("builds", "cleanup", "flights", "--keep-runs", "2").out == "Nothing to delete.\n"
    assert changes(jobs) == [("ann", "cli", "cleanup_builds", "build:flights")]
    assert current_run(made.storage) == SECOND


def test_a_dataset_that_somebody_holds_is_for_later_and_a_deletion_that_fails_ends_with_try_again(
    snowpack: Run, made: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert snowpack("builds", "cleanup", "flights", "--stale-attempt-age", "often", "--dry-run").code == 2
    assert snowpack("builds", "cleanup", "flights", "--keep-runs", "0", "--dry-run").code == 2

    monkeypatch.setattr("airflow_snowpack.cli.context.LOCK_WAIT", timedelta(0))
    with made.registry.lock("flights", "somebody"):
        said = snowpack("builds", "rollback", "flights", "--to=-1", "--yes")
    assert (said.code, "is locked by somebody" in said.err) == (5, True)

    def refuse(self: Storage, path: str) -> None:
        raise StorageFailed("delete", path, "access denied")

    monkeypatch.setattr(Storage, "delete", refuse)
    said = snowpack("builds", "cleanup", "flights", "--yes")
    assert (said.code, "access denied" in said.out) == (6, True)


def test_a_build_is_read_back_and_what_is_damaged_is_listed(snowpack: Run, jobs: Jobs, tmp_path: Path) -> None:
    registry, storage = BuildRegistry(jobs.store), Storage(tmp_path / "flights")
    run_id = publish_build(registry, storage, "flights", as_of=MIDNIGHT, rows={"a": 1, "b": 2, "c": 3}).run_id
    said = snowpack("builds", "verify", "flights")
    assert (said.code, said.out) == (0, f"{run_id} of flights: 2 shards with 3 rows are what was written.\n")
    (damaged,) = [each.path for each in storage.objects("data/") if "shard=00001" in each.path and each.path.endswith("sqlite")]
    storage.write(damaged, b"x")
    body = snowpack("builds", "verify", "flights", run_id, "-o", "json")
    assert (body.code, [each["path"] for each in body.json["problems"]]) == (1, [damaged])
    said = snowpack("builds", "verify", "flights")
    assert (said.code, "it has 1 bytes" in said.out, "1 of 2 shards are not what was written" in said.err) == (1, True, True)
    assert snowpack("builds", "verify", "flights", "20990101T000000Z").code == 4
    storage.write("_CURRENT", b"x")
    assert snowpack("builds", "verify", "flights").code == 1
