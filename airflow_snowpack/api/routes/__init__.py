"""The routes of the REST API, one file for each kind of resource."""

from fastapi import APIRouter

from airflow_snowpack.api.routes import (
    builds,
    digest,
    images,
    interim,
    jobs,
    lineage,
    queue,
    removals,
    schedules,
    service,
    tables,
)

ROUTERS: tuple[APIRouter, ...] = (
    jobs.router,
    tables.router,
    digest.router,
    removals.router,
    queue.router,
    schedules.router,
    schedules.events,
    schedules.runs,
    builds.router,
    lineage.router,
    interim.router,
    images.router,
    service.probes,
    service.router,
)
