"""A container registry as far as a push needs it, on this machine, with a user and a password: the OCI distribution protocol.

with running_registry("ci", "secret") as registry:
    registry.host                                   # 127.0.0.1:40123
    registry.manifests["team/images", "1.0"]        # what was pushed, as bytes
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class ImageRegistry(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, login: str, password: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = base64.b64encode(f"{login}:{password}".encode()).decode()
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.refused = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    server: ImageRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name in ("do_GET", "do_HEAD", "do_POST", "do_PATCH", "do_PUT"):
            return self._answered
        raise AttributeError(name)

    def _answered(self) -> None:
        body = self._body()
        if self.headers.get("Authorization") != f"Basic {self.server.token}":
            self.server.refused += 1
            self._answer(401, {"WWW-Authenticate": 'Basic realm="images"'})
            return
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/v2/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if "/blobs/uploads/" in path:
            self._upload(path.partition("/blobs/uploads/")[2], query, body)
        elif "/blobs/" in path:
            found = path.partition("/blobs/")[2] in self.server.blobs
            self._answer(200 if found else 404)
        elif "/manifests/" in path and self.command == "PUT":
            name, _, reference = path.partition("/manifests/")
            self.server.manifests[name, reference] = body
            self._answer(201, {"Docker-Content-Digest": digest_of(body)})
        else:
            self._answer(404 if path else 200)

    def _upload(self, upload: str, query: dict[str, str], body: bytes) -> None:
        if self.command == "POST":
            upload = str(len(self.server.uploads))
        content = self.server.uploads[upload] = self.server.uploads.get(upload, b"") + body
        if self.command == "PUT":
            assert digest_of(content) == query["digest"]
            self.server.blobs[query["digest"]] = content
            self._answer(201, {"Docker-Content-Digest": query["digest"]})
        else:
            self._answer(202, {"Location": f"/v2/x/blobs/uploads/{upload}", "Range": f"0-{max(len(content) - 1, 0)}"})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()


@contextmanager
def running_registry(login: str, password: str) -> Iterator[ImageRegistry]:
    with ImageRegistry(login, password) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
