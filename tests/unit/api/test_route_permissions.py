"""Each route needs the permission that docs/security.md names for it, and what starts a DAG that to trigger the DAG."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from app_client import AppClient
from pages_world import SomebodyIs, World
from route_permissions import CHANGE, OPEN, PAGE, START, RoutePermission, page_with, route_permissions, table

from airflow_snowpack.api import User
from airflow_snowpack.api.auth import any_dag
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling import Every, RegisteredRun, RegisteredRuns, Schedule, Schedules

if TYPE_CHECKING:
    from fastapi import FastAPI

NAMES = {"name": "nightly", "run": "features"}
BODIES: dict[str, Any] = {
    "/schedules": {"name": "new", "dag_id": "payroll", "trigger": {"every": "4h"}},
    "/schedules/{name}": {"dag_id": "payroll", "trigger": {"every": "5h"}},
    "/runs": {"name": "new_run", "dag_id": "payroll"},
    "/runs/{run}": {"dag_id": "payroll", "conf": {"a": 1}},
    "/runs/{run}/run": {},
}
VIEWER = User("vic", may_edit=False, may_start=any_dag)
OPERATOR = User("olga", may_edit=True, may_start=lambda dag_id: dag_id != "payroll")
ADMIN = User("ada", may_edit=True, may_start=any_dag)


def starts(world: World) -> dict[str, tuple[str, bool, Any]]:
    """What the store has that starts a DAG."""
    stored = Schedules(world.store, catalog="lake").list()
    return {one.name: (one.dag_id, one.enabled, one.definition["trigger"]) for one in stored}


def set_up(world: World) -> dict[str, tuple[str, bool, Any]]:
    """Declare a suspended schedule and a disabled run of the DAG that the operator may not trigger."""
    schedules, runs = Schedules(world.store, catalog="lake"), RegisteredRuns(world.store, catalog="lake")
    for one in schedules.list():
        (runs.unregister if one.origin == "run" else schedules.delete)(one.name)
    schedules.create(Schedule("nightly", dag_id="payroll", trigger=Every("4h")))
    runs.register(RegisteredRun("features", dag_id="payroll", enabled=False))
    return starts(world)


def ask(api: AppClient, route: RoutePermission) -> httpx.Response:
    path = re.sub(r"{(\w+)}", lambda part: NAMES.get(part[1], "nothing"), route.path)
    body = BODIES.get(route.path, {"on": False}) if route.method in ("POST", "PUT") else None
    return api(route.method, f"{path}?table=no.such" if "/batch/" in path else path, body)


@pytest.fixture
def api(app: FastAPI) -> AppClient:
    """The app behind the guard of Airflow's API server."""
    from airflow_snowpack.plugin.airflow_auth import AccessGuard  # loads Airflow

    return AppClient(AccessGuard(app))


def test_the_documented_table_is_that_of_the_app() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_with(table()), "run tests/support/route_permissions.py"


def test_whatever_changes_something_needs_a_permission_for_it() -> None:
    unsafe = {each.path: each.permission for each in route_permissions() if each.method not in ("GET", "HEAD")}
    assert {path for path, needed in unsafe.items() if needed not in (CHANGE, START)} == {"/ui/login", "/ui/logout"}


@pytest.mark.parametrize("user", [None, VIEWER, OPERATOR, ADMIN], ids=["anonymous", "viewer", "operator", "admin"])
def test_every_route_answers_a_user_by_the_table(api: AppClient, auth: SomebodyIs, world: World, user: User | None) -> None:
    auth.user = user
    auth.probes_are_open = False
    surprises, before = [], None
    for route in route_permissions():
        if route.permission == OPEN:
            continue
        if before is None or route.method != "GET":
            before = set_up(world)
        answer = ask(api, route)
        refused = route.permission in (CHANGE, START) if user is VIEWER else route.permission == START and user is OPERATOR
        expected = 401 if user is None else 403 if refused else None
        as_expected = answer.status_code == expected if expected else answer.status_code not in (401, 403, 500)
        if not as_expected or (refused and starts(world) != before):
            surprises.append(f"{route}: {answer.status_code} {answer.text[:200]}")
    assert surprises == []


def test_what_starts_a_dag_needs_the_permission_to_trigger_the_old_and_the_new_one(
    api: AppClient, auth: SomebodyIs, world: World
) -> None:
    set_up(world)
    auth.user = OPERATOR
    answer = api("POST", "/schedules/nightly/run")
    assert (answer.status_code, answer.json()["error"]) == (403, "dag_not_allowed")
    assert "olga may not start the DAG 'payroll'" in answer.json()["detail"]
    assert "POST on the runs of the DAG" in answer.json()["detail"]

    set_up(world)
    auth.user = OPERATOR
    mine = {"dag_id": "mine", "trigger": {"every": "4h"}}
    assert api("PUT", "/schedules/nightly", mine).status_code == 403, "it takes the schedule away from payroll"
    assert api("POST", "/schedules", mine | {"name": "own"}).status_code == 201
    assert api("PUT", "/schedules/own", mine | {"dag_id": "payroll"}).status_code == 403
    assert api("PUT", "/runs/features", {"dag_id": "mine"}).status_code == 403
    assert starts(world).keys() == {"nightly", "features", "own"}
    assert api("POST", "/schedules/nightly/suspend").status_code == 200, "what only stops it needs no more than before"
    assert api("DELETE", "/schedules/nightly").status_code == 204


def test_the_page_of_a_schedule_offers_what_its_user_may_do(app: FastAPI, auth: SomebodyIs, world: World) -> None:
    set_up(world)
    page = AppClient(app)
    auth.user = OPERATOR
    limited = page("GET", "/ui/schedules/nightly").text
    assert "You may not start the DAG payroll" in limited
    assert "/schedules/nightly/run" not in limited
    assert "/schedules/nightly/resume" not in limited
    auth.user = ADMIN
    assert "/schedules/nightly/run" in page("GET", "/ui/schedules/nightly").text

    def down(dag_id: str) -> bool:
        raise SnowpackError("the auth manager does not answer")

    auth.user = User("olga", may_edit=True, may_start=down)
    assert page("GET", "/ui/schedules/nightly").status_code == 200
