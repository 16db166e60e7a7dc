"""Signing in to the pages of an app that is served alone."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from html import unescape
from pathlib import Path

import pytest
from pages_world import SomebodyIs, World, app_of, open_world
from starlette.responses import Response

from airflow_snowpack.api import TokenAuth
from airflow_snowpack.api.auth import COOKIE
from airflow_snowpack.api.parameters import MAX_BODY

TOKEN = "a-token-of-some-length"
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, tables=["analytics.page_views"], url=sqlite_url)
    yield opened
    opened.close()


def ask(
    world: World, method: str, path: str, *, auth: object = None, cookies: dict[str, str] | None = None, **options: object
) -> Response:
    """One request to the app that is served alone."""
    import asyncio

    import httpx

    app = app_of(world, auth or TokenAuth(TOKEN))  # type: ignore[arg-type]

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test", cookies=cookies) as client:
            return await client.request(method, path, **options)  # type: ignore[arg-type]

    return asyncio.run(send())  # type: ignore[return-value]


def test_a_browser_without_a_token_is_asked_for_it(world: World) -> None:
    answer = ask(world, "GET", "/ui/jobs")
    assert answer.status_code == 401
    assert '<form class="sign-in" method="post" action="/ui/login?next=' in answer.text  # type: ignore[attr-defined]


def test_signing_in_leads_to_the_page_that_was_asked_for(world: World) -> None:
    page = ask(world, "GET", "/ui/jobs?status=failed&search=a%26b").text  # type: ignore[attr-defined]
    for sent, status in (({"token": "wrong"}, 401), ({"token": TOKEN}, 303)):
        form = re.search(r'class="sign-in" method="post" action="([^"]+)"', page)
        assert form
        answer = ask(world, "POST", unescape(form[1]), data=sent)
        page = answer.text  # type: ignore[attr-defined]
        assert answer.status_code == status
    assert answer.headers["location"] == "/ui/jobs?status=failed&search=a%26b"


@pytest.mark.parametrize("elsewhere", ["https://evil.test/", "//evil.test/ui/", "\\\\evil.test", "/jobs", ""])
def test_signing_in_leads_nowhere_else(world: World, elsewhere: str) -> None:
    answer = ask(world, "POST", "/ui/login", params={"next": elsewhere}, data={"token": TOKEN})
    assert answer.headers["location"] == "/ui/"


def test_the_page_that_asks_for_the_token_has_its_files(world: World) -> None:
    page = ask(world, "GET", "/ui/jobs").text  # type: ignore[attr-defined]
    addresses = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page)
    assert addresses
    assert {ask(world, "GET", address).status_code for address in addresses} == {200}


def test_the_token_becomes_a_cookie_that_tells_nothing_of_it(world: World) -> None:
    answer = ask(world, "POST", "/ui/login", data={"token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "httponly" in cookie.lower()
    assert "samesite=lax" in cookie.lower(), "a link in a mail leads to the page, and no other site changes anything (below)"
    signed_in = {COOKIE: TokenAuth(TOKEN).session}
    assert ask(world, "GET", "/ui/jobs", cookies=signed_in).status_code == 200
    assert ask(world, "GET", "/jobs", cookies=signed_in).status_code == 200


@pytest.mark.parametrize("sent", [{"token": "wrong"}, {"token": ""}, {}, {"token": TOKEN + "x"}])
def test_another_token_is_refused(world: World, sent: dict[str, str]) -> None:
    answer = ask(world, "POST", "/ui/login", data=sent)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_of_what_a_stranger_sends_only_so_much_is_read(world: World) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += MAX_BODY
            yield b"a" * MAX_BODY

    assert ask(world, "POST", "/ui/login", content=endless()).status_code == 422
    assert taken <= 2 * MAX_BODY


def test_the_cookie_of_another_token_lets_nobody_in(world: World) -> None:
    other = {COOKIE: TokenAuth("another-token-here").session}
    assert ask(world, "GET", "/ui/jobs", cookies=other).status_code == 401
    assert ask(world, "GET", "/ui/jobs", cookies={COOKIE: TOKEN}).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 200),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://snowpack.test"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://snowpack.test"}, 200),
        ({"Origin": "http://evil.test"}, 403),
        ({}, 403),
    ],
)
def test_the_cookie_changes_something_only_for_our_own_pages(world: World, headers: dict[str, str], status: int) -> None:
    job = world.submit("analytics.page_views")
    signed_in = {COOKIE: TokenAuth(TOKEN).session}
    assert ask(world, "POST", f"/jobs/{job.job_id}/cancel", cookies=signed_in, headers=headers).status_code == status
    assert world.jobs.get(job.job_id).status.is_terminal is (status == 200)


def test_signing_out_takes_the_cookie_away(world: World) -> None:
    answer = ask(world, "POST", "/ui/logout")
    assert answer.status_code == 303
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]


def test_there_is_nothing_to_sign_in_to_where_others_tell_who_asks(world: World) -> None:
    assert ask(world, "POST", "/ui/login", auth=SomebodyIs(), data={"token": TOKEN}).status_code == 404
