"""Interim tables: which there are, why each is still there, and letting go of one that is preserved."""

import re
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.interim_bodies import interim_body
from airflow_snowpack.api.interim_shapes import TABLE_ID, InterimTableShape, InterimTablesShape
from airflow_snowpack.api.parameters import Limit, text_parameter
from airflow_snowpack.api.schedule_parameters import Asking
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.interim.errors import InterimTableNotFound
from airflow_snowpack.interim.model import TableState

ID = re.compile(r"[A-Za-z0-9_.-]{1,400}")

router = APIRouter(route_class=Strict, tags=["interim"])


async def _asked(
    table_id: Annotated[
        str, Path(description="The table's id, or its whole name with the catalog.", json_schema_extra={"example": TABLE_ID})
    ],
) -> str:
    if not ID.fullmatch(table_id):
        raise InterimTableNotFound(table_id[:80])
    return table_id


TableId = Annotated[str, Depends(_asked)]


@router.get("/interim", **documented("list_interim", "List interim tables, the newest first", InterimTablesShape))
def list_interim(
    user: Reader,
    services: Open,
    dag: Annotated[str | None, text_parameter("Made by runs of this DAG.")] = None,
    run: Annotated[str | None, text_parameter("Made by DAG runs of this id.")] = None,
    state: Annotated[TableState | None, Query(description="In this state.")] = None,
    cursor: Annotated[str | None, text_parameter("Where the page before ended; from its `next`.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Each with who needs it still, and what the collector makes of it. A table that was dropped is in no list."""
    registry, now = services.interim(), services.jobs.store.clock()
    page = registry.page(dag_id=dag, run_id=run, state=state, limit=limit, after=cursor)
    return JSONResponse({"tables": [interim_body(table, now) for table in page.items], "next": page.next})


@router.get("/interim/{table_id:name}", **documented("get_interim", "Get an interim table", InterimTableShape, 404))
def get_interim(table_id: TableId, user: Reader, services: Open) -> JSONResponse:
    """Who made it, who needs it, and why it stays."""
    return JSONResponse(interim_body(services.interim().table(table_id), services.jobs.store.clock()))


@router.delete(
    "/interim/{table_id:name}",
    **documented("drop_interim", "Let go of a table that is preserved or named", InterimTableShape, 404, 409),
)
def drop_interim(table_id: TableId, actor: Asking, services: Open) -> JSONResponse:
    """The collector drops it at its next pass. One that somebody needs stays (409 `interim_table_in_use`)."""
    return JSONResponse(interim_body(services.interim().drop(table_id, actor=actor), services.jobs.store.clock()))
