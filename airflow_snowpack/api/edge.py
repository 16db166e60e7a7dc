"""What every answer passes on its way out: headers for browsers, a document for every fault, and the count of requests.

Pure ASGI, one layer for the three: a request pays for each layer, and Starlette's own base class costs more than a short handler.
"""

import time
from collections.abc import Callable, MutableSequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_snowpack.api.problems import problem_of

# The pages stand in a frame of Airflow's own pages, and in nobody else's.
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"same-origin"),
)
FRAMES = (b"content-security-policy", b"frame-ancestors 'self'")
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
        began, status = time.perf_counter(), 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _dress(list(message["headers"]))
            await send(message)

        try:
            await self._app(scope, receive, dressed)
        except Exception as error:  # whatever it is, the client gets a document and the log the traceback
            if status:
                raise
            await problem_of(error)(scope, receive, dressed)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._count(method, route_of(scope), status or 500, time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """The template of the route, not the path: there are as many paths as tables."""
    template: str = getattr(scope.get("route"), "path_format", "unmatched")
    return template


def _dress(headers: MutableSequence[tuple[bytes, bytes]]) -> MutableSequence[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    headers.extend(HEADERS)
    for header in (FRAMES, NOT_KEPT):
        if header[0] not in given:
            headers.append(header)
    return headers
