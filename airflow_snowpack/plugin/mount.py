"""The app as Airflow mounts it: built by the first request, in a thread, and never by a process that serves none.

The invariant: it is built once; a build that fails leaves nothing behind, and the next request tries again.

    fastapi_apps = [{"app": LazyApp(), "url_prefix": "/snowpack", "name": "Snowpack"}]
"""

from __future__ import annotations

import asyncio
import atexit
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from starlette.types import ASGIApp, Receive, Scope, Send


def build_mounted() -> FastAPI:
    """Our app, with Airflow's users and Airflow's connections."""
    from airflow_snowpack.api import build_app
    from airflow_snowpack.plugin.airflow_auth import AirflowAuth
    from airflow_snowpack.plugin.opening import open_services

    return build_app(open_services, AirflowAuth())


class LazyApp:
    """An ASGI app that becomes ours when it is first asked.

    :param build: makes it; it takes a second of imports, which must not hold up Airflow's own answers.
    """

    def __init__(self, build: Callable[[], FastAPI] = build_mounted) -> None:
        self._build = build
        self._guarded: ASGIApp | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = self._guarded or await self._build_once()
        await guarded(scope, receive, send)

    async def _build_once(self) -> ASGIApp:
        async with self._building:
            if self._guarded is None:
                self._guarded = await asyncio.to_thread(self._assemble)
        return self._guarded

    def _assemble(self) -> ASGIApp:
        from airflow_snowpack.plugin.gate import Gate

        app = self._build()
        # Airflow starts and ends the lifespan only of apps that are FastAPI's own when it mounts them.
        atexit.register(app.state.services.close)
        return Gate(app)
