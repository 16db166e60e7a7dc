"""Operations: the queue, workers, the sweep, locks, drain mode and the audit trail."""

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import Before, Limit, NamedTable, RawBody, parse_body, text_parameter
from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.jobs import list_workers
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.operations import (
    AUDIT,
    AuditPageShape,
    DrainBody,
    DrainShape,
    LockShape,
    QueueShape,
    ReleaseShape,
    SampleShape,
    SweepShape,
    WorkerShape,
)
from airflow_snowpack.wire.shape import seconds_since

router = APIRouter(route_class=Strict)


@router.get("/queue", tags=["queue"], **documented("get_queue", "Get the state of the queue", QueueShape))
def queue(services: Open) -> JSONResponse:
    """The depth counts the jobs that a worker could claim now: not claimed, not in a back-off, and not held by drain mode."""
    state = services.jobs.queue()
    return JSONResponse(QueueShape.encode(state, oldest_seconds=seconds_since(state.oldest, services.jobs.store.clock())))


@router.get("/queue/history", tags=["queue"], **documented("get_queue_history", "Get the queue over time", list[SampleShape]))
def history(services: Open, hours: Annotated[int, Query(ge=1, le=168, description="How far back.")] = 24) -> JSONResponse:
    """96 samples, evenly spaced, until now; fewer if more than 100,000 jobs were submitted since a day before the period."""
    return JSONResponse([SampleShape.encode(each) for each in services.jobs.queue_over_time(timedelta(hours=hours))])


@router.get("/workers", tags=["queue"], **documented("list_workers", "List workers and what they run", list[WorkerShape]))
def workers(services: Open) -> JSONResponse:
    """Those that work, then idle ones, then those that were not seen for 5 minutes; at most the 100 that were seen last."""
    return JSONResponse([WorkerShape.encode(worker) for worker in list_workers(services.jobs.store)])


@router.post("/sweep", tags=["queue"], **documented("sweep", "Requeue lost jobs", SweepShape))
def sweep(actor: Acting, services: Open) -> JSONResponse:
    """Requeues jobs whose lease has expired, fails those without an attempt left, and releases locks without a holder.

    The API does not query Airflow: what ended tasks have left is ended by the DAG `snowpack_sweep` or `airflow snowpack sweep`.
    """
    return JSONResponse(SweepShape.encode(services.jobs.sweep(actor=actor)))


@router.get("/locks", tags=["locks"], **documented("list_locks", "List locks, oldest first", list[LockShape]))
def list_locks(services: Open) -> JSONResponse:
    return JSONResponse([LockShape.encode(lock) for lock in services.jobs.locks.list()])


@router.delete(
    "/locks/{database:name}/{table:name}", tags=["locks"], **documented("release_lock", "Release a lock", ReleaseShape, 409)
)
def release(
    name: NamedTable,
    actor: Acting,
    services: Open,
    holder: Annotated[str, Query(min_length=1, max_length=500, pattern="^[^\\x00]*$", description="The holder of the lock.")],
    catalog_id: Annotated[
        str | None,
        Query(max_length=64, pattern="^[0-9a-f]*$", description="Of another catalog than the API's, as `GET /locks` shows it."),
    ] = None,
    force: Annotated[bool, Query(description="Even if the worker of a cancelled job may still be at work.")] = False,
) -> JSONResponse:
    """Releases the lock only if the named holder has it. An active job keeps its lock: cancel the job instead."""
    table = name if catalog_id is None else replace(name, catalog_id=catalog_id)
    lock = services.jobs.break_lock(table, holder, actor=actor, force=force)
    return JSONResponse(ReleaseShape.encode(None, released=lock is not None, lock=lock))


@router.get("/drain", tags=["drain"], **documented("get_drain", "Get drain mode", DrainShape))
def get_drain(services: Open) -> JSONResponse:
    return JSONResponse(DrainShape.encode(services.jobs.drain()))


@router.put("/drain", tags=["drain"], **documented("set_drain", "Switch drain mode", DrainShape, body=DrainBody))
def put_drain(actor: Acting, services: Open, sent: RawBody) -> JSONResponse:
    """On: submissions are refused and the sweep pauses. Running jobs finish, and workers still claim pending ones."""
    body = parse_body(DrainBody, sent)
    if body.reason is not None and "\x00" in body.reason:
        raise InvalidRequest.at("reason", "it has a NUL character")
    return JSONResponse(DrainShape.encode(services.jobs.set_drain(body.on, reason=body.reason, actor=actor)))


@router.get("/audit", tags=["audit"], **documented("list_audit", "List changes, newest first", AuditPageShape))
def audit(
    services: Open,
    cursor: Before = None,
    limit: Limit = 100,
    subject: Annotated[
        str | None, text_parameter("Of one job (its id), table (with its catalog), `drain`, `queue` or `schedule:<name>`.")
    ] = None,
) -> JSONResponse:
    """Every change through the API, the pages or the command line."""
    found = AuditTrail(services.jobs.store).latest(limit + 1, cursor, subject)
    return JSONResponse(AUDIT.page(*cut(found, limit, lambda entry: entry.id)))
