"""An app that does not answer is answered for, and one that does is left alone."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from bounded import PATIENCE_S
from pages_world import SomebodyIs, World
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_snowpack.api import build_app
from airflow_snowpack.api.middleware import RequestDeadline
from airflow_snowpack.api.problems import CatalogTooSlow, StorageTooSlow
from airflow_snowpack.api.services import Services
from airflow_snowpack.humanize import duration

SHORT, LONG = timedelta(milliseconds=50), timedelta(minutes=5)


async def ask(app: ASGIApp, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
        return await client.post("/", **options)


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def test_an_app_that_hangs_is_answered_for_and_what_it_says_later_is_dropped() -> None:
    released, ended = asyncio.Event(), asyncio.Event()

    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        await released.wait()
        await hello(scope, receive, send)
        ended.set()

    async def scene() -> httpx.Response:
        answer = await ask(RequestDeadline(hanging, SHORT))
        released.set()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        return answer

    answer = asyncio.run(scene())
    assert (answer.status_code, answer.json()["error"]) == (503, "too_slow")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "5"


def test_an_app_that_answers_is_left_alone() -> None:
    answer = asyncio.run(ask(RequestDeadline(hello, LONG)))
    assert (answer.status_code, answer.text) == (200, "hello")


def test_an_answer_that_has_begun_may_take_its_time() -> None:
    async def slow_stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"a", b"b"):
            await asyncio.sleep(2 * SHORT.total_seconds())
            await send({"type": "http.response.body", "body": part, "more_body": part == b"a"})

    assert asyncio.run(ask(RequestDeadline(slow_stream, SHORT))).text == "ab"


def test_a_sender_that_is_slow_is_waited_for() -> None:
    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await hello(scope, receive, send)

    sent: list[Message] = []

    async def scene() -> None:
        parts = iter([(b"a", True), (b"b", True), (b"", False)])

        async def receive() -> Message:
            await asyncio.sleep(2 * SHORT.total_seconds())
            body, more = next(parts)
            return {"type": "http.request", "body": body, "more_body": more}

        async def send(message: Message) -> None:
            sent.append(message)

        await RequestDeadline(reads, SHORT)({"type": "http"}, receive, send)

    asyncio.run(scene())
    assert sent[0]["status"] == 200


def test_an_error_passes_through() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("of the app")

    with pytest.raises(LookupError, match="of the app"):
        asyncio.run(ask(RequestDeadline(broken, LONG)))


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(microseconds=100)])
def test_the_catalog_and_the_storage_get_shares_of_the_time_that_a_request_may_take(world: World, timeout: timedelta) -> None:
    services, never = replace(world.services, timeout=timeout), threading.Event()
    try:
        with pytest.raises(CatalogTooSlow, match=rf"within {duration(timeout * 0.6)}\."):
            services.ask_catalog(never.wait)
        with pytest.raises(StorageTooSlow, match=rf"within {duration(timeout * 0.7)}\."):
            services.ask_storage("flights", never.wait)
    finally:
        never.set()


def test_the_app_answers_for_a_route_within_its_time(world: World) -> None:

    never = threading.Event()

    def hang() -> Services:
        never.wait()
        return world.services

    app = build_app(hang, SomebodyIs(), timedelta(milliseconds=100))

    async def scene() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://api") as client:
            return await client.get("/jobs")

    try:
        answer = asyncio.run(scene())
    finally:
        never.set()
        app.state.services.get()  # opened by then, also by the request that was answered before
        app.state.services.close()
    assert (answer.status_code, answer.json()["error"]) == (503, "too_slow")
    assert "within 0.1 s" in answer.json()["detail"]
    assert "[snowpack] request_timeout" in answer.json()["detail"]
