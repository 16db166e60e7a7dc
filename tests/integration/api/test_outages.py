"""The store or the catalog is away: what can be answered is, the rest is a 503 with its cause in five seconds, and it heals."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from api_process import TOKEN, build
from bounded import PATIENCE_S
from postgres_server import PostgresServer

from airflow_snowpack.api import Services, TokenAuth, build_app
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.installation import Installation
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.maintenance import DEFAULT_ORDER
from airflow_snowpack.store import Deadlines, Store, open_store, upgrade_schema
from airflow_snowpack.store.opening import open_engine

if TYPE_CHECKING:
    from fastapi import FastAPI

ONE_ACTION = {"actions": ["expire_snapshots"]}
LIMIT = PATIENCE_S  # the app says 4.5, and without its limits the answer would never come; the rest is for a busy machine
NEEDS_STORE = ("/jobs", "/queue", "/tables", "/locks", "/drain", "/audit", "/metrics", "/readyz")


@pytest.fixture
def own_lake(lake_folder: Path, tmp_path: Path) -> Path:
    """A copy of the catalog, for this test to break. Its tables' files are those of the original."""
    return Path(copytree(lake_folder, tmp_path / "lake"))


def timed(ask: Callable[[], httpx.Response]) -> tuple[httpx.Response, float]:
    began = time.monotonic()
    answer = ask()
    return answer, time.monotonic() - began


def until_ok(ask: Callable[[], httpx.Response], seconds: float = PATIENCE_S) -> httpx.Response:
    give_up = time.monotonic() + seconds
    while (answer := ask()).is_error and time.monotonic() < give_up:
        time.sleep(0.05)
    return answer


def expect_down(api: httpx.Client, secrets: tuple[str, ...]) -> None:
    """Whatever needs the store says that it is down, in time, at once from many sides, and tells nothing else of it."""
    asks: list[Callable[[], httpx.Response]] = [lambda path=path: api.get(path) for path in NEEDS_STORE]  # type: ignore[misc]
    asks.append(lambda: api.post("/tables/analytics/page_views/maintenance", json=ONE_ACTION))
    asks.append(lambda: api.put("/drain", json={"on": True}))
    with ThreadPoolExecutor(2 * len(asks)) as pool:
        for answer, seconds in pool.map(timed, asks * 2):
            assert answer.status_code == 503
            assert seconds < LIMIT
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["retry-after"]
            assert answer.json()["error"] in ("store_down", "not_ready", "too_slow")
            assert "The Snowpack store does not answer: " in answer.json()["detail"] or answer.json()["error"] != "store_down"
            assert not [secret for secret in secrets if secret in answer.text]
    assert api.get("/healthz").status_code == 200


@contextmanager
def app_on(server: PostgresServer, lake: Path) -> Iterator[FastAPI]:
    with Store(open_engine(server.url)) as store:
        upgrade_schema(store)
    yield build(server.url.render_as_string(hide_password=False), lake)


def secrets_of(server: PostgresServer) -> tuple[str, ...]:
    return (str(server.url.port), "user", "SELECT", "psycopg")


def test_a_stopped_postgres_is_told_in_time_and_comes_back(
    own_postgres: PostgresServer, lake_folder: Path, serve_app: Any
) -> None:
    with app_on(own_postgres, lake_folder) as app:
        api = serve_app(app)
        assert api.post("/tables/analytics/page_views/maintenance", json=ONE_ACTION).status_code == 202
        assert until_ok(lambda: api.get("/readyz")).status_code == 200, "the first listing has ended; in an outage it would fail"
        own_postgres.stop()
        expect_down(api, secrets_of(own_postgres))
        own_postgres.start()
        assert len(until_ok(lambda: api.get("/jobs")).json()) == 1
        assert until_ok(lambda: api.get("/readyz")).status_code == 200


def test_a_frozen_postgres_is_told_in_time_and_comes_back(
    own_postgres: PostgresServer, lake_folder: Path, serve_app: Any
) -> None:
    with app_on(own_postgres, lake_folder) as app:
        api = serve_app(app)
        assert api.get("/jobs").status_code == 200
        own_postgres.freeze()
        try:
            expect_down(api, secrets_of(own_postgres))
        finally:
            own_postgres.thaw()
        assert until_ok(lambda: api.get("/jobs")).status_code == 200
        assert until_ok(lambda: api.post("/tables/plain/t00/maintenance", json=ONE_ACTION)).status_code == 202


def test_the_app_starts_without_its_store_and_finds_it_later(tmp_path: Path, lake_folder: Path, serve_app: Any) -> None:
    file = tmp_path / "snowpack.db"
    file.write_text("this is no database")
    api = serve_app(build(f"sqlite:///{file}", lake_folder))
    answer, seconds = timed(lambda: api.get("/jobs"))
    assert (answer.status_code, answer.json()["error"]) == (503, "store_down")
    assert "its file is not a database, or damaged" in answer.json()["detail"]
    assert str(tmp_path) not in answer.text
    assert seconds < LIMIT
    ready = api.get("/readyz").json()
    assert (ready["error"], ready["not_ready"]) == ("not_ready", ["store", "tables"])
    file.unlink()
    assert until_ok(lambda: api.get("/jobs")).json() == []


def test_an_sqlite_file_that_another_program_writes_to_is_told_in_time(tmp_path: Path, lake_folder: Path, serve_app: Any) -> None:
    file = tmp_path / "snowpack.db"
    api = serve_app(build(f"sqlite:///{file}", lake_folder))
    assert until_ok(lambda: api.get("/readyz")).status_code == 200
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer, seconds = timed(lambda: api.post("/tables/plain/t00/maintenance", json=ONE_ACTION))
    assert (answer.status_code, answer.json()["error"]) == (503, "store_down")
    assert seconds < LIMIT
    assert api.get("/jobs").json() == [], "reading goes on"
    other.execute("ROLLBACK")
    assert api.post("/tables/plain/t00/maintenance", json=ONE_ACTION).status_code == 202


def test_without_the_catalog_known_tables_are_maintained_and_unknown_ones_are_not_denied(
    sqlite_url: str, own_lake: Path, serve_app: Any
) -> None:
    api = serve_app(build(sqlite_url, own_lake))
    assert until_ok(lambda: api.get("/readyz")).status_code == 200, "the listing of its start is through"
    assert api.post("/tables/refresh").json()["tables"] == 42
    healthy = (own_lake / "catalog.db").read_bytes()
    (own_lake / "catalog.db").write_text("this is no database")
    refresh = api.post("/tables/refresh")
    assert (refresh.status_code, refresh.json()["error"], refresh.headers["retry-after"]) == (503, "catalog_unreachable", "30")
    miss = api.post("/tables/analytics/nothing/maintenance", json=ONE_ACTION)
    assert (miss.status_code, miss.json()["error"]) == (503, "catalog_unreachable")
    assert api.post("/tables/analytics/page_views/maintenance", json=ONE_ACTION).status_code == 202
    assert api.post("/tables/plain/t00/maintenance", json=ONE_ACTION | {"dry_run": True}).status_code == 503
    listed = api.get("/tables?limit=50").json()
    assert len(listed["tables"]) == 42
    assert "cannot be reached" in listed["problem"]
    table = api.get("/tables/analytics/page_views").json()
    assert table["health"] is None
    assert "cannot be reached" in table["problem"]
    (own_lake / "catalog.db").write_bytes(healthy)
    assert api.post("/tables/refresh").json()["problem"] is None
    assert api.get("/tables/analytics/page_views").json()["health"]["data_files"] == 3


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("how", ["silent", "closed"])
def test_a_catalog_that_hangs_or_is_gone_holds_nothing_else_up(
    how: str, sqlite_url: str, silent_port: int, serve_app: Any
) -> None:
    threads = threading.active_count()
    lake = CatalogConfig.rest("lake", f"http://127.0.0.1:{silent_port if how == 'silent' else 1}")

    def open_services() -> Services:
        store = open_store(sqlite_url, deadlines=Deadlines())
        return Services(Installation(store), Inventory(store, "lake", lake.load), DEFAULT_ORDER)

    api = serve_app(build_app(open_services, TokenAuth(TOKEN)))
    asks: list[Callable[[], httpx.Response]] = [
        lambda: api.post("/tables/a/b/maintenance", json=ONE_ACTION),
        lambda: api.get("/tables/a/b"),
        lambda: api.get("/tables/a/b/metadata"),
        lambda: api.post("/tables/refresh"),
    ] * 6
    with ThreadPoolExecutor(len(asks) + 1) as pool:
        hanging = [pool.submit(timed, ask) for ask in asks]
        answer, seconds = pool.submit(timed, lambda: api.get("/healthz")).result()
        assert (answer.status_code, seconds < LIMIT / 3) == (200, True)
        for answer, seconds in (each.result() for each in hanging):
            assert answer.status_code == 503
            assert answer.json()["error"] in ("catalog_too_slow", "catalog_unreachable", "too_slow")
            assert seconds < LIMIT
    assert api.get("/jobs").json() == []
    ready = api.get("/readyz").json()
    assert ready["not_ready"] == ["tables"]
    assert ready["detail"].startswith("The catalog was never listed.")
    assert threading.active_count() < threads + 100
