"""The app as Airflow mounts it: built and connected before Airflow's API server accepts its first request.

Airflow runs the lifespan of a mounted FastAPI app in each process that serves requests, and in no other. Invariant: the app is
built once per process; a failed build leaves nothing behind, and the next request tries again.

    fastapi_apps = [{"app": MountedApp(), "url_prefix": "/snowpack", "name": "Snowpack"}]
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)


def build_mounted() -> FastAPI:
    """Build the app with Airflow's users and connections."""
    from airflow_snowpack.api import build_app
    from airflow_snowpack.hooks.services import DagStatesInTime, open_services, request_timeout
    from airflow_snowpack.plugin.airflow_auth import AirflowAuth

    timeout = request_timeout()
    return build_app(partial(open_services, dag_states=DagStatesInTime()), AirflowAuth(timeout), timeout)


class MountedApp(FastAPI):
    """Builds the app when the API server starts, or with the first request, in a thread: its imports take about a second."""

    def __init__(self, build: Callable[[], FastAPI] = build_mounted) -> None:
        super().__init__(lifespan=_with_the_server)
        self._build = build
        self._app: FastAPI | None = None
        self._guarded: ASGIApp | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = self._guarded or await self._build_once()
        await guarded(scope, receive, send)

    async def open_ahead(self) -> None:
        """Build the app and open its services, within the time limit for a server's start."""
        from airflow_snowpack.api.app import open_ahead

        try:
            await self._build_once()
        except Exception:  # Airflow starts anyway; the next request tries again and reports the reason
            log.exception("The Snowpack app could not be built ahead of the first request.")
        if self._app is not None:
            await open_ahead(self._app.state.services)

    def close(self) -> None:
        if self._app is not None:
            self._app.state.services.close()

    async def _build_once(self) -> ASGIApp:
        async with self._building:
            if self._guarded is None:
                self._guarded = await asyncio.to_thread(self._assemble)
        return self._guarded

    def _assemble(self) -> ASGIApp:
        from airflow_snowpack.plugin.airflow_auth import AccessGuard

        self._app = self._build()
        return AccessGuard(self._app)


@asynccontextmanager
async def _with_the_server(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, MountedApp)
    await app.open_ahead()
    yield
    app.close()
