"""The routes of the pages, below ``/ui``."""

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.auth import Reader

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/")
def overview(user: Reader) -> HTMLResponse:
    return HTMLResponse("<!doctype html><title>Snowpack</title>")
