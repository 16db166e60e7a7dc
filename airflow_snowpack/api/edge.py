"""What every answer passes on its way out: headers for browsers, a document for every fault, the count of requests, and HEAD.

Pure ASGI, one layer for the three: a request pays for each layer, and Starlette's own base class costs more than a short handler.
"""

import time
from collections.abc import Callable, MutableSequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_snowpack.api.problems import problem_of

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"same-origin"),
)
CONTENT_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
"""Nothing inline and nothing from elsewhere. The pages stand in a frame of Airflow's own pages, and in no other."""
POLICY = (b"content-security-policy", CONTENT_POLICY.encode())
NOT_KEPT = (b"cache-control", b"no-store")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Count = Callable[[str, str, int, float], None]


class Edge:
    """The outermost layer.

    :param count: takes the method, the route's template, the status and the seconds of each request.
    """

    def __init__(self, app: ASGIApp, count: Count) -> None:
        self._app = app
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, method = time.perf_counter(), 0, scope["method"]
        if method == "HEAD":
            scope = {**scope, "method": "GET"}  # the same answer without its body

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _dress(list(message["headers"]))
            elif method == "HEAD" and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        except Exception as error:  # whatever it is, the client gets a document and the log the traceback
            if status:
                raise
            await problem_of(error)(scope, receive, dressed)
        finally:
            self._count(method if method in METHODS else "other", route_of(scope), status or 500, time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """The template of the route, not the path: there are as many paths as tables."""
    template: str = getattr(scope.get("route"), "path_format", "unmatched")
    return template


def _dress(headers: MutableSequence[tuple[bytes, bytes]]) -> MutableSequence[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    headers.extend(HEADERS)
    for header in (POLICY, NOT_KEPT):
        if header[0] not in given:
            headers.append(header)
    return headers
