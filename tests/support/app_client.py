"""Asks the app, without a network between them.

api = AppClient(app)
ok(api("POST", "/schedules", {...}), 201)
refused(api("GET", "/jobs/nope"), 404, "job_not_found")["detail"]
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx


class AppClient:
    """Each call is a request: ``api("POST", "/schedules", {...})``."""

    def __init__(self, app: object) -> None:
        self._transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # it is an ASGI app

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://snowpack.test") as client:
                content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(ask())


def ok(answer: httpx.Response, status: int = 200) -> Any:
    """Return the body of a request that succeeded."""
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int, error: str) -> Any:
    """Return the problem of a request that was refused."""
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()
