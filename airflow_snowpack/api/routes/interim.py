"""Interim tables: list, inspect and drop."""

import re
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import Limit, NextPage, checked_name, text_parameter
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.interim.errors import InterimTableNotFound
from airflow_snowpack.interim.model import TableState
from airflow_snowpack.wire.interim import TABLE_ID, InterimTableShape, InterimTablesShape, interim_body, interim_tables

ID = re.compile(r"[A-Za-z0-9_.-]+")
LONGEST = 400

router = APIRouter(route_class=Strict, tags=["interim"])


ABOUT = "The table's id, or its full name with the catalog."
TableId = Annotated[str, checked_name("table_id", ID, LONGEST, TABLE_ID, lambda given: InterimTableNotFound(given[:80]), ABOUT)]


@router.get("/interim", **documented("list_interim", "List interim tables, newest first", InterimTablesShape))
def list_interim(
    services: Open,
    dag: Annotated[str | None, text_parameter("Written by runs of this DAG.")] = None,
    run: Annotated[str | None, text_parameter("Written by DAG runs with this id.")] = None,
    state: Annotated[TableState | None, Query(description="In this state.")] = None,
    cursor: NextPage = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With the consumers of each and what the collector does with it next. Dropped tables are not listed."""
    page = services.installation.interim.page(dag_id=dag, run_id=run, state=state, limit=limit, after=cursor)
    return JSONResponse(interim_tables(services.jobs.store.clock()).page(page.items, page.next))


@router.get("/interim/{table_id:name}", **documented("get_interim", "Get an interim table", InterimTableShape, 404))
def get_interim(table_id: TableId, services: Open) -> JSONResponse:
    """With its producer, its consumers, and why it is kept."""
    return JSONResponse(interim_body(services.installation.interim.table(table_id), services.jobs.store.clock()))


@router.delete(
    "/interim/{table_id:name}",
    **documented("drop_interim", "Drop a table that is preserved or named", InterimTableShape, 404, 409),
)
def drop_interim(table_id: TableId, actor: Acting, services: Open) -> JSONResponse:
    """The collector drops it in its next pass. A table that a task needs is kept (409 `interim_table_in_use`)."""
    return JSONResponse(interim_body(services.installation.interim.drop(table_id, actor=actor), services.jobs.store.clock()))
