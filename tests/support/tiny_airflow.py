"""An Airflow at its outermost edge: a real HTTP server that knows DAGs, starts runs, and answers 409 for a run that it has.

    with tiny_airflow(clock, ["maintain"]) as airflow:
        airflow.address              # for AirflowRest
        airflow.end_some(0.5)        # half of what runs has succeeded now
        airflow.runs, airflow.asked  # every run that was started, and how often each was asked for

It keeps whoever starts a run waiting for a moment when the run is there, and now and then it does not answer at all: who is
killed while he waits, or hears nothing, does not know whether his run was started.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ACTIVE = "running"
SLOWEST_ANSWER_S = 0.03
SILENT = 0.05
"""The share of runs that are started without an answer."""


@dataclass
class Run:
    """A DAG run."""

    dag_id: str
    run_id: str
    conf: dict[str, Any]
    began_at: datetime
    ended_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        return self.ended_at is None

    def to_json(self) -> dict[str, Any]:
        return {
            "dag_id": self.dag_id,
            "dag_run_id": self.run_id,
            "state": ACTIVE if self.is_active else "success",
            "start_date": self.began_at.isoformat(),
            "end_date": None if self.ended_at is None else self.ended_at.isoformat(),
        }


@dataclass
class TinyAirflow:
    """What the server answers from.

    :ivar runs: in the order of their starts.
    :ivar asked: how often each run was asked for, by its id.
    :ivar at_once: the most runs of each DAG that were active at the same time, and of each of the groups.
    :ivar closed: the DAGs that start no run now, each with the reason: ``paused``, ``missing``, or ``stale`` for a file that is
        broken.
    """

    clock: Callable[[], datetime]
    dag_ids: frozenset[str]
    groups: dict[str, frozenset[str]]
    chance: random.Random
    address: str = ""
    runs: dict[str, Run] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    at_once: Counter[str] = field(default_factory=Counter)
    closed: dict[str, str] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def active(self, *dag_ids: str) -> list[Run]:
        """What runs; of these DAGs, or of all."""
        return [run for run in list(self.runs.values()) if run.is_active and (not dag_ids or run.dag_id in dag_ids)]

    def end_some(self, share: float) -> list[Run]:
        """Let so many of the active runs succeed; gives them."""
        ended = [run for run in self.active() if self.chance.random() < share]
        for run in ended:
            run.ended_at = self.clock()
        return ended

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        match [method, *(unquote(part) for part in path.removeprefix("/api/v2/").split("/"))]:
            case ["GET", "dags", dag_id] if dag_id in self.dag_ids and self.closed.get(dag_id) != "missing":
                return 200, {"dag_id": dag_id, "is_paused": self.closed.get(dag_id) == "paused"}
            case ["GET", "dags", dag_id, "dagRuns", run_id] if run_id in self.runs:
                return 200, self.runs[run_id].to_json()
            case ["GET", "dags", dag_id, "dagRuns"]:
                runs = [run.to_json() for run in self.active(dag_id)]
                return 200, {"dag_runs": _page(runs, query), "total_entries": len(runs)}
            case ["POST", "dags", "~", "dagRuns", "list"]:
                ended = self._ended(body)
                return 200, {"dag_runs": ended[body["page_offset"] :][: body["page_limit"]], "total_entries": len(ended)}
            case ["POST", "dags", dag_id, "dagRuns"] if dag_id in self.dag_ids and self.closed.get(dag_id) in (None, "paused"):
                return self._start(dag_id, body)
        return 404, {"detail": f"there is nothing at {path}"}

    def _ended(self, asked: Any) -> list[dict[str, Any]]:
        ended = [run for run in list(self.runs.values()) if not run.is_active and run.dag_id in asked["dag_ids"]]
        return [run.to_json() for run in ended if (run.ended_at or self.clock()).isoformat() >= asked["end_date_gte"]]

    def _start(self, dag_id: str, body: Any) -> tuple[int, Any]:
        run_id = body["dag_run_id"]
        with self.guard:
            self.asked[run_id] += 1
            if run_id in self.runs:
                return 409, {"detail": "the run exists"}
            self.runs[run_id] = Run(dag_id, run_id, body["conf"], self.clock())
            for name, dag_ids in {dag_id: {dag_id}, **self.groups}.items():
                self.at_once[name] = max(self.at_once[name], len(self.active(*dag_ids)))
        return 200, self.runs[run_id].to_json()


def _page(found: list[Any], query: dict[str, list[str]]) -> list[Any]:
    offset, limit = (int(query.get(name, ["0"])[0]) for name in ("offset", "limit"))
    return found[offset : offset + limit]


@contextmanager
def tiny_airflow(
    clock: Callable[[], datetime], dag_ids: Iterable[str], groups: dict[str, frozenset[str]] | None = None, seed: int = 0
) -> Iterator[TinyAirflow]:
    """A running one on a free port of 127.0.0.1."""
    airflow = TinyAirflow(clock, frozenset(dag_ids), groups or {}, random.Random(seed))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve("GET", None)

        def do_POST(self) -> None:
            self._serve("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, method: str, body: Any) -> None:
            url = urlsplit(self.path)
            status, said = airflow.answer(method, url.path, parse_qs(url.query), body)
            if method == "POST":
                time.sleep(airflow.chance.random() * SLOWEST_ANSWER_S)
                if airflow.chance.random() < SILENT:
                    self.close_connection = True
                    return
            raw = json.dumps(said).encode()
            head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
            with suppress(OSError):  # whoever asked is dead
                self.wfile.write(head.encode() + raw)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_arguments: Any) -> None:
            """Whoever asked is dead."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    airflow.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield airflow
    finally:
        server.shutdown()
        server.server_close()
