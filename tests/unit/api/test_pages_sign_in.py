"""Signing in to the pages of an app that is served alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pages_world import SomebodyIs, World

from airflow_snowpack.api import TokenAuth
from airflow_snowpack.api.auth import COOKIE
from airflow_snowpack.api.parameters import MAX_BODY

if TYPE_CHECKING:
    from fastapi import FastAPI

TABLES = ("analytics.page_views",)
TOKEN = "a-token-of-some-length"
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def auth() -> TokenAuth:
    """That of the app that is served alone."""
    return TokenAuth(TOKEN)


def ask(app: FastAPI, method: str, path: str, *, cookies: dict[str, str] | None = None, **options: Any) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test", cookies=cookies) as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


def test_a_browser_without_a_token_is_asked_for_it_by_a_page_with_its_files(app: FastAPI) -> None:
    answer = ask(app, "GET", "/ui/jobs")
    assert answer.status_code == 401
    assert '<form class="sign-in" method="post" action="/ui/login?next=' in answer.text
    addresses = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', answer.text)
    assert addresses
    assert {ask(app, "GET", address).status_code for address in addresses} == {200}


def test_signing_in_leads_to_the_page_that_was_asked_for_and_nowhere_else(app: FastAPI) -> None:
    page = ask(app, "GET", "/ui/jobs?status=failed&search=a%26b").text
    for sent, status in (({"token": "wrong"}, 401), ({"token": TOKEN}, 303)):
        form = re.search(r'class="sign-in" method="post" action="([^"]+)"', page)
        assert form
        answer = ask(app, "POST", unescape(form[1]), data=sent)
        page = answer.text
        assert answer.status_code == status
    assert answer.headers["location"] == "/ui/jobs?status=failed&search=a%26b"

    for elsewhere in ["https://evil.test/", "//evil.test/ui/", "\\\\evil.test", "/jobs", ""]:
        answer = ask(app, "POST", "/ui/login", params={"next": elsewhere}, data={"token": TOKEN})
        assert answer.headers["location"] == "/ui/"


def test_the_token_becomes_a_cookie_that_tells_nothing_of_it_until_signing_out(app: FastAPI) -> None:
    answer = ask(app, "POST", "/ui/login", data={"token": TOKEN})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "httponly" in cookie.lower()
    assert "samesite=lax" in cookie.lower(), "a link in a mail leads to the page, and no other site changes anything (below)"
    signed_in = {COOKIE: TokenAuth(TOKEN).session}
    assert ask(app, "GET", "/ui/jobs", cookies=signed_in).status_code == 200
    assert ask(app, "GET", "/jobs", cookies=signed_in).status_code == 200

    answer = ask(app, "POST", "/ui/logout")
    assert answer.status_code == 303
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]


def test_another_token_and_the_cookie_of_another_let_nobody_in(app: FastAPI) -> None:
    for sent in [{"token": "wrong"}, {"token": ""}, {}, {"token": TOKEN + "x"}]:
        answer = ask(app, "POST", "/ui/login", data=sent)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers

    other = {COOKIE: TokenAuth("another-token-here").session}
    assert ask(app, "GET", "/ui/jobs", cookies=other).status_code == 401
    assert ask(app, "GET", "/ui/jobs", cookies={COOKIE: TOKEN}).status_code == 401


def test_of_what_a_stranger_sends_only_so_much_is_read(app: FastAPI) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += MAX_BODY
            yield b"a" * MAX_BODY

    assert ask(app, "POST", "/ui/login", content=endless()).status_code == 422
    assert taken <= 2 * MAX_BODY


def test_the_cookie_changes_something_only_for_our_own_pages(app: FastAPI, world: World) -> None:
    for headers, status in [
        (OWN, 200),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://snowpack.test"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://snowpack.test"}, 200),
        ({"Origin": "http://evil.test"}, 403),
        ({}, 403),
    ]:
        job = world.submit("analytics.page_views")
        signed_in = {COOKIE: TokenAuth(TOKEN).session}
        assert ask(app, "POST", f"/jobs/{job.job_id}/cancel", cookies=signed_in, headers=headers).status_code == status
        changed = world.jobs.get(job.job_id).status.is_terminal
        assert changed is (status == 200)
        if not changed:
            world.jobs.cancel(job.job_id)


def test_there_is_nothing_to_sign_in_to_where_others_tell_who_asks(app: FastAPI) -> None:
    app.state.auth = SomebodyIs()
    assert ask(app, "POST", "/ui/login", data={"token": TOKEN}).status_code == 404
