"""Tables: the list of the catalog, and the health, the plan and the metadata of one."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import NEXT_PAGE, After, Limit, NamedTable, text_parameter
from airflow_snowpack.api.problems import CatalogTooSlow
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Acting, Open, Services
from airflow_snowpack.iceberg import CatalogUnreachable, TableHealth, TableName, TableUnreadable, load_table
from airflow_snowpack.iceberg.description import TableDescription, describe_table
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.inventory import Condition
from airflow_snowpack.jobs import explain_tables
from airflow_snowpack.maintenance import table_list
from airflow_snowpack.maintenance.table_list import Order, Show
from airflow_snowpack.wire.plan import PlanShape
from airflow_snowpack.wire.shape import seconds_since
from airflow_snowpack.wire.table import TABLES, InventoryCountShape, InventoryShape, TableHealthShape, TablesShape
from airflow_snowpack.wire.table_metadata import TableMetadataShape, snapshots_after

router = APIRouter(route_class=Strict, tags=["tables"])


@router.get("/tables", **documented("list_tables", "List tables", TablesShape))
def list_tables(
    services: Open,
    database: Annotated[str | None, text_parameter("Of this database.")] = None,
    search: Annotated[str | None, text_parameter("Part of `database.table_name`.")] = None,
    show: Annotated[
        Show | None,
        Query(description="Only tables whose last job failed, that were never maintained, or whose job waits or runs."),
    ] = None,
    order: Annotated[Order, Query(description="By name, or those that need maintenance most first.")] = Order.NAME,
    cursor: After = None,
    limit: Limit = 100,
) -> JSONResponse:
    """From the last listing of the catalog, with its age, and from stored health. A page with `show` may have fewer tables than
    `limit` although `next` is not null."""
    inventory, jobs = services.inventory, services.jobs
    found = table_list.list_tables(
        jobs, inventory, database=database, search=search, show=show, order=order, after=cursor, limit=limit
    )
    state = inventory.state()
    age = InventoryShape.encode(state, age_seconds=seconds_since(state.refreshed_at, jobs.store.clock()))
    return JSONResponse(TABLES.page(found.items, found.next, **age))


@router.post("/tables/refresh", **documented("refresh_tables", "List the catalog again", InventoryCountShape))
def refresh(actor: Acting, services: Open) -> JSONResponse:
    """When the catalog takes too long, the request is answered with 503 and the listing continues."""
    state = services.ask_catalog(services.inventory.refresh)
    return JSONResponse(
        InventoryCountShape.encode(state, age_seconds=seconds_since(state.refreshed_at, services.jobs.store.clock()))
    )


@router.get(
    "/tables/{database:name}/{table:name}", **documented("get_table", "Get a table and its health", TableHealthShape, 404)
)
def get(name: NamedTable, services: Open) -> JSONResponse:
    """The health of the table's current metadata. When that cannot be read, `problem` has the reason."""
    if not services.inventory.has(name):
        services.ask_catalog(lambda: services.inventory.require(name))
    health, problem = _health(services, name)
    condition = Condition.of(score(health).total if health else None, problem)
    explained = explain_tables(services.jobs, [name], {name: condition.first_step})[name]
    return JSONResponse(TableHealthShape.encode(explained, health=health, problem=problem))


@router.get(
    "/tables/{database:name}/{table:name}/plan", **documented("get_table_plan", "Get the plan of a table", PlanShape, 404)
)
def get_plan(name: NamedTable, services: Open) -> JSONResponse:
    """Returns which actions the table needs now and why, what those take, and why the others are skipped. DAGs that write to the
    table, for which a task or a pass may wait, are left out. The metadata is read only if the table has changed since its health
    was stored."""
    inventory, planner = services.inventory, services.planner()
    services.ask_catalog(lambda: inventory.require(name))
    plan = services.ask_catalog(lambda: planner.plan(load_table(inventory.catalog(), name), name))
    return JSONResponse(PlanShape.encode(plan))


SnapshotCursor = Annotated[int | None, Query(description=NEXT_PAGE, ge=-(2**63), le=2**63 - 1)]


@router.get(
    "/tables/{database:name}/{table:name}/metadata",
    **documented("get_table_metadata", "Get the metadata of a table and its snapshots", TableMetadataShape, 404),
)
def get_metadata(name: NamedTable, services: Open, cursor: SnapshotCursor = None, limit: Limit = 100) -> JSONResponse:
    """Columns, partition spec, branches, tags, and a page of the snapshots with what each added and removed. When the metadata
    cannot be read, `problem` has the reason, and the rest is from stored health."""
    found, problem = read_description(services, name)
    snapshots, following = snapshots_after(found, cursor, limit)
    return JSONResponse(TableMetadataShape.encode(found, snapshots=snapshots, next=following, problem=problem))


def read_description(services: Services, name: TableName) -> tuple[TableDescription, str | None]:
    """Return the description of a table, and why it is that of its stored health."""
    inventory, records = services.inventory, services.installation.health_records
    try:
        return services.ask_catalog(lambda: describe_table(load_table(inventory.catalog(), name))), None
    except (CatalogUnreachable, CatalogTooSlow, TableUnreadable) as problem:
        return records.described(name, problem), str(problem)


def _health(services: Services, name: TableName) -> tuple[TableHealth | None, str | None]:
    inventory, installation = services.inventory, services.installation
    try:
        return services.ask_catalog(lambda: installation.read_health(name, load_table(inventory.catalog(), name))), None
    except (CatalogUnreachable, CatalogTooSlow, TableUnreadable) as problem:
        return None, str(problem)
