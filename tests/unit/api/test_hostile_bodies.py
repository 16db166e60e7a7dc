"""No body of a request makes the API fail, nor a page that shows later what was stored."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from app_client import AppClient
from pages_world import World
from route_permissions import route_permissions

from airflow_snowpack.bounded_text import MAX_DEPTH, is_too_deep
from airflow_snowpack.scheduling import Every, InvalidSchedule, Schedule, Schedules

if TYPE_CHECKING:
    from fastapi import FastAPI

SHOWN = ("/schedules", "/runs", "/events", "/pending", "/audit")
NIGHTLY = '"name": "nightly", "dag_id": "d", "trigger": {"every": "4h"}'
PLACES = (
    "%s",
    '{"conf": %s}',
    f'{{{NIGHTLY}, "conf": {{"v": %s}}}}',
    f'{{{NIGHTLY}, "constraints": %s}}',
    '{"name": "nightly", "dag_id": "d", "trigger": %s}',
    '{"name": "go", "detail": {"v": %s}}',
    '{"name": "go", "amounts": {"v": %s}}',
    '{"actions": ["expire_snapshots"], "options": {"expire_snapshots": {"retain_last": %s}}}',
)
VALUES = {
    "deep lists": "[" * 900 + "]" * 900,
    "deep objects": '{"a":' * 300 + "1" + "}" * 300,
    "as deep as allowed": "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2),
    "brackets in a text": '"' + "[" * 5_000 + '\\""',
    "open brackets": "[" * 100_000,
    "a long number": "9" * 100_000,
    "half of a surrogate pair": '"\\ud800"',
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_body_is_refused_or_can_be_shown(app: FastAPI, world: World, value: str) -> None:
    api, failed = AppClient(app), []
    Schedules(world.store, catalog="lake").create(Schedule("stays", dag_id="d", trigger=Every("4h")))
    for route in route_permissions():
        if route.method not in ("POST", "PUT") or route.path.startswith("/ui") or "/batch/" in route.path:
            continue
        path = re.sub(r"{\w+}", "nightly", route.path)
        answers = [api(route.method, path, (place % value).encode()) for place in PLACES]
        failed += [(path, answer.text[:200]) for answer in answers if answer.status_code >= 500]
    for path in (*SHOWN, *(f"/ui{path}" for path in SHOWN), "/schedules/nightly/explain", "/ui/schedules/nightly"):
        answer = api("GET", path)
        failed += [(path, answer.text[:200])] if answer.status_code >= 500 else []
    assert failed == []


def test_a_body_in_another_encoding_is_refused(app: FastAPI) -> None:
    """A byte of U+2241 is a quotation mark, which would hide the brackets after it from a check of the bytes."""
    deep = f'{{{NIGHTLY}, "description": "\u2241", "conf": {"[" * 100_000}'
    for encoding in ("utf-16", "utf-16-le", "utf-32", "latin-1"):
        text = deep.replace("\u2241", "\xe9") if encoding == "latin-1" else deep
        for method, path in (("POST", "/schedules"), ("PUT", "/schedules/nightly"), ("POST", "/runs")):
            answer = AppClient(app)(method, path, text.encode(encoding)[:200_000])
            assert answer.status_code == 422, answer.text[:200]


def test_the_names_of_a_long_query_are_not_compared_with_each_other(app: FastAPI) -> None:
    """By ASGI, since httpx has a bound of its own. On the event loop, nothing else is answered meanwhile."""
    query = "&".join(f"name{number}" for number in range(200_000)).encode()
    scope = {"type": "http", "method": "GET", "path": "/jobs", "raw_path": b"/jobs", "query_string": query, "headers": []}
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 422
    assert b"query.name0: there is no such parameter" in sent[1]["body"]


def test_the_place_and_the_bound_are_named(app: FastAPI) -> None:
    answer = AppClient(app)("POST", "/schedules", b"[" * 100)
    assert answer.status_code == 422
    assert "body" in answer.text
    assert f"nested more than {MAX_DEPTH} levels deep" in answer.text


def test_a_conf_from_a_file_or_the_command_line_has_the_same_bound() -> None:
    deep: object = 1
    for _ in range(60):
        deep = [deep]
    with pytest.raises(InvalidSchedule, match=rf"conf .* nested more than {MAX_DEPTH} levels deep"):
        Schedule("s", dag_id="d", trigger=Every("4h"), conf={"a": deep})


def test_brackets_in_texts_do_not_count() -> None:
    assert not is_too_deep(b'["' + b"[" * 99 + b'\\"[", "{"]')
    assert is_too_deep(b'"a" ' + b"[" * 99)
