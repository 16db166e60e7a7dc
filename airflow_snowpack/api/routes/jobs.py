"""Jobs: list, get, cancel, delete."""

from typing import Any

from fastapi import APIRouter

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.services import Open

router = APIRouter()


@router.get("/jobs/{job_id}")
def get(job_id: str, user: Reader, services: Open) -> dict[str, Any]:
    return {"job_id": services.jobs.get(job_id).job_id}
