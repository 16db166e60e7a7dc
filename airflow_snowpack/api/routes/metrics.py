"""The numbers for Prometheus."""

from fastapi import APIRouter, Request, Response

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.measures import Measures
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict

router = APIRouter(route_class=Strict, tags=["probes"])

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics", **documented("metrics", "Numbers for Prometheus", None))
def metrics(request: Request, user: Reader, services: Open) -> Response:
    """In Prometheus's text format. The store is read anew for each scrape."""
    measures: Measures = request.app.state.measures
    return Response(measures.text(services), media_type=TEXT)


router.routes[-1].responses[200]["content"] = {"text/plain": {"schema": {"type": "string"}}}  # type: ignore[attr-defined]  # it is an APIRoute
