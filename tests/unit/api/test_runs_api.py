"""The REST API of registered runs, through the app itself on a real store."""

from __future__ import annotations

import re
from typing import Any

from app_client import AppClient
from pages_world import World

from airflow_snowpack.store import AuditTrail
from airflow_snowpack.store.tables.schedules import launches
from airflow_snowpack.wire.run import RegisteredRunShape

FEATURES: dict[str, Any] = {
    "name": "features",
    "dag_id": "make_features",
    "conf": {"days": 7, "of": {"a": 1}},
    "cron": "0 8 * * *",
    "tz": "Europe/Berlin",
    "preservation": "FULL",
}


def confs(world: World) -> list[Any]:
    return [row.conf for row in world.store.read(lambda conn: conn.execute(launches.select()).all())]


def test_a_run_is_registered_read_changed_and_unregistered(api: AppClient) -> None:
    created = api("POST", "/runs", FEATURES)
    assert (created.status_code, created.headers["location"]) == (201, "/runs/features")
    assert created.json()["updated_by"] == "vera"
    assert created.json()["definition"] == FEATURES | {"enabled": True, "description": ""}
    assert created.json()["next_run_at"]
    RegisteredRunShape.model_validate(created.json(), strict=False)

    definition = api("GET", "/runs/features").json()["definition"]
    changed = api("PUT", "/runs/features", definition | {"cron": None})
    assert changed.json()["definition"] == definition | {"cron": None, "tz": "UTC"}
    assert changed.json()["next_run_at"] is None

    assert api("DELETE", "/runs/features").status_code == 204
    assert api("GET", "/runs/features").status_code == 404
    assert api("DELETE", "/runs/features").json()["error"] == "run_not_found"

    assert api("PUT", "/runs/features", {"dag_id": "d"}).status_code == 200
    before = api("GET", "/runs/features").json()
    assert api("PUT", "/runs/features", before["definition"]).json() == before
    other = api("PUT", "/runs/features", {"name": "other", "dag_id": "d"})
    assert (other.status_code, other.json()["error"], other.json()["field"]) == (422, "invalid_run", "name")


def test_a_run_is_enabled_and_disabled_here_alone_and_twice_is_once(api: AppClient) -> None:
    api("POST", "/runs", FEATURES)
    disabled = [api("POST", "/runs/features/disable").json() for _ in range(2)]
    enabled = [api("POST", "/runs/features/enable").json() for _ in range(2)]

    assert disabled[0] == disabled[1]
    assert enabled[0] == enabled[1]
    assert (disabled[0]["enabled"], disabled[0]["next_run_at"], enabled[0]["enabled"]) == (False, None, True)

    assert api("GET", "/schedules/features").json()["origin"] == "run"
    schedule = {"dag_id": "d", "trigger": {"every": "4h"}}
    refused = [
        api("PUT", "/schedules/features", schedule),
        api("DELETE", "/schedules/features"),
        api("POST", "/schedules/features/suspend"),
        api("POST", "/schedules/features/resume"),
    ]

    assert {(said.status_code, said.json()["error"]) for said in refused} == {(409, "kept_by_run")}
    assert api("GET", "/runs/features").json()["enabled"] is True


def test_a_start_says_which_run_it_will_be_and_takes_values_for_it(api: AppClient, world: World) -> None:
    api("POST", "/runs", FEATURES)
    usual = api("POST", "/runs/features/run")
    other = api("POST", "/runs/features/run", {"conf": {"days": 30}, "preservation": "NONE"})

    assert (usual.status_code, usual.json()["state"], usual.json()["schedule"]) == (202, "pending_launch", "features")
    assert usual.json()["run_id"] != other.json()["run_id"]
    told = [(conf["days"], conf["snowpack_run"]["preservation"], conf["snowpack_run"]["explicit"]) for conf in confs(world)]
    assert sorted(told) == [(7, "FULL", False), (30, "NONE", True)]


REFUSED: list[tuple[str, Any, str]] = [
    ("/runs", FEATURES | {"cron": "8 o'clock"}, "invalid_run"),
    ("/runs", FEATURES | {"schedule": "0 8 * * *"}, "invalid_run"),
    ("/runs", FEATURES | {"conf": {"snowpack_run": {}}}, "invalid_run"),
    ("/runs", {"name": "f"}, "invalid_run"),
    ("/runs", [], "invalid_run"),
    ("/runs", b"{", "invalid_request"),
    ("/runs", b'{"name": "f", "dag_id": "d", "conf": {"x": NaN}}', "invalid_request"),
    ("/runs/features/run", {"conf": []}, "invalid_request"),
    ("/runs/features/run", {"preservation": "SOMETIMES"}, "invalid_request"),
    ("/runs/features/run", {"conf": {"snowpack": {}}}, "invalid_run"),
    ("/runs/features/run", {"other": 1}, "invalid_request"),
    ("/runs/features/run", b'{"conf": {"x": NaN}}', "invalid_run"),
]


def test_what_cannot_be_used_is_refused(api: AppClient, world: World) -> None:
    api("PUT", "/runs/features", {"dag_id": "d"})
    said = [api("POST", path, body) for path, body, _ in REFUSED]

    assert [(one.status_code, one.json()["error"]) for one in said] == [(422, error) for _, _, error in REFUSED]
    assert len(api("GET", "/runs").json()["runs"]) == 1
    assert confs(world) == []


def test_names_that_are_taken_are_told_by_whom(api: AppClient) -> None:
    schedule = {"name": "nightly", "dag_id": "d", "trigger": {"every": "4h"}}
    api("POST", "/runs", FEATURES)
    api("POST", "/schedules", schedule)

    assert api("POST", "/runs", FEATURES).json()["error"] == "run_exists"
    for method, path in (("POST", "/runs"), ("PUT", "/runs/nightly")):
        assert api(method, path, {"name": "nightly", "dag_id": "d"}).json()["error"] == "name_taken"
    assert api("POST", "/schedules", schedule | {"name": "features"}).json()["error"] == "name_taken"


def test_runs_are_listed_by_filter_and_by_pages(api: AppClient) -> None:
    for name, dag, enabled in (("a", "load", True), ("b", "make", False), ("c", "make", True)):
        api("POST", "/runs", {"name": name, "dag_id": dag, "enabled": enabled})

    def names(query: str) -> list[str]:
        return [one["name"] for one in api("GET", f"/runs{query}").json()["runs"]]

    assert names("?enabled=true") == ["a", "c"]
    assert names("?dag=make") == ["b", "c"]
    assert names("?search=LOA") == ["a"]
    first = api("GET", "/runs?limit=2").json()
    assert (first["next"], names(f"?cursor={first['next']}")) == ("b", ["c"])


def test_each_change_is_in_the_audit_trail_with_its_door(api: AppClient, world: World) -> None:
    api("POST", "/runs", FEATURES)
    api("POST", "/runs/features/run", **{"X-Snowpack-Page": "1"})

    trail = [(entry.actor, entry.change, entry.via, entry.subject) for entry in AuditTrail(world.store).latest()]
    assert trail == [("vera", "run_registered", "page", "run:features"), ("vera", "register_run", "api", "run:features")]


def test_the_pages_of_schedules_show_it_with_its_own_buttons(api: AppClient) -> None:
    api("POST", "/runs", FEATURES)
    for page in ("/ui/schedules", "/ui/schedules/features"):
        shown = api("GET", page).text
        assert "registered run" in shown
        assert 'data-url="/runs/features/disable"' in shown
        assert 'data-url="/schedules/features/suspend"' not in shown
    assert "registered it" in shown


def test_the_page_of_registered_runs_shows_those_without_a_cron_too(api: AppClient) -> None:
    api("POST", "/runs", FEATURES)
    api("POST", "/runs", {"name": "backfill", "dag_id": "make_features"})
    api("POST", "/runs/backfill/run")
    api("POST", "/runs/backfill/disable")

    shown = api("GET", "/ui/runs").text
    assert re.findall(r'<tr data-key="(\w+)">', shown) == ["backfill", "features"]
    assert "0 8 * * *" in shown
    assert 'data-url="/runs/backfill/enable"' in shown
    assert re.findall(r'<tr data-key="(\w+)">', api("GET", "/ui/runs?state=enabled").text) == ["features"]
    assert 'href="/ui/runs"' in api("GET", "/ui/schedules").text
    assert "it is started by hand only" in api("GET", "/ui/schedules/backfill").text
    assert 'href="/ui/runs?search=backfill">run:backfill</a>' in api("GET", "/ui/audit").text
