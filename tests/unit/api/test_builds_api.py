"""The REST API of builds, through the app itself on a real store and a real folder."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from app_client import AppClient, ok, refused
from bounded import PATIENCE_S
from builds_world import FAILED, FIRST, SECOND, SELECTED, THIRD, WRITING, Built, make_builds
from built_runs import current_run, damage_shard
from pages_world import SomebodyIs, World, app_of

from airflow_snowpack.api import User
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import StorageFailed
from airflow_snowpack.builds.registry.model import RunStatus
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.build import CleanupShape, DatasetRunsShape, DatasetsShape, PublishOutcomeShape, RunSeenShape


@pytest.fixture
def made(world: World, tmp_path: Path) -> Built:
    return make_builds(world.store, tmp_path)


def changes(world: World) -> list[tuple[str, str, str, str]]:
    return [(entry.actor, entry.via, entry.change, entry.subject) for entry in AuditTrail(world.store).latest()]


def test_datasets_their_runs_and_their_moves_are_listed_page_by_page(api: AppClient, made: Built) -> None:
    first = ok(api("GET", "/builds?limit=1"))
    rest = ok(api("GET", f"/builds?cursor={first['next']}"))
    assert [each["dataset"] for each in first["datasets"] + rest["datasets"]] == ["empty", "flights"]
    assert rest["next"] is None
    flights = rest["datasets"][0]
    assert (flights["current_run"], flights["publication"], flights["url"]) == (SECOND, 4, made.storage.url)
    DatasetsShape.model_validate_json(json.dumps(first))

    whole = ok(api("GET", "/builds/flights"))
    assert [run["run_id"] for run in whole["runs"]] == [WRITING, SELECTED, FAILED, THIRD, SECOND, FIRST]
    assert [run["run_id"] for run in whole["runs"] if run["current"]] == [SECOND]
    assert [(move["kind"], move["run_id"]) for move in whole["publications"]][:2] == [("rollback", SECOND), ("publish", THIRD)]
    page = ok(api("GET", "/builds/flights?limit=2"))
    assert [run["run_id"] for run in ok(api("GET", f"/builds/flights?cursor={page['next']}&limit=2"))["runs"]] == [FAILED, THIRD]
    DatasetRunsShape.model_validate_json(json.dumps(whole))


def test_the_cursor_has_its_former_names_too(api: AppClient, made: Built) -> None:
    page = ok(api("GET", "/builds/flights?limit=2"))["next"]
    for path in ("/builds?{}=empty", f"/builds/flights?{{}}={page}", f"/builds/flights/runs/{THIRD}?{{}}=2"):
        former = "before" if page in path else "after"
        assert ok(api("GET", path.format(former))) == ok(api("GET", path.format("cursor")))


def test_a_run_has_its_shards_with_winners_and_losers_page_by_page_and_before_its_manifest_only_attempts(
    api: AppClient, made: Built
) -> None:
    run = ok(api("GET", f"/builds/flights/runs/{THIRD}"))
    assert (run["status"], run["rows"], run["losers_left"], run["problem"]) == ("succeeded", 1300, True, None)
    assert [shard["winner"]["rows"] for shard in run["shards"]] == [100, 100, 100, 1000]
    won = [[attempt["won"] for attempt in shard["attempts"]] for shard in run["shards"]]
    assert won == [[True, False, False]] * 4
    assert all(attempt["complete"] and attempt["objects"] == 2 for shard in run["shards"] for attempt in shard["attempts"])
    assert run["build"]["key"] == {"column": "id", "type": "integer"}
    RunSeenShape.model_validate_json(json.dumps(run))

    first = ok(api("GET", f"/builds/flights/runs/{THIRD}?limit=3"))
    rest = ok(api("GET", f"/builds/flights/runs/{THIRD}?cursor={first['next']}"))
    assert [shard["shard_id"] for shard in first["shards"] + rest["shards"]] == [0, 1, 2, 3]
    assert (rest["next"], ok(api("GET", f"/builds/flights/runs/{THIRD}?cursor=100000"))["shards"]) == (None, [])

    run = ok(api("GET", f"/builds/flights/runs/{WRITING}"))
    assert (run["status"], run["build"], run["holder"]) == ("running", None, "build_flights/run_5/build")
    assert [len(shard["attempts"]) for shard in run["shards"]] == [0, 0, 1, 0]
    assert run["shards"][2]["attempts"][0]["won"] is None
    RunSeenShape.model_validate_json(json.dumps(run))


def test_going_back_moves_the_pointer_and_is_noted_with_who_did_it(api: AppClient, made: Built, world: World) -> None:
    outcome = ok(api("POST", "/builds/flights/rollback", {"to": "-1"}))
    assert (outcome["moved"], outcome["run_id"], current_run(made.storage)) == (True, FIRST, FIRST)
    assert changes(world) == [("vera", "api", "rollback_build", "build:flights")]
    again = ok(api("POST", "/builds/flights/rollback", {"to": FIRST}))
    assert (again["moved"], again["publication"]) == (False, outcome["publication"])
    assert "is the current build of flights already" in again["reason"]
    assert len(changes(world)) == 1
    forth = ok(api("POST", "/builds/flights/rollback", {"to": layout.manifest(THIRD, 1)}))
    assert (forth["moved"], current_run(made.storage)) == (True, THIRD)
    PublishOutcomeShape.model_validate_json(json.dumps(forth))


def test_there_is_no_going_back_to_what_is_damaged_or_not_published(api: AppClient, made: Built, world: World) -> None:
    for to in (FAILED, WRITING, "-9", "nowhere", "manifests/x/1.json", "../x", "é", "-0", "manifests/"):
        refused(api("POST", "/builds/flights/rollback", {"to": to}), 404, "build_not_found")
    assert current_run(made.storage) == SECOND

    made.storage.write(layout.manifest(THIRD, 1), b"{}")
    assert (
        layout.manifest(THIRD, 1)
        in refused(api("POST", "/builds/flights/rollback", {"to": THIRD}), 409, "manifest_damaged")["detail"]
    )
    assert (current_run(made.storage), changes(world)) == (SECOND, [])

    made.storage.write(layout.manifest(THIRD, 1), b"{}")
    run = ok(api("GET", f"/builds/flights/runs/{THIRD}"))
    assert f"{layout.manifest(THIRD, 1)} cannot be used" in run["problem"]
    assert len(run["shards"]) == 4


def test_a_run_with_a_damaged_shard_is_not_published_if_checksums_are_verified(api: AppClient, made: Built, world: World) -> None:
    path = damage_shard(made.storage, SELECTED)
    publish = f"/builds/flights/runs/{SELECTED}/publish?verify="
    assert path in refused(api("POST", f"{publish}checksums"), 409, "manifest_damaged")["detail"]
    assert (current_run(made.storage), made.registry.run("flights", SELECTED).status) == (SECOND, RunStatus.FAILED)
    assert changes(world) == []
    assert api("POST", f"{publish}all").status_code == 422


def test_only_a_run_whose_winners_are_selected_is_published_and_once(api: AppClient, made: Built, world: World) -> None:
    for run_id in (FAILED, WRITING):
        said = refused(api("POST", f"/builds/flights/runs/{run_id}/publish"), 404, "build_not_found")["detail"]
        assert "its winners are not selected yet" in said
    assert made.registry.run("flights", WRITING).holder == "build_flights/run_5/build"

    outcome = ok(api("POST", f"/builds/flights/runs/{SELECTED}/publish"))
    assert (outcome["moved"], current_run(made.storage)) == (True, SELECTED)
    assert ok(api("POST", f"/builds/flights/runs/{SELECTED}/publish")) == outcome
    assert changes(world) == [("vera", "api", "publish_build", "build:flights")]


def test_cleanup_is_planned_by_whoever_may_read_and_done_by_whoever_may_edit(
    api: AppClient, made: Built, world: World, auth: SomebodyIs
) -> None:
    auth.user = User("rudi", may_edit=False)
    plan = ok(api("POST", "/builds/flights/cleanup?dry_run=true&keep_runs=2"))
    assert {(action["phase"], action["run_id"]) for action in plan["actions"]} == {
        ("losers", THIRD), ("stale_attempts", FAILED), ("old_runs", FIRST),
    }  # fmt: skip
    assert plan["dry_run"]
    assert plan["objects"] == sum(action["objects"] for action in plan["actions"]) > 0
    refused(api("POST", "/builds/flights/cleanup"), 403, "forbidden")
    assert changes(world) == []

    auth.user = User("vera", may_edit=True)
    done = ok(api("POST", "/builds/flights/cleanup?keep_runs=2"))
    assert [action["path"] for action in done["actions"]] == [action["path"] for action in plan["actions"]]
    assert (done["done"], done["failed"], done["bytes"]) == (True, 0, plan["bytes"])
    assert changes(world) == [("vera", "api", "cleanup_builds", "build:flights")]
    assert ok(api("POST", "/builds/flights/cleanup?keep_runs=2"))["actions"] == []
    assert ok(api("GET", f"/builds/flights/runs/{FIRST}"))["deleted_at"] is not None
    assert current_run(made.storage) == SECOND
    for shaped in (plan, done):
        CleanupShape.model_validate_json(json.dumps(shaped))


def test_what_cleanup_shall_keep_is_checked_and_a_dataset_that_somebody_holds_is_not_changed_meanwhile(
    api: AppClient, made: Built, world: World
) -> None:
    for query in ("keep_runs=0", "stale_attempt_age=often", "stale_attempt_age=-1d", "kepp_runs=2", "dry_run=perhaps"):
        refused(api("POST", f"/builds/flights/cleanup?{query}"), 422, "invalid_request")
    assert changes(world) == []

    with made.registry.lock("flights", "somebody"):
        answer = api("POST", "/builds/flights/rollback", {"to": "-1"})
    assert "is locked by somebody" in refused(answer, 409, "dataset_busy")["detail"]
    assert answer.headers["retry-after"] == "30"


def test_a_cleanup_that_takes_long_goes_on_in_the_background(
    made: Built, world: World, auth: SomebodyIs, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, storage = threading.Event(), made.storage
    deleting = type(storage).delete

    def slowly(self: Storage, path: str) -> Any:
        held.wait(PATIENCE_S)
        return deleting(self, path)

    monkeypatch.setattr(Storage, "delete", slowly)
    api = AppClient(app_of(world, auth, replace(world.services, timeout=timedelta(seconds=0.5))))
    answer = api("POST", "/builds/flights/cleanup?keep_runs=2")
    held.set()
    assert (answer.status_code, answer.json()["done"]) == (202, False)
    deadline = time.monotonic() + PATIENCE_S
    while made.registry.dataset("flights").locked_by is not None or made.registry.run("flights", FIRST).deleted_at is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_storage_that_is_away_is_told_as_such(made: Built, world: World, auth: SomebodyIs) -> None:
    def away(url: str) -> Storage:
        raise StorageFailed("open", url, "no route to host")

    api = AppClient(app_of(world, auth, replace(world.services, open_storage=away)))
    answer = api("GET", f"/builds/flights/runs/{THIRD}")
    assert "no route to host" in refused(answer, 503, "storage_failed")["detail"]
    assert answer.headers["retry-after"] == "30"
    assert ok(api("GET", "/builds/flights"))["current_run"] == SECOND


def test_what_is_not_there_is_not_found(api: AppClient, made: Built) -> None:
    for method, path, error in (
        ("GET", "/builds/nothing", "dataset_not_found"),
        ("GET", "/builds/a%2Fb", "dataset_not_found"),
        ("GET", "/builds/flights/runs/nothing", "build_not_found"),
        ("GET", "/builds/flights/runs/.hidden", "build_not_found"),
        ("GET", "/builds/flights?cursor=nothing", "build_not_found"),
        ("GET", "/builds/nothing/runs/x", "dataset_not_found"),
        ("POST", "/builds/nothing/rollback", "dataset_not_found"),
        ("POST", "/builds/nothing/cleanup", "dataset_not_found"),
        ("POST", "/builds/flights/runs/nothing/publish", "build_not_found"),
    ):
        refused(api(method, path, {"to": "-1"} if path.endswith("rollback") else None), 404, error)
