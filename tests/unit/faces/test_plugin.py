"""The plugin in every Airflow process: light to import, and the app behind a gate that is closed unless it is opened."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from bounded import output_of
from fastapi import FastAPI
from fastapi.security import HTTPAuthorizationCredentials
from starlette.requests import Request

from airflow_snowpack.api.app import open_ahead
from airflow_snowpack.api.auth import Forbidden, NotAuthenticated, Reader, User, own_hosts, sent_by_own_page
from airflow_snowpack.api.problems import install
from airflow_snowpack.api.services import LazyServices
from airflow_snowpack.errors import SnowpackError

HEAVY = {"fastapi", "starlette", "sqlalchemy", "jinja2", "pyiceberg", "pyarrow", "pyspark", "uvicorn", "prometheus_client"}
LOADED = "import json, sys{}; print(json.dumps(sorted(sys.modules)))"


def packages_after(imports: str) -> set[str]:
    said = output_of(sys.executable, "-c", LOADED.format(imports))
    return {module.partition(".")[0] for module in json.loads(said.splitlines()[-1])}


def test_importing_the_plugin_loads_nothing_that_only_the_api_needs() -> None:
    added = packages_after(", airflow.plugins_manager, airflow_snowpack.plugin") - packages_after(", airflow.plugins_manager")

    assert added & HEAVY == set()


def test_the_plugin_is_mounted_where_its_views_point_to() -> None:
    from airflow_snowpack.plugin import SnowpackPlugin

    (mounted,) = SnowpackPlugin.fastapi_apps

    assert all(view["href"].startswith(f"{mounted['url_prefix'].lstrip('/')}/") for view in SnowpackPlugin.external_views)
    assert {view["destination"] for view in SnowpackPlugin.external_views} == {"nav", "dag"}


def request(**headers: str) -> Request:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": fields})


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, None),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://airflow.corp"}, False),
        ({"origin": "http://airflow.corp"}, True),
        ({"origin": "https://AIRFLOW.corp:443"}, True),
        ({"origin": "http://airflow.corp:8081"}, False),
        ({"origin": "http://evil.corp"}, False),
        ({"origin": "http://airflow.corp.evil"}, False),
        ({"origin": "null"}, False),
        ({"origin": "https://public.example.com"}, True),
        ({"origin": "http://evil.corp", "x_forwarded_host": "evil.corp"}, False),
    ],
)
def test_what_the_browser_says_tells_own_pages_from_those_of_others(headers: dict[str, str], own: bool | None) -> None:
    sent = request(host="airflow.corp", **headers)

    assert sent_by_own_page(sent, own_hosts(sent, "https://public.example.com/airflow")) is own


def test_behind_a_proxy_the_pages_are_those_of_the_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not admitted(None, origin="https://public.example.com")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://public.example.com/airflow")
    assert admitted(None, origin="https://public.example.com")


TOKEN = HTTPAuthorizationCredentials(scheme="Bearer", credentials="…")


def admitted(token: HTTPAuthorizationCredentials | None, **headers: str) -> bool:
    from airflow_snowpack.plugin.airflow_auth import _refuse_other_sites

    try:
        _refuse_other_sites(request(host="airflow.corp", **headers), token)
    except Forbidden:
        return False
    return True


def test_with_the_cookie_only_a_page_of_airflow_changes_something_and_with_a_token_anybody_who_has_it() -> None:
    assert admitted(None, sec_fetch_site="same-origin")
    assert not admitted(None, sec_fetch_site="cross-site")
    assert not admitted(None)
    assert admitted(TOKEN)
    assert admitted(TOKEN, origin="http://another.corp")


def test_where_airflow_gives_everybody_an_admins_token_another_sites_page_still_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")

    assert admitted(TOKEN)
    assert admitted(TOKEN, origin="http://airflow.corp")
    assert not admitted(TOKEN, origin="http://another.corp")
    assert not admitted(TOKEN, sec_fetch_site="cross-site")


class Door:
    """Knows a reader and an editor by their header; everybody else is nobody."""

    probes_are_open = False

    async def authenticate(self, request: Request) -> User:
        from airflow_snowpack.plugin.airflow_auth import LoginNeeded

        name = request.headers.get("x-name")
        if name is None and "text/html" in request.headers.get("accept", ""):
            raise LoginNeeded("/login?next=here")
        if name is None:
            raise NotAuthenticated("Who is it?")
        return User(name, may_edit=name == "editor")


def forgetful_app() -> FastAPI:
    """Routes that forgot to ask who asks."""
    app = FastAPI()
    app.state.auth = Door()
    app.state.services = LazyServices(lambda: pytest.fail("No route needs a store here."))

    @app.get("/ui/page")
    def page() -> str:
        return "page"

    @app.post("/change")
    def change() -> str:
        return "changed"

    return app


def guarded(app: FastAPI) -> Any:
    from airflow_snowpack.plugin.airflow_auth import AccessGuard

    return AccessGuard(app)


def mounted_app(build: Callable[[], FastAPI]) -> FastAPI:
    from airflow_snowpack.plugin.mount import MountedApp

    return MountedApp(build)


def ask(app: Any, method: str, path: str, **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://airflow") as client:
            return await client.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})

    return asyncio.run(send())


@pytest.mark.parametrize(("method", "path"), [("GET", "/ui/page"), ("POST", "/change"), ("GET", "/nothing"), ("PUT", "/ui/page")])
def test_a_route_that_forgot_to_ask_is_closed_to_nobody_in_particular(method: str, path: str) -> None:
    answer = ask(guarded(forgetful_app()), method, path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_reader_reads_but_no_route_lets_him_change_anything() -> None:
    gate = guarded(forgetful_app())

    assert ask(gate, "GET", "/ui/page", x_name="reader").status_code == 200
    assert ask(gate, "POST", "/change", x_name="reader").status_code == 403
    assert ask(gate, "POST", "/change", x_name="editor").status_code == 200


def test_a_person_who_is_not_logged_in_is_led_to_the_login() -> None:
    answer = ask(guarded(forgetful_app()), "GET", "/ui/page", accept="text/html,*/*")

    assert (answer.status_code, answer.headers["location"]) == (302, "/login?next=here")


def test_a_websocket_is_refused_since_there_is_none() -> None:
    sent: list[Any] = []

    async def connect() -> None:
        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await guarded(forgetful_app())({"type": "websocket", "path": "/", "headers": []}, receive, send)

    asyncio.run(connect())

    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_app_is_built_once_however_many_ask_first() -> None:
    built = []

    def build() -> FastAPI:
        built.append(forgetful_app())
        return built[-1]

    mounted = mounted_app(build)

    async def ask_at_once() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(mounted), base_url="http://airflow") as client:
            answers = await asyncio.gather(*(client.get("/ui/page", headers={"x-name": "reader"}) for _ in range(8)))
        return [answer.status_code for answer in answers]

    assert built == []
    assert asyncio.run(ask_at_once()) == [200] * 8
    assert len(built) == 1


def test_a_build_that_fails_is_tried_again_by_the_next_request() -> None:
    failures = [ImportError("not installed")]

    def build() -> FastAPI:
        if failures:
            raise failures.pop()
        return forgetful_app()

    mounted = mounted_app(build)

    with pytest.raises(ImportError):
        ask(mounted, "GET", "/ui/page", x_name="reader")
    assert ask(mounted, "GET", "/ui/page", x_name="reader").status_code == 200


class Opening:
    """An app whose services count how often they are opened."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.built = self.opened = self.loaded = 0
        self._failure = failure

    def build(self) -> FastAPI:
        self.built += 1
        app = forgetful_app()
        app.state.services = self
        return app

    def warm_up(self) -> None:
        self.opened += 1
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        self.opened -= 1


def started_with_airflow(mounted: FastAPI) -> AbstractAsyncContextManager[None]:
    """Start an Airflow API server's app with ours below it, as Airflow does in each process that serves requests."""
    from airflow.api_fastapi.app import lifespan

    server = FastAPI()
    server.mount("/snowpack", mounted)
    return lifespan(server)


def test_the_start_of_the_api_server_builds_the_app_and_opens_its_services_before_the_first_request() -> None:
    services = Opening()
    mounted = mounted_app(services.build)

    async def scene() -> list[int]:
        assert services.built == 0, "a process that mounts the app and serves no requests opens nothing"
        async with started_with_airflow(mounted):
            assert (services.built, services.opened) == (1, 1)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(mounted), base_url="http://airflow") as client:
                answers = [await client.get("/ui/page", headers={"x-name": "reader"}) for _ in range(3)]
            assert (services.built, services.opened) == (1, 1)
        return [answer.status_code for answer in answers]

    assert asyncio.run(scene()) == [200] * 3
    assert services.opened == 0, "the end of the server closes them"


@pytest.mark.parametrize("failure", [SnowpackError("the store is down"), RuntimeError("a bug")])
def test_the_api_server_starts_when_the_store_is_down_and_logs_why(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    services = Opening(failure)

    async def scene() -> None:
        async with started_with_airflow(mounted_app(services.build)):
            assert (services.built, services.opened) == (1, 1)

    asyncio.run(scene())
    assert str(failure) in caplog.text


def test_the_api_server_starts_when_the_app_cannot_be_built(caplog: pytest.LogCaptureFixture) -> None:
    def build() -> FastAPI:
        raise ImportError("not installed")

    async def scene() -> None:
        async with started_with_airflow(mounted_app(build)):
            pass

    asyncio.run(scene())
    assert "not installed" in caplog.text


def test_the_start_waits_for_services_that_hang_only_as_long_as_it_may() -> None:
    released, opening = threading.Event(), Opening()
    opening.warm_up = released.wait  # type: ignore[assignment]
    asyncio.run(open_ahead(cast("LazyServices", opening), timedelta(0)))
    released.set()


class Unsure:
    """An auth manager that hangs or fails when it is asked about assets, or about a DAG."""

    def __init__(self, about: str, failure: Exception | None) -> None:
        self.about, self.failure, self.released = about, failure, threading.Event()

    def answer(self, about: str) -> bool:
        if about == self.about:
            if self.failure is not None:
                raise self.failure
            self.released.wait()
        return True

    def is_authorized_asset(self, **_: object) -> bool:
        return self.answer("assets")


@pytest.mark.parametrize("about", ["assets", "a DAG"])
@pytest.mark.parametrize("failure", [None, ConnectionError("keycloak.corp")], ids=["hangs", "fails"])
def test_an_auth_manager_that_hangs_or_fails_refuses_a_request_in_time(
    monkeypatch: pytest.MonkeyPatch, about: str, failure: Exception | None
) -> None:
    from airflow_snowpack.plugin import airflow_auth

    manager, user = Unsure(about, failure), SimpleNamespace(get_name=lambda: "olga")

    async def get_user(*_: object) -> object:
        return user

    monkeypatch.setattr(airflow_auth, "get_user", get_user)
    monkeypatch.setattr(airflow_auth, "get_auth_manager", lambda: manager)
    monkeypatch.setattr(airflow_auth, "requires_access_dag", lambda *_: lambda *_: manager.answer("a DAG"))
    app = forgetful_app()
    app.state.auth = auth = airflow_auth.AirflowAuth(timedelta(milliseconds=50))
    install(app)

    @app.post("/start")
    def start(user: Reader) -> bool:
        return user.may_start("payroll")

    def asked() -> httpx.Response:
        return ask(guarded(app), "POST", "/start", authorization="Bearer token")

    answers = [asked() for _ in range(airflow_auth.AUTH_THREADS + 4)]
    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(503, "auth_manager_down")}
    assert "keycloak" not in answers[0].text
    if about == "a DAG":
        auth._patience_s = 60.0
        assert ask(guarded(app), "GET", "/ui/page", authorization="Bearer token").status_code == 200
    manager.failure, auth._patience_s = None, 60.0
    manager.released.set()
    assert asked().json() is True
