"""Lineage: the upstream and downstream tables of a table, and the operations between them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import After, Limit, NamedTable, text_parameter
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Open
from airflow_snowpack.lineage.graph import DEEPEST, DEPTH, Direction, Lineage
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.wire.lineage import OPERATIONS, LineageShape, OperationsShape, full_name

DIRECTIONS = {"up": (Direction.UP,), "down": (Direction.DOWN,), "both": tuple(Direction)}

Towards = Annotated[
    Literal["up", "down", "both"], Query(description="`up`: upstream tables; `down`: downstream tables; or both.")
]
Depth = Annotated[int, Query(ge=0, le=DEEPEST, description="How many steps from the table.")]
NAME = "A table's name with its catalog, `lake.analytics.page_views`, or a dataset's name or url."

router = APIRouter(route_class=Strict, tags=["lineage"])


@router.get(
    "/lineage", **documented("get_lineage", "Get the lineage of a table of any catalog, or of a dataset", LineageShape, 404)
)
def get_lineage(
    services: Open, name: Annotated[str, text_parameter(NAME)], direction: Towards = "both", depth: Depth = DEPTH
) -> JSONResponse:
    """A name without recorded operations is a graph of one table, with `"known": false`."""
    store = services.jobs.store
    known = full_name(store, name, services.inventory.catalog_name)
    return JSONResponse(LineageShape.encode(Lineage(store).graph(known, *DIRECTIONS[direction], depth=depth)))


@router.get(
    "/lineage/{database:name}/{table:name}",
    **documented("get_table_lineage", "Get the lineage of a table", LineageShape),
)
def get_table_lineage(name: NamedTable, services: Open, direction: Towards = "both", depth: Depth = DEPTH) -> JSONResponse:
    """Of a table of this installation's catalog, which may be deleted: operations are kept for their retention period."""
    return JSONResponse(LineageShape.encode(Lineage(services.jobs.store).graph(str(name), *DIRECTIONS[direction], depth=depth)))


@router.get("/operations", **documented("list_operations", "List operations on tables, newest first", OperationsShape, 404))
def list_operations(
    services: Open,
    name: Annotated[str | None, text_parameter(f"Of one: {NAME}")] = None,
    cursor: After = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Creates, inserts, copies, maps and reduces, maintenance, and builds."""
    log = OperationLog(services.jobs.store)
    if name is None:
        page = log.latest(limit=limit, after=cursor)
    else:
        known = full_name(services.jobs.store, name, services.inventory.catalog_name)
        page = log.of_table(known, limit=limit, after=cursor)
    return JSONResponse(OPERATIONS.page(page.items, page.next))
