"""An HTTP proxy before a real server, which counts its requests and has some of them fail as networks and busy servers do.

with faulty_proxy(s3.endpoint) as proxy:
    ...                                          # a client of proxy.url
    proxy.requests                               # [("GET", "/lake/key"), ("POST", "/lake?delete"), …]
    proxy.fault = lambda method, path: Fault.LOST if chance.random() < 0.2 else None

It forwards each request as it is, Host header included, so that signatures stay valid.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from urllib.parse import urlsplit

from bounded import PATIENCE_S

HEAD_END = b"\r\n\r\n"
HEAD_LIMIT = 1 << 20
SLOW_S = 0.5
WITHOUT_BODY = (204, 304)


class Fault(Enum):
    """What becomes of a request."""

    BUSY = auto()
    """503 SlowDown; the server does not get it."""
    SLOW = auto()
    """Half a second before the server gets it."""
    RESET = auto()
    """The connection is reset; the server does not get it."""
    LOST = auto()
    """The server carries it out, and the connection is reset before the response."""
    FORBIDDEN = auto()
    """403, as a REST catalog answers; the server does not get it."""
    NOT_IMPLEMENTED = auto()
    """501, as services with a part of S3's requests answer."""
    NO_SUCH_KEY = auto()
    """404, as Google Cloud Storage answers to the deletion of what is not there."""
    NOT_ALL = auto()
    """200, with an error whose key is spelled differently; the server does not get it."""
    PAGE = auto()
    """200 and a page of HTML, as a proxy answers; the server does not get it."""
    TRUNCATED = auto()
    """The response ends in the middle of its body."""


REFUSALS = {
    Fault.BUSY: (b"503 Slow Down", b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"),
    Fault.NOT_IMPLEMENTED: (b"501 Not Implemented", b"<Error><Code>NotImplemented</Code></Error>"),
    Fault.NO_SUCH_KEY: (b"404 Not Found", b"<Error><Code>NoSuchKey</Code><Message>It is not there.</Message></Error>"),
    Fault.NOT_ALL: (
        b"200 OK",
        b"<DeleteResult><Error><Key>other</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>",
    ),
    Fault.PAGE: (b"200 OK", b"<html><p>Sign in</p></html>"),
    Fault.FORBIDDEN: (b"403 Forbidden", b'{"error": {"message": "read-only", "type": "ForbiddenException", "code": 403}}'),
}


def no_fault(method: str, path: str) -> Fault | None:
    return None


@dataclass
class FaultyProxy:
    """The proxy.

    :ivar fault: chooses the fault of a request by its method and path.
    :ivar requests: what was requested, in order.
    :ivar faults: how many faults there were.
    """

    server: tuple[str, int]
    url: str = ""
    fault: Callable[[str, str], Fault | None] = no_fault
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        above: asyncio.StreamWriter | None = None
        try:
            below, above = await asyncio.open_connection(*self.server, limit=HEAD_LIMIT)
            while await self._one(reader, writer, below, above):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass  # one side has closed the connection
        finally:
            for each in (writer, above):
                if each is not None:
                    each.close()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, below: asyncio.StreamReader, above: asyncio.StreamWriter
    ) -> bool:
        """Forward one request and its response; return whether the connection goes on."""
        head = await reader.readuntil(HEAD_END)
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        headers = headers_of(head)
        self.requests.append((method, path))
        fault = self.fault(method, path)
        self.faults += fault is not None
        if "expect" in headers:
            writer.write(b"HTTP/1.1 100 Continue" + HEAD_END)
            head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(b"expect:"))
        if fault is Fault.RESET:
            writer.transport.abort()
            return False
        body = await body_of(reader, headers)
        if fault in REFUSALS:
            status, content = REFUSALS[fault]
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d%s" % (status, len(content), HEAD_END))
            writer.write(b"" if method == "HEAD" else content)
            await writer.drain()
            return True
        if fault is Fault.SLOW:
            await asyncio.sleep(SLOW_S)
        above.write(head + body)
        await above.drain()
        answer, code = b"", 100
        while 100 <= code < 200:
            answer = await below.readuntil(HEAD_END)
            code = int(answer.split(b" ", 2)[1])
        has_body = method != "HEAD" and code not in WITHOUT_BODY
        content = await body_of(below, headers_of(answer)) if has_body else b""
        if fault is Fault.LOST:
            writer.transport.abort()
            return False
        if fault is Fault.TRUNCATED and content:
            writer.write(answer + content[: len(content) // 2])
            await writer.drain()
            return False
        writer.write(answer + content)
        await writer.drain()
        return headers_of(answer).get("connection", "").lower() != "close"


def headers_of(head: bytes) -> Mapping[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}


async def body_of(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """Read a body as it is sent, with the sizes of its chunks."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if not size:
            return body


@contextmanager
def faulty_proxy(url: str) -> Iterator[FaultyProxy]:
    """A proxy on a free port of 127.0.0.1, in a thread of this process."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    proxy, ready = FaultyProxy((place.hostname, place.port)), threading.Event()
    stop: list[Callable[[], object]] = []

    async def run() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=HEAD_LIMIT)
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        stop.append(lambda: loop.call_soon_threadsafe(over.set))
        ready.set()
        await over.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield proxy
    finally:
        stop[0]()
        thread.join(PATIENCE_S)
