"""The layers around the routes, outermost first: headers and problems (:class:`OuterLayer`), the deadline, and encoded slashes.

Pure ASGI: a request pays for each layer, and Starlette's own base class costs more than a short handler.
"""

import asyncio
import time
from collections.abc import Callable, MutableSequence
from datetime import timedelta
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from airflow_snowpack.api.problems import RequestTooSlow, problem_of

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"referrer-policy", b"same-origin"),
)
CONTENT_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
"""No inline code and no other origins; only Airflow's own pages may embed the pages in a frame."""
POLICY = (b"content-security-policy", CONTENT_POLICY.encode())
NO_STORE = (b"cache-control", b"no-store")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Count = Callable[[str, str, int, float], None]
Refuse = Callable[[Scope, Exception], ASGIApp]
"""Returns the answer to a request that ends with an error."""


def refuse_with_problem(scope: Scope, error: Exception) -> ASGIApp:
    return problem_of(error)


class OuterLayer:
    """Add security headers, answer for every error, count requests, and answer HEAD.

    :param count: takes the method, the route's template, the status and the seconds of each request.
    """

    def __init__(self, app: ASGIApp, count: Count, refuse: Refuse = refuse_with_problem) -> None:
        self._app = app
        self._count = count
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, method = time.perf_counter(), 0, scope["method"]
        if method == "HEAD":
            scope = {**scope, "method": "GET"}  # the same answer without its body

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_headers(list(message["headers"]))
            elif method == "HEAD" and message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:  # the client gets an answer, and the log gets the traceback
            if status:
                raise
            await self._refuse(scope, error)(scope, receive, send_with_headers)
        finally:
            self._count(method if method in METHODS else "other", route_of(scope), status or 500, time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """Return the template of the route, not its path: there are as many paths as tables."""
    template: str = getattr(scope.get("route"), "path_format", "unmatched")
    return template


def _with_headers(headers: MutableSequence[tuple[bytes, bytes]]) -> MutableSequence[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    headers.extend(HEADERS)
    for header in (POLICY, NO_STORE):
        if header[0] not in given:
            headers.append(header)
    return headers


DEADLINE_SHARE = 0.9
"""The share of the request timeout after which a request is answered with 503: the answer still has to be sent."""


class RequestDeadline:
    """Answer with 503 when the app does not answer in time. What the request started goes on in the background.

    The store and the catalog have their own, shorter limits with more specific messages.

    :param limit: counts from when the request has arrived completely, so that a slow client does not get a 503.
    """

    def __init__(self, app: ASGIApp, limit: timedelta, refuse: Refuse = refuse_with_problem) -> None:
        self._app = app
        self._limit = limit
        self._refuse = refuse
        self._abandoned: set[asyncio.Future[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(receive, send)
        # A task of its own, not a cancel scope: a handler's thread cannot be cancelled, and cancelling would wait for it.
        task = asyncio.ensure_future(self._app(scope, answer.receive, answer.send))
        try:
            await self._wait(task, answer)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            task.result()
            return
        answer.discarded = True
        self._abandoned.add(task)
        task.add_done_callback(self._forget)
        error = RequestTooSlow(self._limit, may_change=scope["method"] != "GET")
        await self._refuse(scope, error)(scope, receive, send)

    async def _wait(self, task: asyncio.Future[None], answer: "_Answer") -> None:
        """Wait until the task is done, or the limit passes without the start of an answer."""
        while True:
            await asyncio.wait((task,), timeout=self._limit.total_seconds())
            if task.done() or (answer.arrived and not answer.begun):
                return

    def _forget(self, task: asyncio.Future[None]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would log it a second time


class _Answer:
    """Pass on what the app sends, until another answer is sent instead."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.arrived = True
        self.begun = False
        self.discarded = False

    async def receive(self) -> Message:
        self.arrived = False
        message = await self._receive()
        self.arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self.discarded:
            return
        self.begun = True
        await self._send(message)


class EncodedSlashes:
    """Decode the path again, except for its encoded slashes.

    A server decodes the path before it is routed, so ``/tables/..%2Fx/y`` would reach another route. With this layer, an encoded
    slash stays encoded and reaches the route as a part of the name, which refuses it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes | None = scope.get("raw_path")
        if raw is not None and (b"%2f" in raw or b"%2F" in raw):
            path = raw.split(b"?", 1)[0].replace(b"%2F", b"%252F").replace(b"%2f", b"%252f")
            scope = {**scope, "path": unquote(path.decode("latin-1"))}
        await self._app(scope, receive, send)
