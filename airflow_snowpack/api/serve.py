"""Serves the app alone, under uvicorn.

    serve(build_app(open_services, TokenAuth(token)), "127.0.0.1", 8085)

It ends on SIGTERM and SIGINT: requests that are under way are answered first. It imports nothing of Airflow.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

GRACE = timedelta(seconds=10)


def serve(app: FastAPI, host: str = "127.0.0.1", port: int = 8085, *, root_path: str = "", grace: timedelta = GRACE) -> None:
    """Serve until the process is told to end.

    :param root_path: the prefix that a proxy in front of it takes away; links in answers begin with it.
    :param grace: how long requests that are under way may take at the end.
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
