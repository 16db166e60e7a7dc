"""Every page on Postgres, which takes less than SQLite does: no NUL characters, no half of a surrogate pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pages_world import SomebodyIs, app_of, compacted, expired, open_world
from starlette.types import ASGIApp

from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine

Serve = Callable[[ASGIApp], httpx.Client]

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds")
AWKWARD = "%00%ed%a0%80%25_%27%22%5c"


@pytest.fixture
def browser(tmp_path: Path, postgres_database: str, serve_app: Serve) -> Iterator[httpx.Client]:
    with Store(open_engine(postgres_database)) as store:
        upgrade_schema(store)
    world = open_world(tmp_path, tables=TABLES, url=postgres_database)
    world.run(world.submit("analytics.page_views"), [compacted(10, 2, 60), expired(3, 9, 5)])
    world.start(world.submit("analytics.sessions"))
    world.submit("payments.refunds")
    world.jobs.set_drain(True, reason="an upgrade", actor=world.actor())
    yield serve_app(app_of(world, SomebodyIs()))
    world.close()


def test_every_page_is_made_on_postgres(browser: httpx.Client) -> None:
    ids = [job["job_id"] for job in browser.get("/jobs").json()]
    for path in [
        "",
        "tables",
        "tables/analytics/page_views",
        "jobs",
        *(f"jobs/{job_id}" for job_id in ids),
        "locks",
        "queue",
        "audit",
    ]:
        answer = browser.get(f"/ui/{path}")
        assert answer.status_code == 200, answer.text
        assert "Drain mode is on" in answer.text
    assert len(ids) == 3


def test_awkward_text_in_an_address_finds_nothing_and_breaks_nothing(browser: httpx.Client) -> None:
    for query in (
        "tables?search={0}&database={0}&cursor={0}",
        "tables?show=failed&cursor={0}&order={0}",
        "jobs?search={0}&dag_id={0}",
        "jobs?table={0}",
        "locks?search={0}",
        "audit?subject={0}&actor={0}&cursor={0}",
    ):
        answer = browser.get("/ui/" + query.format(AWKWARD))
        assert answer.status_code == 200, answer.text
    for path in ("jobs/{0}", "jobs/%00", "jobs?cursor={0}"):
        answer = browser.get("/ui/" + path.format(AWKWARD))
        assert answer.status_code in (404, 422), answer.text
        assert answer.headers["content-type"].startswith("text/html")
