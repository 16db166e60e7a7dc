"""Builds: datasets, their runs and shards; publishing, going back, and cleaning up."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.build_bodies import (
    cleanup_body,
    dataset_body,
    outcome_body,
    publication_body,
    run_body,
    seen_body,
)
from airflow_snowpack.api.build_parameters import Asking, AskingUnlessDry, DatasetName, Keeping, RunName, checked_run
from airflow_snowpack.api.build_shapes import (
    CleanupShape,
    DatasetRunsShape,
    DatasetsShape,
    OutcomeShape,
    RollbackBody,
    RunSeenShape,
)
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.parameters import Limit, RawBody, parse_body, text_parameter
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.builds.errors import BuildNotFound

MOVES = 20
MOST_SHARDS = 100_000

router = APIRouter(route_class=Strict, tags=["builds"])


@router.get("/builds", **documented("list_datasets", "List datasets by name", DatasetsShape))
def list_datasets(
    user: Reader,
    services: Open,
    after: Annotated[str | None, text_parameter("Only names that come after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = services.builds().registry.datasets(limit=limit, after=after)
    return JSONResponse({"datasets": [dataset_body(each) for each in found.items], "next": found.next})


@router.get("/builds/{dataset:name}", **documented("get_dataset", "Get a dataset and its runs", DatasetRunsShape, 404))
def get_dataset(
    dataset: DatasetName,
    user: Reader,
    services: Open,
    before: Annotated[str | None, text_parameter("Only runs older than this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """The newest data first; and the last moves of the pointer."""
    registry = services.builds().registry
    known = registry.dataset(dataset)
    found = registry.runs(dataset, limit=limit, before=None if before is None else checked_run(dataset, before))
    return JSONResponse(
        {
            **dataset_body(known),
            "publications": [publication_body(each) for each in registry.publications(dataset, limit=MOVES)],
            "runs": [run_body(each, known.current_run) for each in found.items],
            "next": found.next,
        }
    )


@router.get(
    "/builds/{dataset:name}/runs/{run_id:name}",
    **documented("get_run", "Get a run with its shards, their winners and losers", RunSeenShape, 404),
)
def get_run(
    dataset: DatasetName,
    run_id: RunName,
    user: Reader,
    services: Open,
    after: Annotated[int | None, Query(ge=0, le=MOST_SHARDS, description="Only shards after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Attempts are those that are in the storage: losing ones are gone after a cleanup."""
    manager = services.builds()
    known = manager.registry.dataset(dataset)
    first = -1 if after is None else after
    seen = services.ask_storage(dataset, lambda: manager.inspect(dataset, run_id, after=first, limit=limit))
    return JSONResponse(seen_body(seen, known.current_run))


@router.post(
    "/builds/{dataset:name}/runs/{run_id:name}/publish",
    **documented("publish_run", "Publish a run whose winners were selected", OutcomeShape, 404, 409),
)
def publish(dataset: DatasetName, run_id: RunName, actor: Asking, services: Open) -> JSONResponse:
    """An older run than what was published goes into history. Publishing it again changes nothing."""
    manager = services.builds()
    return JSONResponse(outcome_body(services.ask_storage(dataset, lambda: manager.publish(dataset, run_id, actor=actor))))


@router.post(
    "/builds/{dataset:name}/rollback",
    **documented("roll_back", "Go back to an older build", OutcomeShape, 404, 409, body=RollbackBody),
)
def rollback(dataset: DatasetName, actor: Asking, services: Open, sent: RawBody) -> JSONResponse:
    """The pointer moves, and nothing else does. Naming the build that is current already changes nothing."""
    to = parse_body(RollbackBody, sent).to
    if "\x00" in to:
        raise InvalidRequest.at("to", "it holds a NUL character")
    if not to.isascii():
        raise BuildNotFound(dataset, to)
    manager = services.builds()
    return JSONResponse(outcome_body(services.ask_storage(dataset, lambda: manager.rollback(dataset, to, actor=actor))))


CLEANUP = documented("clean_up", "Delete losing attempts, runs that failed, and old runs", CleanupShape, 404, 409)
CLEANUP["responses"][202] = {"description": "It goes on in the background.", "model": CleanupShape}


@router.post("/builds/{dataset:name}/cleanup", **CLEANUP)
def cleanup(dataset: DatasetName, actor: AskingUnlessDry, services: Open, retention: Keeping) -> JSONResponse:
    """What takes long goes on in the background, and is answered with status 202 and `"done": false`."""
    manager = services.builds()
    manager.registry.dataset(dataset)
    if actor is None:
        planned = services.ask_storage(dataset, lambda: manager.cleanup(dataset, retention, actor=None))
        return JSONResponse(cleanup_body(dataset, planned, dry_run=True))
    done = services.begin_at_storage(lambda: manager.cleanup(dataset, retention, actor=actor))
    if done is None:
        return JSONResponse({**cleanup_body(dataset, [], dry_run=False), "done": False}, 202)
    return JSONResponse(cleanup_body(dataset, done.result(), dry_run=False))
