"""A stand-in for a service: its HTTP API on 127.0.0.1, by a handler that tests write.

class Clock(StandIn):
    def __init__(self) -> None:
        super().__init__(_Handler)

class _Handler(StandInHandler):
    service: Clock

    def answer(self) -> None:
        self.send_json(200, {"path": self.url.path})
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self
from urllib.parse import SplitResult, parse_qs, urlsplit


class StandIn:
    """A service, from the beginning to the end of a block.

    :param handler: answers its requests.
    """

    def __init__(self, handler: type[StandInHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"service": self}))
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class StandInHandler(BaseHTTPRequestHandler):
    """Reads requests, and sends answers.

    :cvar constant_headers: of each answer.
    """

    protocol_version = "HTTP/1.1"
    constant_headers: ClassVar[Mapping[str, str]] = {}
    service: Any
    url: SplitResult
    query: dict[str, list[str]]
    content: bytes

    def answer(self) -> None:
        """Answer the request of ``url``, ``query`` and ``content``."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.url = urlsplit(self.path)
        self.query = parse_qs(self.url.query)
        self.content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer()

    do_POST = do_DELETE = do_PATCH = do_HEAD = do_GET  # noqa: N815 - names of http.server

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""

    def send_json(self, status: int, answer: object) -> None:
        self.send_bytes(status, json.dumps(answer).encode(), "application/json")

    def send_bytes(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **self.constant_headers}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError, ConnectionResetError):  # the client has gone
                self.wfile.write(body)

    def send_chunks(self, *chunks: bytes) -> None:
        """Send parts of an answer of unknown length; an empty one is its end."""
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))


class AnswersByPath(StandIn):
    """A service whose answers a function returns from the path and the query of a request; bytes are sent as they are."""

    def __init__(self, answer: Callable[[str, dict[str, list[str]]], tuple[int, Any]]) -> None:
        self.answer = answer
        super().__init__(_PathHandler)


class _PathHandler(StandInHandler):
    service: AnswersByPath

    def answer(self) -> None:
        status, body = self.service.answer(self.url.path, self.query)
        if isinstance(body, bytes):
            self.send_bytes(status, body)
        else:
            self.send_json(status, body)
