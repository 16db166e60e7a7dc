"""The REST API of lineage, through the app itself on a real store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from lineage_world import BUILT, JOB, REPORT, make_lineage
from pages_world import SomebodyIs, app_of, open_world

from airflow_snowpack.wire.lineage import LineageShape, OperationsShape


@pytest.fixture
def ask(tmp_path: Path, sqlite_url: str) -> Iterator[Callable[[str], httpx.Response]]:
    world = open_world(tmp_path, url=sqlite_url)
    make_lineage(world.store, world.store.clock())
    transport = httpx.ASGITransport(app=app_of(world, SomebodyIs("vera")))

    def get(path: str) -> httpx.Response:
        async def answer() -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test") as client:
                return await client.get(path)

        return asyncio.run(answer())

    yield get
    world.close()


def ok(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_table_has_its_lineage_both_ways_and_either_way(ask: Callable[[str], httpx.Response]) -> None:
    both = ok(ask("/lineage/flights/report"))
    LineageShape.model_validate_json(json.dumps(both))
    depths = {node["name"]: node["depth"] for node in both["nodes"]}
    assert (depths["lake.flights.raw"], depths["lake.flights.report"], depths[BUILT.url]) == (-3, 0, 1)

    up, down = ok(ask("/lineage/flights/report?direction=up&depth=1")), ok(ask("/lineage/flights/report?direction=down"))
    assert {node["depth"] for node in up["nodes"]} == {-1, 0}
    assert {node["depth"] for node in down["nodes"]} == {0, 1}
    assert next(node for node in down["nodes"] if node["depth"] == 0)["written"]["job_id"] == JOB


def test_any_name_can_be_asked_for_in_the_query(ask: Callable[[str], httpx.Response]) -> None:
    assert ok(ask(f"/lineage?name={BUILT.url}/&direction=up"))["table"] == BUILT.url
    assert ok(ask("/lineage?name=flights.report"))["table"] == REPORT.table
    assert ok(ask("/lineage?name=lake.flights.report"))["known"] is True
    assert ok(ask("/lineage/flights/nobody"))["known"] is False


@pytest.mark.parametrize(
    "path", ["/lineage/flights/1x", "/lineage", "/lineage/flights/report?depth=51", "/operations?cursor=yesterday"]
)
def test_what_is_no_name_no_depth_and_no_page_is_refused(ask: Callable[[str], httpx.Response], path: str) -> None:
    assert ask(path).status_code == 422


def test_operations_come_newest_first_page_by_page_of_one_table_or_of_all(ask: Callable[[str], httpx.Response]) -> None:
    seen, after = [], ""
    while after is not None:
        page = ok(ask(f"/operations?limit=3{f'&cursor={quote(after)}' if after else ''}"))
        OperationsShape.model_validate_json(json.dumps(page))
        seen += [operation["kind"] for operation in page["operations"]]
        after = page["next"]
    assert seen == ["maintenance", "build", "insert", "reduce", "map", "create", "insert"]

    of_one = ok(ask("/operations?name=flights.report"))["operations"]
    assert [operation["kind"] for operation in of_one] == ["maintenance", "build", "insert"]
    assert of_one[0]["outputs"] == [{"name": REPORT.table, "snapshot_id": REPORT.snapshot_id, "run_id": None}]
