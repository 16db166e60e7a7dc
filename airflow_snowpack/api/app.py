"""The app: mounted in Airflow's API server, or served alone.

    serve(build_app(open_services, TokenAuth(token)), "127.0.0.1", 8085)

From outside to inside: headers and problems, the deadline, encoded slashes, the routes. Links in answers begin with the root path
of the app.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from fastapi import FastAPI

from airflow_snowpack import __version__
from airflow_snowpack.api import problems
from airflow_snowpack.api.auth import Auth
from airflow_snowpack.api.metrics import Metrics
from airflow_snowpack.api.middleware import DEADLINE_SHARE, EncodedSlashes, OuterLayer, RequestDeadline
from airflow_snowpack.api.pages.page import refuse
from airflow_snowpack.api.pages.router import router as pages
from airflow_snowpack.api.routes import ROUTERS
from airflow_snowpack.api.services import LazyServices, Services
from airflow_snowpack.store.deadlines import REQUEST_TIMEOUT

log = logging.getLogger(__name__)

START_PATIENCE = timedelta(seconds=15)
SHUTDOWN_GRACE = timedelta(seconds=10)


def build_app(open_services: Callable[[], Services], auth: Auth, timeout: timedelta = REQUEST_TIMEOUT) -> FastAPI:
    """Build the API and its pages.

    :param open_services: opens the store (with ``Deadlines``) and the catalog; called when they are first needed.
    :param auth: authenticates each request.
    :param timeout: how long a request may take; a little earlier it is answered with 503.
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
    app.state.metrics = Metrics()
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(pages)
    app.add_middleware(EncodedSlashes)  # the last that is added is the outermost
    app.add_middleware(RequestDeadline, limit=timeout * DEADLINE_SHARE, refuse=refuse)
    app.add_middleware(OuterLayer, count=app.state.metrics.count, refuse=refuse)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    # Only an app that is served alone gets here; a mounted one is opened by what mounts it.
    await open_ahead(app.state.services)
    yield
    app.state.services.close()


async def open_ahead(services: LazyServices, patience: timedelta = START_PATIENCE) -> None:
    """Open the services before the first request, which would wait for imports and connections longer than a request may wait.

    A server starts without a store and without a catalog as well, and reports that at ``/readyz``.

    :param patience: how long the start waits; what takes longer goes on beside the first requests.
    """
    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def work() -> None:
        try:
            services.warm_up()
        except Exception:  # the next request tries again, and gets the reason
            log.warning("The store or the catalog could not be opened ahead of the first request.", exc_info=True)
        with suppress(RuntimeError):  # the server has ended meanwhile, and its loop with it
            loop.call_soon_threadsafe(ended.set)

    # Not a thread of a pool: the process does not wait at its end for a store that hangs.
    threading.Thread(target=work, name="snowpack-open", daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), patience.total_seconds())


def serve(
    app: FastAPI, host: str = "127.0.0.1", port: int = 8085, *, root_path: str = "", grace: timedelta = SHUTDOWN_GRACE
) -> None:
    """Serve under uvicorn until SIGTERM or SIGINT; running requests are answered first.

    :param root_path: the prefix that a proxy removes from paths; links in answers begin with it.
    :param grace: how long running requests may take at the end.
    :raises SystemExit: the port cannot be used.
    """
    import uvicorn

    uvicorn.run(
        app,
        host=host,
        port=port,
        root_path=root_path,
        access_log=False,  # /metrics counts requests
        log_level="info",
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=int(grace.total_seconds()),
    )
