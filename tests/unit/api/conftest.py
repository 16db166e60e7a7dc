"""The app for the tests that ask it without a network: built once, and given each test's own services and user."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from app_client import AppClient
from page_reading import Browser
from pages_world import SomebodyIs, World, open_world

if TYPE_CHECKING:
    from fastapi import FastAPI


def _no_services() -> None:
    raise AssertionError("No test uses the app now.")


@pytest.fixture(scope="session")
def only_app() -> FastAPI:
    """The app of this process: to build it takes longer than most tests."""
    from airflow_snowpack.api import build_app

    return build_app(_no_services, SomebodyIs(), timeout=timedelta(minutes=5))  # type: ignore[arg-type]  # each test sets its own


@pytest.fixture
def auth() -> SomebodyIs:
    """The user who asks."""
    return SomebodyIs("vera")


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str, request: pytest.FixtureRequest) -> Iterator[World]:
    """An installation with nothing but the tables that the module names in ``TABLES``."""
    opened = open_world(tmp_path, tables=getattr(request.module, "TABLES", ()), url=sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def api(app: FastAPI) -> AppClient:
    """A client of the app."""
    return AppClient(app)


@pytest.fixture
def browser(app: FastAPI) -> Browser:
    """A browser at the app."""
    return Browser(app)


@pytest.fixture
def app(only_app: FastAPI, world: World, auth: SomebodyIs) -> Iterator[FastAPI]:
    """The app on the test's own world, for its user. All that an app keeps between requests but its counters is replaced."""
    from airflow_snowpack.api.services import LazyServices

    only_app.state.services, only_app.state.auth = LazyServices(lambda: world.services), auth
    for kept in ("queue_samples", "digest"):
        if hasattr(only_app.state, kept):
            delattr(only_app.state, kept)
    yield only_app
    only_app.state.services.close()  # and with them the thread that refreshes the list of tables
    only_app.state.services, only_app.state.auth = LazyServices(_no_services), None  # type: ignore[arg-type]
