"""The routes of the REST API, one file for each kind of resource."""

from fastapi import APIRouter

from airflow_snowpack.api.routes import jobs

ROUTERS: tuple[APIRouter, ...] = (jobs.router,)
