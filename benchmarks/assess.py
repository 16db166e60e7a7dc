"""Assessing 1,000 tables of a REST catalog beside loading each once, with the same number of threads, on S3.

The server is SeaweedFS, which is both, on the same machine: it shares the cores with its clients. Each table has one snapshot, of
one data file. Requests to the catalog and their bytes are counted where PyIceberg sends them, files of metadata where they are
opened: `make bench BENCH=assess`.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.results import Finding, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from requests import PreparedRequest, Response, Session

    from airflow_snowpack.iceberg import CatalogConfig

TABLES = 1_000
REQUESTS_AT_MOST = 2.0
CLOCK_AT_MOST = 1.3


@dataclass(slots=True)
class Requests:
    """What was requested of the catalog, and how many files were opened."""

    requests: int = 0
    bytes: int = 0
    files: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, response: Response) -> None:
        with self._lock:
            self.requests += 1
            self.bytes += len(response.content)

    def opened(self) -> None:
        with self._lock:
            self.files += 1


@contextmanager
def counted() -> Iterator[Requests]:
    """Count inside of the block, in this process."""
    import requests

    from airflow_snowpack.iceberg.guarded_catalogs import LiteralFileIO

    found, send, new_input = Requests(), requests.Session.send, LiteralFileIO.new_input

    def counting_send(session: Session, request: PreparedRequest, **options: Any) -> Response:
        response = send(session, request, **options)
        found.count(response)
        return response

    def counting_input(io: LiteralFileIO, location: str) -> Any:
        found.opened()
        return new_input(io, location)

    requests.Session.send, LiteralFileIO.new_input = counting_send, counting_input  # type: ignore[method-assign]
    try:
        yield found
    finally:
        requests.Session.send, LiteralFileIO.new_input = send, new_input  # type: ignore[method-assign]


def run(results: Results, *, rounds: int) -> None:
    from airflow_snowpack.iceberg import TableName
    from examples.cluster.seaweedfs import SeaweedFS

    with tempfile.TemporaryDirectory(prefix="snowpack-bench-") as folder:
        server = SeaweedFS(Path(folder) / "s3")
        try:
            server.start()
            lake = server.catalog("lake")
            names = [TableName("lake", "bench", f"t{number}") for number in range(TABLES)]
            _create(lake, names)
            _measure(results, rounds, lambda: _assess(lake, names), lambda: _load(lake, names))
        finally:
            server.stop()


def _measure(results: Results, rounds: int, assess: Callable[[], None], load: Callable[[], None]) -> None:
    took: dict[str, list[float]] = {"assess": [], "load": []}
    for _ in range(rounds + 1):
        for what, call in (("load", load), ("assess", assess)):
            began = time.monotonic()
            with counted() as requests:
                call()
            took[what].append(time.monotonic() - began)
    ours, theirs = (statistics.median(took[what][1:]) for what in ("assess", "load"))
    what = f"assess {TABLES:,} tables on REST and S3"
    says = f"{requests.bytes / TABLES / 1024:.1f} KiB of responses, {requests.files / TABLES:.2f} files of metadata per table"
    results.find(Finding(f"{what}: requests to the catalog per table", requests.requests / TABLES, REQUESTS_AT_MOST, says=says))
    says = f"{ours:.2f} s : {theirs:.2f} s, medians of {rounds}"
    results.find(Finding(f"{what}, by the clock / one load of each", ours / theirs, at_most=CLOCK_AT_MOST, says=says))


def _create(lake: CatalogConfig, names: list[Any]) -> None:
    import pyarrow as pa

    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{number}" for number in range(10)]})
    catalog = lake.load()
    catalog.create_namespace("bench")
    with ThreadPoolExecutor(_threads()) as pool:
        list(pool.map(lambda name: catalog.create_table(name.identifier, rows.schema).append(rows), names))


def _assess(lake: CatalogConfig, names: list[Any]) -> None:
    from airflow_snowpack.maintenance.assessment.walk import Walk
    from airflow_snowpack.maintenance.policies import Policies

    report = Walk(lake.load, Policies(), lambda: datetime.now(UTC), concurrency=_threads()).assess("lake", names)
    unreadable = [table.problem for table in report.rows if table.health is None]
    if unreadable:
        raise RuntimeError(f"{len(unreadable)} tables could not be read: {unreadable[0]}")


def _load(lake: CatalogConfig, names: list[Any]) -> None:
    catalog = lake.load()
    with ThreadPoolExecutor(_threads()) as pool:
        list(pool.map(lambda name: catalog.load_table(name.identifier), names))


def _threads() -> int:
    from airflow_snowpack.maintenance.assessment.walk import CONCURRENCY

    return CONCURRENCY
