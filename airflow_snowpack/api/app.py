"""Puts the app together.

app = build_app(open_services, TokenAuth("…"))
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from airflow_snowpack.api import problems
from airflow_snowpack.api.auth import Auth
from airflow_snowpack.api.pages.router import router as pages
from airflow_snowpack.api.routes import ROUTERS
from airflow_snowpack.api.services import LazyServices, Services


def build_app(open_services: Callable[[], Services], auth: Auth) -> FastAPI:
    """The API and its pages.

    :param open_services: opens the store and the catalog; called when they are first needed.
    :param auth: tells who asks.
    """
    app = FastAPI(title="Snowpack", openapi_url=None, docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.auth = auth
    app.state.services = LazyServices(open_services)
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(pages)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.services.close()
