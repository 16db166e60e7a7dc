"""Missing background roles: on the pages, at /readyz and in the metrics, with the time and what to do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from app_client import AppClient
from pages_world import World, open_world
from query_plans import scans, sent_by

from airflow_snowpack.api.roles import DagState, missing_dags, read_roles
from airflow_snowpack.scheduling import CommitsAdded, CustomEvents, Schedule, Schedules, run_now
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.interim import interim_tables
from airflow_snowpack.wire.operations import ReadyShape

if TYPE_CHECKING:
    from fastapi import FastAPI

pytestmark = pytest.mark.one_database
NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
TABLE = "analytics.page_views"


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, NOW, tables=(TABLE,), url=sqlite_url)
    yield opened
    opened.close()


def said(world: World, dags: Mapping[str, DagState] | None = None) -> dict[str, str]:
    return {report.role.value: str(report) for report in read_roles(world.store, lambda ids: dags or {})}


def missing(world: World) -> list[str]:
    return [report.role.value for report in read_roles(world.store) if report.is_missing]


def test_a_role_that_never_ran_and_has_no_work_is_not_missing_and_says_so(world: World) -> None:
    assert missing(world) == []
    assert said(world) == {
        "worker": "No worker has run on this store, and none is needed: no job can be claimed.",
        "sweeper": (
            "No sweeper has run on this store, and none is needed: no table is locked, and no job was submitted in the last 24 h."
        ),
        "scheduler": (
            "No scheduler has run on this store, and none is needed: no schedule is enabled, and no run waits to be started."
        ),
        "poller": "No table poller has run on this store, and none is needed: no enabled schedule listens to a table.",
        "collector": "No interim table collector has run on this store, and none is needed: there are no interim tables.",
    }


def test_a_sweep_dag_that_is_paused_is_named_with_the_time_and_what_to_do(world: World) -> None:
    SignOfLife(
        world.store, Role.SWEEPER, "snowpack_sweep.sweep", period=timedelta(minutes=5), detail={"dag": "snowpack_sweep"}
    ).beat()
    world.submit(TABLE)
    world.clock.move(minutes=14)
    assert said(world)["sweeper"] == "1 sweeper running, last seen 14 min ago.", "a DAG of every 5 min may be late"

    world.clock.move(minutes=26)
    assert said(world)["sweeper"] == "No sweeper for 40 min. Check whether DAG snowpack_sweep is paused, and its latest runs."
    for state, what_to_do in (
        (DagState.PAUSED, "DAG snowpack_sweep is paused. Unpause it."),
        (DagState.ACTIVE, "DAG snowpack_sweep is not paused. Check its latest runs."),
        (
            DagState.MISSING,
            "Airflow has no DAG snowpack_sweep. Add `from airflow_snowpack.dags import sweep` to a DAG file, "
            "or run `airflow snowpack sweep` every 5 minutes.",
        ),
    ):
        assert said(world, {"snowpack_sweep": state})["sweeper"] == f"No sweeper for 40 min: {what_to_do}"


def test_each_role_is_missing_only_when_its_own_work_has_waited(world: World) -> None:
    world.submit(TABLE)
    world.clock.move(minutes=4)
    assert missing(world) == []
    assert said(world)["worker"] == "No worker has run on this store. There has been work for it for 4 min."
    world.clock.move(minutes=1)
    assert missing(world) == ["worker", "sweeper"]
    world.jobs.set_drain(True)
    assert missing(world) == ["sweeper"], "no worker could claim the job"
    world.jobs.set_drain(False)
    claim = world.jobs.claim("pod-7")
    assert claim is not None
    assert missing(world) == ["sweeper"], "no job waits any more"

    schedules = Schedules(world.store, catalog="lake")
    schedules.create(Schedule("by_event", "dag", CustomEvents("go"), enabled=True))
    assert missing(world) == ["sweeper", "scheduler"]
    schedules.create(Schedule("by_table", "dag", CommitsAdded(TABLE, 1), enabled=True))
    assert missing(world) == ["sweeper", "scheduler", "poller"]
    for name in ("by_event", "by_table"):
        schedules.suspend(name)
    assert missing(world) == ["sweeper"]
    run_now(schedules, "by_event")
    world.clock.move(minutes=6)
    assert missing(world) == ["sweeper", "scheduler"], "the run of a suspended schedule waits to be started"
    schedules.resume("by_table")
    for role in (Role.SCHEDULER, Role.SWEEPER):
        SignOfLife(world.store, role).beat()
    assert missing(world) == ["poller"]
    assert said(world)["poller"].endswith("It runs inside the scheduler. Start one, or search its log for tables_not_polled.")


def test_a_process_that_runs_costs_one_statement_and_work_for_a_missing_one_a_second(world: World) -> None:
    statements: list[str] = []
    sa.event.listen(world.store.engine, "before_cursor_execute", lambda c, cur, statement, *rest: statements.append(statement))
    read_roles(world.store)
    assert len(statements) == 2
    for role in Role:
        SignOfLife(world.store, role).beat()
    statements.clear()
    asked: list[Collection[str]] = []
    read_roles(world.store, lambda ids: asked.append(ids) or {})  # type: ignore[func-returns-value]
    assert len(statements) == 1
    assert asked == [], "Airflow is not asked while every role runs"


def test_looking_for_work_walks_over_no_jobs_and_no_schedules(world: World) -> None:
    world.submit(TABLE)
    sent = sent_by(world.store, lambda: read_roles(world.store))
    assert scans(world.store, sent, ["jobs", "job_queue", "table_locks", "schedules", "launches", "interim_tables"]) == []


def test_a_missing_role_is_a_banner_and_a_row_of_the_queue_page(world: World, app: FastAPI) -> None:
    SignOfLife(world.store, Role.WORKER, "pod-<7>").beat()
    world.submit(TABLE)
    world.clock.move(minutes=40)
    for path in ("/ui/", "/ui/queue"):
        page = AppClient(app)("GET", path, Accept="text/html").text
        found = re.findall(r'<div class="banner banner-role"[^>]*>(.*?)</div>', page)
        banners = [unescape(each).partition(" <a")[0] for each in found]
        assert banners == [
            "No worker for 40 min. Start <code>airflow snowpack worker</code>, or unpause the DAG snowpack_workers.",
            "No sweeper has run on this store. Unpause the DAG snowpack_sweep, "
            "or run <code>airflow snowpack sweep</code> every 5 minutes.",
        ]
    assert "pod-&lt;7&gt;" in page


def test_a_missing_role_leaves_the_process_ready_and_is_in_the_body(world: World, app: FastAPI) -> None:
    world.submit(TABLE)
    world.clock.move(minutes=9)
    world.inventory.refresh()
    answer = AppClient(app)("GET", "/readyz")

    assert answer.status_code == 200, "a load balancer gains nothing from taking this process out"
    body = answer.json()
    ReadyShape.model_validate(body)
    assert body["missing_roles"] == ["worker", "sweeper"]
    assert body["roles"]["collector"].endswith("there are no interim tables.")
    SignOfLife(world.store, Role.SWEEPER, "host-a:7").beat()
    assert "host-a" not in AppClient(app)("GET", "/readyz").text, "a probe is anonymous"


def test_the_metrics_count_the_instances_of_each_role_and_mark_missing_ones(world: World, app: FastAPI) -> None:
    world.submit(TABLE)
    for name in ("pod-1", "pod-2"):
        SignOfLife(world.store, Role.WORKER, name).beat()
    world.clock.move(minutes=4)
    SignOfLife(world.store, Role.WORKER, "pod-2").beat()
    world.clock.move(minutes=2)
    text = AppClient(app)("GET", "/metrics").text

    assert 'snowpack_role_instances{role="worker"} 1.0' in text
    assert 'snowpack_role_seen_seconds{role="worker"} 120.0' in text
    assert 'snowpack_role_missing{role="worker"} 0.0' in text
    assert 'snowpack_role_missing{role="sweeper"} 1.0' in text
    assert 'snowpack_role_seen_seconds{role="sweeper"}' not in text


def test_dags_that_no_role_depends_on_are_missing_only_where_they_are_needed(world: World) -> None:
    def missing_of(state: DagState, *, has_policies: bool = False) -> list[str]:
        return missing_dags(world.store, lambda ids: dict.fromkeys(ids, state), has_policies=has_policies)

    assert missing_of(DagState.MISSING) == ["prune"]
    world.submit(TABLE)
    assert missing_of(DagState.MISSING, has_policies=True) == ["prune", "workers", "fleet"]
    assert missing_of(DagState.PAUSED, has_policies=True) == []
    assert missing_dags(world.store, lambda ids: {}, has_policies=True) == [], "Airflow's database cannot be read"
    SignOfLife(world.store, Role.WORKER, "pod-7").beat()
    assert missing_of(DagState.MISSING) == ["prune"]


def test_interim_tables_need_a_collector(world: World) -> None:
    values = dict.fromkeys(("catalog", "database_name", "run_key", "dag_id", "run_id", "task_id", "output", "preservation"), "x")
    row = {**values, "table_id": "1", "table_name": "t", "map_index": 0, "try_number": 1, "state": "ready", "created_at": NOW}
    empty = {column.name: 0 for column in interim_tables.c if not column.nullable and column.name not in row}
    empty |= {"visible_at": NOW} if "visible_at" in empty else {}
    world.store.transact(lambda conn: conn.execute(sa.insert(interim_tables).values(**row, **empty)))
    world.clock.move(minutes=20)

    assert missing(world) == ["collector"]
