"""Drain mode: whether submissions are refused."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.bodies import drain_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.parameters import RawBody, parse_body
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.api.shapes import DrainBody, DrainShape
from airflow_snowpack.api.strict import Strict

router = APIRouter(route_class=Strict, tags=["drain"])


@router.get("/drain", **documented("get_drain", "Ask drain mode", DrainShape))
def get(user: Reader, services: Open) -> JSONResponse:
    return JSONResponse(drain_body(services.jobs.drain()))


@router.put("/drain", **documented("set_drain", "Switch drain mode", DrainShape, body=DrainBody))
def put(actor: Acting, services: Open, sent: RawBody) -> JSONResponse:
    """On: submissions are refused and the sweep pauses; what runs ends, what waits goes on waiting for a worker."""
    body = parse_body(DrainBody, sent)
    if body.reason is not None and "\x00" in body.reason:
        raise InvalidRequest.at("reason", "it holds a NUL character")
    return JSONResponse(drain_body(services.jobs.set_drain(body.on, reason=body.reason, actor=actor)))
