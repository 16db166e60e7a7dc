"""Locks on tables: who has which, and how one whose holder is gone is released."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.bodies import lock_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.parameters import NamedTable
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.api.shapes import LockShape, ReleaseShape
from airflow_snowpack.api.strict import Strict

router = APIRouter(route_class=Strict, tags=["locks"])


@router.get("/locks", **documented("list_locks", "List the locks, oldest first", list[LockShape]))
def list_locks(user: Reader, services: Open) -> JSONResponse:
    return JSONResponse([lock_body(lock) for lock in services.jobs.locks.list()])


@router.delete("/locks/{database:name}/{table:name}", **documented("release_lock", "Release a lock", ReleaseShape, 409))
def release(
    name: NamedTable,
    actor: Acting,
    services: Open,
    holder: Annotated[str, Query(min_length=1, max_length=500, pattern="^[^\\x00]*$", description="Who has it.")],
    catalog_id: Annotated[
        str | None,
        Query(max_length=64, pattern="^[0-9a-f]*$", description="Of another catalog than the API's, as lists show it."),
    ] = None,
    force: Annotated[bool, Query(description="Also while a cancelled job's worker may still be at work.")] = False,
) -> JSONResponse:
    """Only the named holder's lock goes, so that nobody else's does by mistake. An active job keeps its lock: cancel the job."""
    table = name if catalog_id is None else replace(name, catalog_id=catalog_id)
    lock = services.jobs.break_lock(table, holder, actor=actor, force=force)
    return JSONResponse({"released": lock is not None, "lock": None if lock is None else lock_body(lock)})
