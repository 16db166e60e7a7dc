"""The API as people reach it: uvicorn on a free port of 127.0.0.1, in a thread of the test or in a process of its own.

``lake_folder`` is a catalog with a few tables that no test changes; ``serve_app`` serves an app and gives a client for it. A test
that takes ``api`` runs once on each database, on one server for all of them, whose store is empty again for each. ``open_page``
opens an app in a headless Chromium; without one (Debian: ``apt-get install chromium``) its tests are skipped and say so.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import psycopg
import pytest
import uvicorn
from api_process import TOKEN, build
from bounded import PATIENCE_S
from databases import databases_of
from pages_world import World
from sqlalchemy.engine import make_url
from starlette.types import ASGIApp

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.schema import metadata

if TYPE_CHECKING:
    from fastapi import FastAPI
    from playwright.sync_api import Browser, ConsoleMessage, Page

Serve = Callable[[ASGIApp], httpx.Client]

PLAIN_TABLES = 40
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)


@pytest.fixture(scope="session")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``analytics.page_views`` has small files, ``analytics.clicks`` and ``plain.t00`` to ``plain.t39`` are empty."""
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    folder = tmp_path_factory.mktemp("api-lake")
    catalog = CatalogConfig.embedded(folder).load()
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    catalog.create_namespace("analytics")
    catalog.create_namespace("plain")
    catalog.create_table("analytics.clicks", schema)
    views = catalog.create_table("analytics.page_views", schema)
    for number in range(3):
        views.append(pa.table({"id": pa.array([number], pa.int64())}))
    for number in range(PLAIN_TABLES):
        catalog.create_table(f"plain.t{number:02}", schema)
    return folder


@pytest.fixture
def serve_app() -> Iterator[Serve]:
    """Serve an app until the test ends; the client sends the token."""
    with contextlib.ExitStack() as stack:

        def serve(app: ASGIApp) -> httpx.Client:
            url = stack.enter_context(_served(app))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S, verify=False))

        yield serve


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    """What the pages are about."""
    from pages_world import open_world

    opened = open_world(tmp_path, url=sqlite_url)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a file; while it is there, Playwright's event loop runs in this thread."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed, so the pages were not tested in a browser.")
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_S * 1000)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, serve_app: Serve) -> Iterator[Callable[..., Page]]:
    """Open an app in a window: ``open_page(app, color_scheme="dark")``.

    A script or a dialog that runs fails the test, and so does an error of the console that does not have the text ``allowed``.
    """
    wrong: list[str] = []
    with contextlib.ExitStack() as stack:

        def open_one(app: ASGIApp, *, allowed: str | None = None, **options: Any) -> Page:
            context = chromium.new_context(base_url=str(serve_app(app).base_url), **options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_S * 1000)

            def listen(message: ConsoleMessage) -> None:
                if message.type == "error" and (allowed is None or allowed not in message.text):
                    wrong.append(message.text)

            page.on("console", listen)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            # One that stayed open would stop the page.
            page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
            return page

        yield open_one
    assert wrong == []


@dataclass(frozen=True)
class Server:
    """An app that runs, and where."""

    app: FastAPI
    url: str


@pytest.fixture(scope="session")
def sqlite_server(lake_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app on an SQLite file."""
    with _server(f"sqlite:///{tmp_path_factory.mktemp('api-store') / 'snowpack.db'}", lake_folder) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(postgres_url: str, lake_folder: Path) -> Iterator[Server]:
    """The app on Postgres, in a database of its own."""
    with database_on(postgres_url) as url, _server(url, lake_folder) as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of the running app on both databases, or on one alone when it is marked so."""
    if "app_server" in metafunc.fixturenames:
        metafunc.parametrize("app_server", databases_of(metafunc), indirect=True)


@pytest.fixture
def app_server(request: pytest.FixtureRequest) -> Server:
    """The app on an empty store, once on each database."""
    running: Server = request.getfixturevalue(f"{request.param}_server")
    jobs = running.app.state.services.get().jobs
    jobs.flush()
    jobs.store.transact(lambda conn: [conn.execute(table.delete()) for table in metadata.sorted_tables])
    return running


@pytest.fixture
def app(app_server: Server) -> FastAPI:
    """The running app itself."""
    return app_server.app


@pytest.fixture
def api(app_server: Server) -> Iterator[httpx.Client]:
    """A client of the running app, with the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    # Over plain HTTP; to read the certificates of all authorities for it takes longer than most of these tests.
    with httpx.Client(base_url=app_server.url, headers=headers, timeout=PATIENCE_S, verify=False) as client:
        yield client


@contextlib.contextmanager
def database_on(postgres_url: str) -> Iterator[str]:
    """An empty database, for longer than one test."""
    server = make_url(postgres_url)
    name = f"snowpack_api_{uuid4().hex[:12]}"
    with psycopg.connect(server.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield server.set(database=name).render_as_string(hide_password=False)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def _server(store_url: str, lake_folder: Path) -> Iterator[Server]:
    with Store(open_engine(store_url)) as store:
        upgrade_schema(store)
    app = build(store_url, lake_folder, timedelta(minutes=5))
    with _served(app) as url:
        yield Server(app, url)


@contextlib.contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up = time.monotonic() + PATIENCE_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > give_up:
            raise RuntimeError("The server did not start.")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(15)
