"""Asks the app for pages, and reads them as a person would.

browser = Browser(app)
assert "No maintenance yet." in words(browser.text("/ui/tables"))
"""

from __future__ import annotations

import asyncio
import re
from html import unescape

import httpx

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


class Browser:
    """Asks the app for pages, without a network between them.

    :param root_path: where the app is mounted.
    """

    def __init__(self, app: object, root_path: str = "") -> None:
        self._app, self._root_path = app, root_path

    def get(self, path: str, root: str | None = None) -> httpx.Response:
        root_path = self._root_path if root is None else root

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, root_path=root_path)  # type: ignore[arg-type]  # it is an ASGI app
            async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test") as client:
                return await client.get(path, headers={"Accept": "text/html"})

        return asyncio.run(ask())

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


def words(page: str | httpx.Response) -> str:
    """Return what a person reads: no tags, no runs of spaces."""
    if isinstance(page, httpx.Response):
        assert page.status_code == 200, page.text
        page = page.text
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", body).split()))


def row(page: httpx.Response, key: str) -> str:
    """Return what a person reads in one row of a list."""
    (found,) = re.findall(rf'<tr data-key="{re.escape(key)}">(.*?)</tr>', page.text, re.DOTALL)
    return words(found)
