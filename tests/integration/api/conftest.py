"""The API as people reach it: uvicorn on a free port of 127.0.0.1, in a thread of the test or in a process of its own.

``lake_folder`` is a catalog with a few tables that no test changes; ``serve_app`` serves an app and gives a client for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from api_process import TOKEN, build

from airflow_snowpack.iceberg import CatalogConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastapi import FastAPI
    from starlette.types import ASGIApp

    Serve = Callable[[ASGIApp], httpx.Client]

PLAIN_TABLES = 40


@pytest.fixture(scope="session")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with ``analytics.page_views``, which has small files, and ``plain.t00`` to ``plain.t39``, which are empty."""
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    folder = tmp_path_factory.mktemp("api-lake")
    catalog = CatalogConfig.embedded(folder).load()
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    catalog.create_namespace("analytics")
    catalog.create_namespace("plain")
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
            return stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=30))

        yield serve


@pytest.fixture
def app(store_url: str, lake_folder: Path) -> FastAPI:
    """The app on an empty store, once on each database."""
    from airflow_snowpack.store import Store, upgrade_schema
    from airflow_snowpack.store.engine import open_engine

    with Store(open_engine(store_url)) as store:
        upgrade_schema(store)
    built: FastAPI = build(store_url, lake_folder)
    return built


@pytest.fixture
def api(app: FastAPI, serve_app: Serve) -> httpx.Client:
    """A client of the running app, with the token."""
    return serve_app(app)


@contextlib.contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("The server did not start.")
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(15)
