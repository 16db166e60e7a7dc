"""The OpenAPI document."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.openapi import document_of

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, user: Reader) -> JSONResponse:
    return JSONResponse(document_of(request.app, request.scope.get("root_path", "")))
