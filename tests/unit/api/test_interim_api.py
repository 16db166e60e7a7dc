"""The REST API of interim tables, through the app itself on a real store."""

from __future__ import annotations

import json

import pytest
from app_client import AppClient, ok, refused
from interim_world import DAG, RUN, MadeInterim, make_interim
from pages_world import World

from airflow_snowpack.interim.model import TableState
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.interim import InterimTableShape, InterimTablesShape


@pytest.fixture
def made(world: World) -> MadeInterim:
    return make_interim(world.store)


def changes(world: World) -> list[tuple[str, str, str, str]]:
    return [(entry.actor, entry.via, entry.change, entry.subject) for entry in AuditTrail(world.store).latest()]


def test_tables_are_listed_page_by_page_each_with_its_producer_its_consumers_and_why_it_stays(
    api: AppClient, made: MadeInterim
) -> None:
    assert ok(api("GET", "/interim"))["next"] is None
    found, cursor = [], ""
    for _ in range(5):
        page = ok(api("GET", f"/interim?limit=1{cursor}"))
        found += [each["table_id"] for each in page["tables"]]
        cursor = f"&cursor={page['next']}"
    assert page["next"] is None
    newest_first = [made.writing, made.named.table_id, made.kept.table_id, made.free.table_id, made.needed.table_id]
    assert sorted(found) == sorted(newest_first)
    assert len(ok(api("GET", f"/interim?dag={DAG}&run=r2"))["tables"]) == 2
    assert [each["table_id"] for each in ok(api("GET", "/interim?state=writing"))["tables"]] == [made.writing]
    InterimTablesShape.model_validate_json(json.dumps(ok(api("GET", "/interim"))))

    for bent in ("abc", "W10", "WyIyMDI2LTExLTIxIiwgMV0", "x" * 401):
        refused(api("GET", f"/interim?cursor={bent}"), 422, "invalid_cursor")

    table = ok(api("GET", f"/interim/{made.needed.table_id}"))
    assert table["producer"] | {"run_id": RUN} == {
        "dag_id": DAG, "run_id": RUN, "task_id": "ingest", "map_index": -1, "output": "return_value", "try_number": 1,
    }  # fmt: skip
    assert (table["rows"], table["readers"], table["outlook"]) == (1_250_000, 1, "stays")
    assert sorted(table["needed_by"]) == [f"{DAG}/{RUN}/clean", f"{DAG}/{RUN}/report"]
    assert "Needed by" in table["because"][0]
    assert table["because"][1] == "A task is reading it."
    assert ok(api("GET", f"/interim/{made.needed.table}"))["table_id"] == made.needed.table_id
    InterimTableShape.model_validate_json(json.dumps(table))

    def standing(table_id: str) -> tuple[str, str]:
        table = ok(api("GET", f"/interim/{table_id}"))
        return table["outlook"], " ".join(table["because"])

    assert standing(made.free.table_id)[0] == "goes"
    stays, why = standing(made.kept.table_id)
    assert (stays, "Preserved until 20" in why) == ("stays", True)
    stays, why = standing(made.named.table_id)
    assert (stays, "The global name 'features' points to it" in why) == ("stays", True)
    stays, why = standing(made.writing)
    assert (stays, "being written by try 1 of flights/r2/slow" in why) == ("stays", True)

    for name in ("0" * 32, "no%00name", "a b", "%F0%9F%8C%8A", ""):
        refused(api("GET", f"/interim/{name}"), 404, "interim_table_not_found")


def test_a_drop_is_audited_and_the_collector_drops_the_table_next(api: AppClient, made: MadeInterim, world: World) -> None:
    gone = ok(api("DELETE", f"/interim/{made.kept.table_id}"))
    assert (gone["state"], gone["outlook"]) == ("dropping", "goes")
    assert made.registry.table(made.kept.table_id).state is TableState.DROPPING
    assert changes(world) == [("vera", "api", "drop_interim", f"interim:{made.kept.table_id}")]
    assert ok(api("DELETE", f"/interim/{made.named.table_id}"))["named"] is False


def test_a_table_that_is_needed_stays(api: AppClient, made: MadeInterim, world: World) -> None:
    problem = refused(api("DELETE", f"/interim/{made.needed.table_id}"), 409, "interim_table_in_use")
    assert sorted(problem["needed_by"]) == [f"{DAG}/{RUN}/clean", f"{DAG}/{RUN}/report"]
    refused(api("DELETE", f"/interim/{made.writing}"), 409, "interim_table_in_use")
    assert changes(world) == []
