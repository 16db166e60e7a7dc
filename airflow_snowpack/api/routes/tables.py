"""The tables: what the catalog had when it was last listed, and how one of them is now."""

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Editor, Reader
from airflow_snowpack.api.bodies import health_body, inventory_body, table_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.errors import CatalogTooSlow
from airflow_snowpack.api.parameters import Limit, NamedTable, text_parameter
from airflow_snowpack.api.services import Open, Services
from airflow_snowpack.api.shapes import InventoryCountShape, TableHealthShape, TablesShape
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.iceberg import CatalogUnreachable, TableName, TableUnreadable, load_table, read_health
from airflow_snowpack.jobs import explain_tables

router = APIRouter(route_class=Strict, tags=["tables"])


@router.get("/tables", **documented("list_tables", "List tables by name", TablesShape))
def list_tables(
    user: Reader,
    services: Open,
    database: Annotated[str | None, text_parameter("Of this database.")] = None,
    search: Annotated[str | None, text_parameter("Part of `database.table_name`.")] = None,
    after: Annotated[str | None, text_parameter("Only those after this `database.table_name`: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """From the last listing of the catalog; how old that is stands beside the tables."""
    inventory, jobs = services.inventory, services.jobs
    found = inventory.tables(database=database, search=search, after=after, limit=limit + 1)
    shown, state = found[:limit], inventory.state()
    explained = explain_tables(jobs, shown)
    body = {
        "tables": [table_body(explained[table]) for table in shown],
        **inventory_body(state, jobs.store.clock()),
        "next": shown[-1].dotted if len(found) > limit else None,
    }
    return JSONResponse(body)


@router.post("/tables/refresh", **documented("refresh_tables", "List the catalog now", InventoryCountShape))
def refresh(user: Editor, services: Open) -> JSONResponse:
    """A catalog that takes long goes on being listed after the answer that says so."""
    state = services.ask_catalog(services.inventory.refresh)
    return JSONResponse({"tables": state.tables, **inventory_body(state, services.jobs.store.clock())})


@router.get(
    "/tables/{database:name}/{table:name}", **documented("get_table", "Get a table and its health", TableHealthShape, 404)
)
def get(name: NamedTable, user: Reader, services: Open) -> JSONResponse:
    """The numbers are read from the table's metadata now; without the catalog there are none, and `problem` says why."""
    if not services.inventory.has(name):
        services.ask_catalog(lambda: services.inventory.require(name))
    health, problem = _health(services, name)
    explained = explain_tables(services.jobs, [name])[name]
    return JSONResponse({**table_body(explained), "health": health, "problem": problem})


def _health(services: Services, name: TableName) -> tuple[dict[str, Any] | None, str | None]:
    inventory, now = services.inventory, services.jobs.store.clock()
    try:
        health = services.ask_catalog(lambda: read_health(load_table(inventory.catalog(), name), now=now))
    except (CatalogUnreachable, CatalogTooSlow, TableUnreadable) as problem:
        return None, str(problem)
    return health_body(health), None
