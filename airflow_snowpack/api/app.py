"""Puts the app together.

    app = build_app(open_services, TokenAuth("…"))

From outside to inside: the edge (headers, faults, counts), the deadline, encoded slashes, the routes. Mounted or alone, it is the
same app; links in answers begin with the root path under which it stands.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI

from airflow_snowpack import __version__
from airflow_snowpack.api import problems
from airflow_snowpack.api.auth import Auth
from airflow_snowpack.api.deadline import LIMIT, Deadline
from airflow_snowpack.api.edge import Edge
from airflow_snowpack.api.measures import Measures
from airflow_snowpack.api.pages.router import router as pages
from airflow_snowpack.api.paths import EncodedSlashes
from airflow_snowpack.api.routes import ROUTERS
from airflow_snowpack.api.services import LazyServices, Services

log = logging.getLogger(__name__)


def build_app(open_services: Callable[[], Services], auth: Auth, answer_within: timedelta = LIMIT) -> FastAPI:
    """Build the API and its pages.

    :param open_services: opens the store (with ``Patience``) and the catalog; called when they are first needed.
    :param auth: authenticates each request.
    :param answer_within: a request that takes longer is answered with 503.
    """
    app = FastAPI(
        title="Snowpack",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.auth = auth
    app.state.services = LazyServices(open_services)
    app.state.measures = Measures()
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(pages)
    app.add_middleware(EncodedSlashes)  # the last that is added is the outermost
    app.add_middleware(Deadline, limit=answer_within)
    app.add_middleware(Edge, count=app.state.measures.count)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Only an app that is served alone gets here. It opens its services ahead of the first request, and does not wait for them:
    # without a store it starts as well, and says so at /readyz.
    threading.Thread(target=_open_ahead, args=(app.state.services,), name="snowpack-open", daemon=True).start()
    yield
    app.state.services.close()


def _open_ahead(services: LazyServices) -> None:
    try:
        services.get()
    except Exception:  # whoever asks gets the reason as well, and the next one tries again
        log.warning("The store could not be opened ahead of the first request.", exc_info=True)
