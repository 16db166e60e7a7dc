"""The routes of the REST API, one file for each kind of resource."""

from fastapi import APIRouter

from airflow_snowpack.api.routes import (
    audit,
    batch,
    builds,
    document,
    drain,
    events,
    interim,
    jobs,
    lineage,
    locks,
    maintenance,
    metrics,
    pending,
    probes,
    queue,
    runs,
    schedules,
    tables,
)

# In this order they are looked through: a batch before the jobs, whose paths would take it for an id.
ROUTERS: tuple[APIRouter, ...] = (
    batch.router,
    maintenance.router,
    jobs.router,
    tables.router,
    locks.router,
    queue.router,
    drain.router,
    audit.router,
    schedules.router,
    runs.router,
    pending.router,
    events.router,
    builds.router,
    lineage.router,
    interim.router,
    probes.router,
    metrics.router,
    document.router,
)
