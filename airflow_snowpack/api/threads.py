"""Handlers in threads of our own.

A plain ``def`` handler of FastAPI runs in the forty threads that the whole server shares. Mounted in Airflow's API server, ours
could take all of them while a catalog hangs, and Airflow's own routes would stand still. So ours have threads apart.

    router = APIRouter(route_class=Threaded)
"""

import functools
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi.routing import APIRoute

THREADS = 16
_limiter: RunVar[CapacityLimiter] = RunVar("airflow_snowpack.api.threads")


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in one of our threads; whoever finds none free waits in line."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, *arguments, limiter=limiter)


class Threaded(APIRoute):
    """A route whose ``def`` handler runs in one of our threads."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _threaded(endpoint), **options)


def _threaded(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    async def call(**values: Any) -> Any:
        return await in_thread(functools.partial(handler, **values))

    return call
