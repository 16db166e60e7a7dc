"""Asks the app for pages, and reads them as a person would.

browser = Browser(app)
assert "No maintenance yet." in words(browser.text("/ui/tables"))
"""

from __future__ import annotations

import asyncio
import re

import httpx

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


class Browser:
    """Asks the app for pages, without a network between them."""

    def __init__(self, app: object, root_path: str = "") -> None:
        self._transport = httpx.ASGITransport(app=app, root_path=root_path)  # type: ignore[arg-type]

    def get(self, path: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://snowpack.test") as client:
                return await client.get(path, headers={"Accept": "text/html"})

        return asyncio.run(ask())

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


def words(page: str) -> str:
    """What a person reads: no tags, no runs of spaces."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())
