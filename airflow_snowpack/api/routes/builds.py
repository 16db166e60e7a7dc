"""Builds: datasets, their runs and shards; publish, roll back and clean up."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import reader_of
from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import (
    After,
    Limit,
    RawBody,
    checked_name,
    cursor_formerly,
    name_parameter,
    parse_body,
    text_parameter,
)
from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Acting, Open, actor_of
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound
from airflow_snowpack.builds.model import FileCheck, Retention
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.store import Actor
from airflow_snowpack.wire.build import (
    DATASETS,
    CleanupShape,
    DatasetRunsShape,
    DatasetsShape,
    PublishOutcomeShape,
    RollbackBody,
    RunSeenShape,
    cleanup_body,
    run_body,
    seen_body,
)

MAX_RUNS = 1_000_000
MAX_SHARDS = 100_000
PUBLICATIONS_SHOWN = 20

router = APIRouter(route_class=Strict, tags=["builds"])

DatasetName = Annotated[str, checked_name("dataset", layout.DATASET, layout.MAX_NAME, "flights_by_tail", DatasetNotFound)]


async def _run(
    dataset: DatasetName, run_id: Annotated[str, name_parameter(layout.RUN, layout.MAX_NAME, "20260425T000000Z")]
) -> str:
    return checked_run(dataset, run_id)


async def _actor_unless_dry(
    request: Request,
    dry_run: Annotated[bool, Query(description="Only report what would be deleted; needs the permission to read.")] = False,
) -> Actor | None:
    if not dry_run:
        return await actor_of(request)
    await reader_of(request)
    return None


async def _retention(
    keep_runs: Annotated[int, Query(ge=1, le=MAX_RUNS, description="How many published runs to keep, the newest ones.")] = 7,
    stale_attempt_age: Annotated[
        str, text_parameter("The age from which a run without a lease counts as dead, such as `1d` or `PT12H`.")
    ] = "1d",
) -> Retention:
    try:
        return Retention(keep_runs, parse_duration(stale_attempt_age))
    except ValueError as error:
        raise InvalidRequest.at("query.stale_attempt_age", f"it {error}") from None


RunName = Annotated[str, Depends(_run)]
ActingUnlessDry = Annotated[Actor | None, Depends(_actor_unless_dry)]
Keeping = Annotated[Retention, Depends(_retention)]


def checked_run(dataset: str, run_id: str) -> str:
    """:raises BuildNotFound: no run can have this id."""
    if len(run_id) > layout.MAX_NAME or not layout.RUN.fullmatch(run_id):
        raise BuildNotFound(dataset, run_id)
    return run_id


@router.get("/builds", **documented("list_datasets", "List datasets by name", DatasetsShape))
def list_datasets(
    services: Open,
    cursor: After = None,
    limit: Limit = 100,
) -> JSONResponse:
    page = services.builds().registry.datasets(limit=limit, after=cursor)
    return JSONResponse(DATASETS.page(page.items, page.next))


@router.get("/builds/{dataset:name}", **documented("get_dataset", "Get a dataset and its runs", DatasetRunsShape, 404))
def get_dataset(
    dataset: DatasetName,
    services: Open,
    cursor: Annotated[str | None, cursor_formerly("before")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With the newest data first, and the last publications."""
    registry = services.builds().registry
    known = registry.dataset(dataset)
    page = registry.runs(dataset, limit=limit, before=None if cursor is None else checked_run(dataset, cursor))
    runs = [run_body(run, known.current_run) for run in page.items]
    publications = registry.publications(dataset, limit=PUBLICATIONS_SHOWN)
    return JSONResponse(DatasetRunsShape.encode(known, publications=publications, runs=runs, next=page.next))


@router.get(
    "/builds/{dataset:name}/runs/{run_id:name}",
    **documented("get_run", "Get a run with its shards and their attempts", RunSeenShape, 404),
)
def get_run(
    dataset: DatasetName,
    run_id: RunName,
    services: Open,
    cursor: Annotated[int | None, cursor_formerly("after", int, {"ge": 0, "le": MAX_SHARDS})] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Lists the attempts that are in the storage. Cleanup deletes losing attempts."""
    manager = services.builds()
    known = manager.registry.dataset(dataset)
    first = -1 if cursor is None else cursor
    found = services.ask_storage(dataset, lambda: manager.inspect(dataset, run_id, after=first, limit=limit))
    return JSONResponse(seen_body(found, known.current_run))


@router.post(
    "/builds/{dataset:name}/runs/{run_id:name}/publish",
    **documented("publish_run", "Publish a run", PublishOutcomeShape, 404, 409),
)
def publish(
    dataset: DatasetName,
    run_id: RunName,
    actor: Acting,
    services: Open,
    verify: Annotated[FileCheck, Query(description="`checksums` reads each shard's file first.")] = FileCheck.SIZES,
) -> JSONResponse:
    """A run with older data than the current build is published into history. A repetition changes nothing."""
    manager = services.builds()
    outcome = services.ask_storage(dataset, lambda: manager.publish(dataset, run_id, actor=actor, verify=verify))
    return JSONResponse(PublishOutcomeShape.encode(outcome))


@router.post(
    "/builds/{dataset:name}/rollback",
    **documented("roll_back", "Roll back to an older build", PublishOutcomeShape, 404, 409, body=RollbackBody),
)
def rollback(dataset: DatasetName, actor: Acting, services: Open, sent: RawBody) -> JSONResponse:
    """Only the pointer to the current build changes. To roll back to the current build changes nothing."""
    to = parse_body(RollbackBody, sent).to
    if "\x00" in to:
        raise InvalidRequest.at("to", "it has a NUL character")
    if not to.isascii():
        raise BuildNotFound(dataset, to)
    manager = services.builds()
    outcome = services.ask_storage(dataset, lambda: manager.rollback(dataset, to, actor=actor))
    return JSONResponse(PublishOutcomeShape.encode(outcome))


CLEANUP = documented("clean_up", "Delete losing attempts, failed runs and old runs", CleanupShape, 404, 409)
CLEANUP["responses"][202] = {"description": "It continues in the background.", "model": CleanupShape}


@router.post("/builds/{dataset:name}/cleanup", **CLEANUP)
def cleanup(dataset: DatasetName, actor: ActingUnlessDry, services: Open, retention: Keeping) -> JSONResponse:
    """A cleanup that takes too long continues in the background; the answer is 202 with `"done": false`."""
    manager = services.builds()
    manager.registry.dataset(dataset)
    if actor is None:
        planned = services.ask_storage(dataset, lambda: manager.cleanup(dataset, retention, actor=None))
        return JSONResponse(cleanup_body(dataset, planned, dry_run=True))
    done = services.begin_at_storage(lambda: manager.cleanup(dataset, retention, actor=actor))
    if done is None:
        return JSONResponse(cleanup_body(dataset, [], dry_run=False, done=False), 202)
    return JSONResponse(cleanup_body(dataset, done.result(), dry_run=False))
