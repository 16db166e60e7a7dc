"""The REST API of lineage, through the app itself on a real store."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from app_client import AppClient, ok
from lineage_world import BUILT, JOB, REPORT, make_lineage
from pages_world import World

from airflow_snowpack.wire.lineage import LineageShape, OperationsShape


@pytest.fixture
def world(world: World) -> World:
    make_lineage(world.store, world.store.clock())
    return world


def test_a_table_has_its_lineage_both_ways_and_either_way_by_any_of_its_names(api: AppClient) -> None:
    both = ok(api("GET", "/lineage/flights/report"))
    LineageShape.model_validate_json(json.dumps(both))
    depths = {node["name"]: node["depth"] for node in both["nodes"]}
    assert (depths["lake.flights.raw"], depths["lake.flights.report"], depths[BUILT.url]) == (-3, 0, 1)

    up, down = (
        ok(api("GET", "/lineage/flights/report?direction=up&depth=1")),
        ok(api("GET", "/lineage/flights/report?direction=down")),
    )
    assert {node["depth"] for node in up["nodes"]} == {-1, 0}
    assert {node["depth"] for node in down["nodes"]} == {0, 1}
    assert next(node for node in down["nodes"] if node["depth"] == 0)["written"]["job_id"] == JOB

    assert ok(api("GET", f"/lineage?name={BUILT.url}/&direction=up"))["table"] == BUILT.url
    assert ok(api("GET", "/lineage?name=flights.report"))["table"] == REPORT.table
    assert ok(api("GET", "/lineage?name=lake.flights.report"))["known"] is True
    assert ok(api("GET", "/lineage/flights/nobody"))["known"] is False

    for path in ["/lineage/flights/1x", "/lineage", "/lineage/flights/report?depth=51", "/operations?cursor=yesterday"]:
        assert api("GET", path).status_code == 422


def test_operations_come_newest_first_page_by_page_of_one_table_or_of_all(api: AppClient) -> None:
    seen, after = [], ""
    while after is not None:
        page = ok(api("GET", f"/operations?limit=3{f'&cursor={quote(after)}' if after else ''}"))
        OperationsShape.model_validate_json(json.dumps(page))
        seen += [operation["kind"] for operation in page["operations"]]
        after = page["next"]
    assert seen == ["maintenance", "build", "insert", "reduce", "map", "create", "insert"]

    of_one = ok(api("GET", "/operations?name=flights.report"))["operations"]
    assert [operation["kind"] for operation in of_one] == ["maintenance", "build", "insert"]
    assert of_one[0]["outputs"] == [{"name": REPORT.table, "snapshot_id": REPORT.snapshot_id, "run_id": None}]
