"""Lineage: which table came from which, and what was done to them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.lineage_bodies import lineage_body, operations_body
from airflow_snowpack.api.lineage_name import full_name
from airflow_snowpack.api.lineage_shapes import LineageShape, OperationsShape
from airflow_snowpack.api.parameters import Limit, NamedTable, text_parameter
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.lineage.graph import DEEPEST, DEPTH, Direction, Lineage
from airflow_snowpack.lineage.operations import OperationLog

WAYS = {"up": (Direction.UP,), "down": (Direction.DOWN,), "both": tuple(Direction)}

Way = Annotated[Literal["up", "down", "both"], Query(description="`up`: what it came from; `down`: what came of it; or both.")]
Depth = Annotated[int, Query(ge=0, le=DEEPEST, description="How many steps from the table.")]
NAME = "A table's name with its catalog, `lake.analytics.page_views`, or a dataset's name or url."

router = APIRouter(route_class=Strict, tags=["lineage"])


@router.get(
    "/lineage", **documented("get_lineage", "Get the lineage of a table of any catalog, or of a dataset", LineageShape, 404)
)
def get_lineage(
    user: Reader, services: Open, name: Annotated[str, text_parameter(NAME)], direction: Way = "both", depth: Depth = DEPTH
) -> JSONResponse:
    """A name of which nothing is recorded is a graph of one table, with `"known": false`."""
    store = services.jobs.store
    known = full_name(store, name, services.inventory.catalog_name)
    return JSONResponse(lineage_body(Lineage(store).around(known, depth, WAYS[direction])))


@router.get(
    "/lineage/{database:name}/{table:name}",
    **documented("get_table_lineage", "Get the lineage of a table", LineageShape),
)
def get_table_lineage(
    name: NamedTable, user: Reader, services: Open, direction: Way = "both", depth: Depth = DEPTH
) -> JSONResponse:
    """A table of this installation's catalog. It need not exist any more: what was recorded stays for its retention."""
    return JSONResponse(lineage_body(Lineage(services.jobs.store).around(str(name), depth, WAYS[direction])))


@router.get("/operations", **documented("list_operations", "List what was done to tables, newest first", OperationsShape, 404))
def list_operations(
    user: Reader,
    services: Open,
    name: Annotated[str | None, text_parameter(f"Of one: {NAME}")] = None,
    after: Annotated[str | None, text_parameter("What the page before gave as `next`.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Creating, inserting, copying, maps and reduces, maintenance, builds."""
    log = OperationLog(services.jobs.store)
    if name is None:
        return JSONResponse(operations_body(log.latest(limit=limit, after=after)))
    known = full_name(services.jobs.store, name, services.inventory.catalog_name)
    return JSONResponse(operations_body(log.of_table(known, limit=limit, after=after)))
