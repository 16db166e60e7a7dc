"""A REST catalog at its outermost edge: a real HTTP server that answers, from a dictionary, as the Iceberg specification has it.

with rest_catalog() as catalog:
    catalog.tables = {("db",): ["orders"], ("db", "eu"): ["visits"]}
    catalog.answer = "silence"     # or "outage", "strange"
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from bounded import PATIENCE_S

LEVELS = "\x1f"
METADATA_FILE = "00000-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
VIEW = {
    "view-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "format-version": 1,
    "location": "file:///nowhere",
    "current-version-id": 1,
    "versions": [
        {
            "version-id": 1,
            "timestamp-ms": 0,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["db"],
            "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        }
    ],
    "version-log": [{"version-id": 1, "timestamp-ms": 0}],
    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
}


class FakeRestCatalog:
    """What the server answers from.

    :ivar tables: by namespace; a namespace of several levels needs its parents.
    :ivar views: by namespace, likewise; listed to clients with ``view-endpoints-supported``.
    :ivar commits: how many a table has got; each has a metadata file of its own.
    :ivar properties: of every table, and ``config`` what the server returns beside it.
    :ivar overrides: the settings that the server prescribes to its clients.
    :ivar forbidden: namespaces whose tables are refused.
    :ivar answer: how all requests are answered.
    :ivar fail_after: so many requests are answered, and the ones after them as in an outage.
    :ivar together: the first table is returned once so many requests for one wait.
    :ivar most_at_once: the highest number of requests for a table at the same time.
    """

    def __init__(self) -> None:
        self.tables: dict[tuple[str, ...], list[str]] = {}
        self.views: dict[tuple[str, ...], list[str]] = {}
        self.forbidden: set[tuple[str, ...]] = set()
        self.commits: dict[str, int] = {}
        self.properties: dict[str, str] = {}
        self.config: dict[str, str] = {}
        self.overrides: dict[str, str] = {}
        self.answer = "well"
        self.fail_after: int | None = None
        self.together = 1
        self.most_at_once = 0
        self._at_once = 0
        self._changed = threading.Condition()
        self.requests: list[str] = []
        self.over = threading.Event()
        self.url = ""

    def reply(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        parts = path.removeprefix("/v1/").split("/")
        match parts:
            case ["config"]:
                return 200, {"defaults": {}, "overrides": self.overrides}
            case ["namespaces"]:
                return self._namespaces(tuple(query["parent"][0].split(LEVELS)) if "parent" in query else ())
            case ["namespaces", namespace, "tables"]:
                return self._tables(tuple(unquote(namespace).split(LEVELS)))
            case ["namespaces", namespace, "tables", table]:
                return self._table(tuple(unquote(namespace).split(LEVELS)), unquote(table))
            case ["namespaces", namespace, "views"]:
                levels = unquote(namespace).split(LEVELS)
                return 200, {"identifiers": [{"namespace": levels, "name": name} for name in self.views.get(tuple(levels), [])]}
            case ["namespaces", _, "views", view]:
                return 200, {"metadata-location": f"file:///nowhere/{view}/metadata/{METADATA_FILE}", "metadata": VIEW}
            case _:
                return 404, error("NotFoundException")

    def _namespaces(self, parent: tuple[str, ...]) -> tuple[int, Any]:
        if parent and parent not in self.tables:
            return 404, error("NoSuchNamespaceException")
        children = [list(name) for name in self.tables if len(name) == len(parent) + 1 and name[: len(parent)] == parent]
        return 200, {"namespaces": children}

    def _tables(self, namespace: tuple[str, ...]) -> tuple[int, Any]:
        if namespace not in self.tables:
            return 404, error("NoSuchNamespaceException")
        if namespace in self.forbidden:
            return 403, error("ForbiddenException")
        return 200, {"identifiers": [{"namespace": list(namespace), "name": name} for name in self.tables[namespace]]}

    def _table(self, namespace: tuple[str, ...], table: str) -> tuple[int, Any]:
        if table not in self.tables.get(namespace, []):
            return 404, error("NoSuchTableException")
        self._wait_for_others()
        metadata = {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": "file:///nowhere",
            "properties": self.properties,
            "last-sequence-number": 0,
            "last-updated-ms": 0,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [
                {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
            ],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
        }
        file = f"{self.commits.get(table, 0):05}-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
        return 200, {"metadata-location": f"file:///nowhere/{table}/{file}", "metadata": metadata, "config": self.config}

    def _wait_for_others(self) -> None:
        with self._changed:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most_at_once >= self.together, PATIENCE_S)
            self._at_once -= 1


def error(kind: str) -> dict[str, Any]:
    return {"error": {"message": f"a {kind}", "type": kind, "code": 400}}


@contextmanager
def rest_catalog() -> Iterator[FakeRestCatalog]:
    """A running catalog on a free port of 127.0.0.1."""
    catalog = FakeRestCatalog()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            catalog.requests.append(self.path)
            if catalog.answer == "silence":
                catalog.over.wait()
                return
            status, body = self._said(url.path, parse_qs(url.query))
            raw = json.dumps(body).encode() if catalog.answer != "strange" else b"<html>Welcome to the proxy</html>"
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

        def _said(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
            if catalog.answer == "outage" or (catalog.fail_after is not None and len(catalog.requests) > catalog.fail_after):
                return 503, error("ServiceUnavailableException")
            return catalog.reply(path, query)

        def log_message(self, *_arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    catalog.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield catalog
    finally:
        catalog.over.set()
        server.shutdown()
        server.server_close()
