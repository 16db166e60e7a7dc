"""Who gets through to which route of the mounted API, on a running Airflow whose users have roles.

The routes are taken from the app itself, so that a new one is asked about without being written down here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from route_permissions import START, route_permissions
from scripted_engine import eventually

from airflow_snowpack.api import TokenAuth, build_app
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store import AuditTrail
from tests.system.conftest import RunningAirflow

READERS, EDITORS = ("vic", "uma"), ("olga", "admin")
ADMINS_ONLY = "payroll"
"""The DAG that :mod:`limited_auth_manager` lets admins alone trigger; importing that loads Airflow."""

SAFE = {"GET", "HEAD"}
# For the batches, so that an editor's calls find nothing to change.
NOTHING = {"table": "nobody.nothing"}


@dataclass(frozen=True)
class Route:
    """A route as it is asked: its parameters filled in."""

    method: str
    path: str

    @property
    def query(self) -> dict[str, str]:
        return NOTHING if "/batch/" in self.path else {}

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE


def every_route() -> list[Route]:
    """What the app has, and an address that it does not have."""
    app = build_app(lambda: pytest.fail("Nobody asks for services."), TokenAuth("0123456789abcdef"))
    paths = [(method, route.path) for route in app.routes for method in sorted(route.methods)]  # type: ignore[attr-defined]
    named = [Route(method, "/snowpack" + re.sub(r"{[^}]*}", "nothing", path)) for method, path in paths]
    assert len(named) > 20, "the routes are not found"
    return [*named, Route("GET", "/snowpack/no/such/route"), Route("PUT", "/snowpack/no/such/route")]


class Caller:
    """Somebody with a token, who sends it as a header or as the cookie of Airflow's UI."""

    def __init__(self, base_url: str, token: str | None) -> None:
        self.base_url = base_url
        self.token = token
        self.client = httpx.Client(base_url=base_url, timeout=PATIENCE_S)

    def by_header(self, route: Route, **more: Any) -> httpx.Response:
        return self.ask(route, {"authorization": f"Bearer {self.token}"} if self.token else {}, **more)

    def by_cookie(self, route: Route, **headers: str) -> httpx.Response:
        """As a page of another origin would, or one of Airflow's own: ``headers`` are what the browser adds."""
        cookie = {"cookie": f"_token={self.token}"} if self.token else {}
        return self.ask(route, cookie | {name.replace("_", "-"): value for name, value in headers.items()})

    def ask(self, route: Route, headers: dict[str, str], **more: Any) -> httpx.Response:
        body = {"json": {"on": False}} if route.method in ("POST", "PUT") else {}
        self.client.cookies.clear()
        asked = {"params": route.query, "headers": headers} | body | more
        until = time.monotonic() + PATIENCE_S
        # Where the machine is busy, the catalog or the store may take too long, and the answer is to come back later.
        while is_too_slow(answer := self.client.request(route.method, route.path, **asked)):
            assert time.monotonic() < until, answer.text
        return answer


def is_too_slow(answer: httpx.Response) -> bool:
    """Whether JSON or a page says that there was no answer in time."""
    return answer.status_code == 503 and ("too_slow" in answer.text or "<title>No answer" in answer.text)


@pytest.fixture(scope="module")
def base_url(_running: RunningAirflow) -> str:
    return f"http://127.0.0.1:{_running.home.port}"


@pytest.fixture(scope="module")
def callers(base_url: str) -> Iterator[dict[str, Caller]]:
    """Everybody, by name, and nobody."""
    everybody = {"nobody": Caller(base_url, None)}
    for name in (*READERS, *EDITORS):
        answer = httpx.post(f"{base_url}/auth/token", json={"username": name, "password": name}, timeout=PATIENCE_S)
        everybody[name] = Caller(base_url, answer.json()["access_token"])
    # A process that has just begun to serve may still be loading what it asks the catalog with.
    a_table = Route("GET", "/snowpack/tables/nothing/nothing")
    eventually(lambda: everybody["admin"].by_header(a_table).status_code == 404)
    yield everybody
    for caller in everybody.values():
        caller.client.close()


def surprises(routes: list[Route], ask: Callable[[Route], httpx.Response], expected: Callable[[Route, int], bool]) -> list[str]:
    """The routes whose answer is not as it should be."""
    answers = [(route, ask(route)) for route in routes]
    return [
        f"{route.method} {route.path}: {answer.status_code} {answer.text[:200]}"
        for route, answer in answers
        if not expected(route, answer.status_code)
    ]


def unknown(_: Route, status: int) -> bool:
    return status == 401


def may_read(route: Route, status: int) -> bool:
    return status == 403 if not route.is_safe else served(route, status)


def served(route: Route, status: int) -> bool:
    """Neither turned away nor broken; an installation that has not listed its catalog yet is not ready."""
    return status not in (401, 403) and (status < 500 or route.path.endswith("/readyz"))


def test_what_starts_a_dag_needs_airflows_permission_to_trigger_it(callers: dict[str, Caller]) -> None:
    """The routes are those of the table in docs/security.md; each is asked about a DAG that only an admin may trigger."""
    trigger = {"trigger": {"every": "4h"}}
    bodies = {
        "/schedules": {"name": "pay_2", "dag_id": ADMINS_ONLY, **trigger},
        "/schedules/{name}": {"dag_id": ADMINS_ONLY, **trigger},
        "/runs": {"name": "pay_run_2", "dag_id": ADMINS_ONLY},
        "/runs/{run}": {"dag_id": ADMINS_ONLY},
    }
    names = {"name": "pay", "run": "pay_run"}
    starting = [each for each in route_permissions() if each.permission == START]

    def ask(name: str, method: str, path: str, body: Any = None) -> int:
        place = "/snowpack" + re.sub(r"{(\w+)}", lambda part: names[part[1]], path)
        return callers[name].by_header(Route(method, place), json=body or {}).status_code

    assert ask("admin", "POST", "/schedules", {"name": "pay", "dag_id": ADMINS_ONLY, **trigger}) == 201
    assert ask("admin", "POST", "/runs", {"name": "pay_run", "dag_id": ADMINS_ONLY, "enabled": False}) == 201
    try:
        assert len(starting) == 8
        found = {each: ask("olga", each.method, each.path, bodies.get(each.path)) for each in starting}
        assert set(found.values()) == {403}, found
        found = {each: ask("admin", each.method, each.path, bodies.get(each.path)) for each in starting}
        assert set(found.values()) <= {200, 201, 202}, found
        assert ask("olga", "POST", "/schedules", {"name": "pay_3", "dag_id": "not_payroll", **trigger}) == 201
        assert ask("olga", "PUT", "/schedules/pay_3", {"dag_id": ADMINS_ONLY, **trigger}) == 403
    finally:
        for path in ("/schedules/pay", "/schedules/pay_2", "/schedules/pay_3", "/runs/pay_run", "/runs/pay_run_2"):
            assert ask("olga", "DELETE", path) == 204, "what only stops a DAG needs no more than the permission to change"


def test_nobody_learns_anything_from_any_route(callers: dict[str, Caller]) -> None:
    assert surprises(every_route(), callers["nobody"].by_header, unknown) == []


@pytest.mark.parametrize("name", READERS)
def test_a_viewer_and_a_user_may_read_every_route_and_change_by_none(callers: dict[str, Caller], name: str) -> None:
    assert surprises(every_route(), callers[name].by_header, may_read) == []


@pytest.mark.parametrize("name", EDITORS)
def test_an_op_and_an_admin_may_use_every_route(callers: dict[str, Caller], name: str) -> None:
    assert surprises(every_route(), callers[name].by_header, served) == []


@pytest.mark.parametrize("name", [*READERS, *EDITORS])
def test_the_cookie_of_the_ui_gives_the_same_rights_to_airflows_own_pages(callers: dict[str, Caller], name: str) -> None:
    expected = served if name in EDITORS else may_read

    assert surprises(every_route(), lambda route: callers[name].by_cookie(route, sec_fetch_site="same-origin"), expected) == []


@pytest.mark.parametrize(
    "browser",
    [
        {},
        {"origin": "http://evil.example.com"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site", "origin": "http://evil.example.com"},
        {"sec_fetch_site": "same-site", "origin": "http://evil.127.0.0.1"},
    ],
    ids=str,
)
def test_another_sites_page_changes_nothing_by_any_route_with_an_admins_cookie(
    callers: dict[str, Caller], browser: dict[str, str]
) -> None:
    changing = [route for route in every_route() if not route.is_safe]

    assert surprises(changing, lambda route: callers["admin"].by_cookie(route, **browser), lambda _, status: status == 403) == []


def test_a_browser_without_sec_fetch_site_shows_by_its_origin_that_the_page_is_airflows(
    callers: dict[str, Caller], base_url: str
) -> None:
    answer = callers["olga"].by_cookie(Route("POST", "/snowpack/sweep"), origin=base_url)

    assert answer.status_code == 200, answer.text


def forged(token: str, secret: str, **claims: Any) -> str:
    """The token with other claims, signed with a secret of one's own or with Airflow's."""
    header = jwt.get_unverified_header(token)
    held = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(held | claims, secret, algorithm=header["alg"], headers={k: v for k, v in header.items() if k == "kid"})


def test_a_token_that_is_bad_expired_or_forged_is_nobodys(callers: dict[str, Caller], airflow: RunningAirflow) -> None:
    token, secret = callers["admin"].token or "", airflow.home.environment["AIRFLOW__API_AUTH__JWT_SECRET"]
    page = Route("GET", "/snowpack/jobs")
    own_words = forged(token, secret, exp=int(time.time()) + 3600)
    bad = {
        "no token at all": "nonsense",
        "expired": forged(token, secret, exp=int(time.time()) - 60, iat=int(time.time()) - 120, nbf=int(time.time()) - 120),
        "another secret": forged(token, "0" * 64),
    }

    assert Caller(callers["admin"].base_url, own_words).by_header(page).status_code == 200
    for why, each in bad.items():
        caller = Caller(callers["admin"].base_url, each)
        for answer in (caller.by_header(page), caller.by_cookie(page)):
            assert answer.status_code == 401, why
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["error"] == "not_authenticated"
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_that_was_logged_out_is_nobodys(base_url: str) -> None:
    answer = httpx.post(f"{base_url}/auth/token", json={"username": "vic", "password": "vic"}, timeout=PATIENCE_S)
    caller, page = Caller(base_url, answer.json()["access_token"]), Route("GET", "/snowpack/jobs")

    assert caller.by_header(page).status_code == 200
    caller.ask(Route("GET", "/api/v2/auth/logout"), {"authorization": f"Bearer {caller.token}"})
    assert caller.by_header(page).status_code == 401


def test_a_person_without_a_login_is_led_to_it_and_back_to_the_page(callers: dict[str, Caller]) -> None:
    answer = callers["nobody"].ask(Route("GET", "/snowpack/ui/jobs"), {"accept": "text/html"}, params={"search": "a&b"})

    assert answer.status_code == 302
    assert answer.headers["location"] == "/api/v2/auth/login?next=%2Fsnowpack%2Fui%2Fjobs%3Fsearch%3Da%2526b"


@pytest.mark.parametrize(("way", "via"), [("by_header", "api"), ("by_cookie", "page")])
def test_a_job_and_the_audit_trail_name_who_did_it_and_by_which_way(
    callers: dict[str, Caller], jobs: Jobs, new_table: Callable[..., TableName], way: str, via: str
) -> None:
    table = new_table([pa.table({"id": pa.array([1])})])
    place = Route("POST", f"/snowpack/tables/{table.database}/{table.table}/maintenance")
    token = callers["olga"].token
    headers = {
        "by_header": {"authorization": f"Bearer {token}"},
        "by_cookie": {"cookie": f"_token={token}", "sec-fetch-site": "same-origin", "x-snowpack-page": "1"},
    }[way]
    answer = callers["olga"].ask(place, headers, json={"actions": ["expire_snapshots"]})

    assert answer.status_code == 202, answer.text
    job = jobs.get(answer.json()["job_id"])
    assert job.submitted_by == "olga"
    cancelled = callers["olga"].ask(Route("POST", f"/snowpack/jobs/{job.job_id}/cancel"), headers, json=None)
    assert cancelled.status_code == 200, cancelled.text
    trail = AuditTrail(jobs.store).of(job.job_id)
    assert {(entry.actor, entry.via) for entry in trail} == {("olga", via)}
    assert len(trail) == 2
