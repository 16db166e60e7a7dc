"""How requests reach handlers: names in paths, links, threads of our own, and strict query parameters.

router = APIRouter(route_class=Strict)

@router.get("/tables/{database:name}/{table:name}")
def get(database: str, table: str) -> …:        # runs in one of our threads
"""

import functools
from collections import Counter
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, get_args, get_origin
from urllib.parse import parse_qsl, urlencode

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor

from airflow_snowpack.api.auth import reader_of
from airflow_snowpack.api.problems import InvalidRequest

THREADS = 16
_limiter: RunVar[CapacityLimiter] = RunVar("airflow_snowpack.api.routing")


class NameConvertor(StringConvertor):
    """One level of a path. An empty one is an invalid name, not a route that does not exist."""

    regex = "[^/]*"


register_url_convertor("name", NameConvertor())


def link_to(request: Request, path: str) -> str:
    """Return the path below the root path of the app, such as ``/snowpack/jobs/…`` when it is mounted in Airflow."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/") + path


def link_to_next(request: Request, path: str, cursor: str) -> str:
    """Return a ``Link`` header for the page that begins at the cursor, with the filter of this request."""
    given = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    query = [(name, value) for name, value in given if name != "cursor"]
    return f'<{link_to(request, path)}?{urlencode([*query, ("cursor", cursor)])}>; rel="next"'


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in one of our threads, and wait for a free one if necessary."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, *arguments, limiter=limiter)


class Threaded(APIRoute):
    """A route whose ``def`` handler runs in one of our threads.

    FastAPI runs such handlers in the forty threads that the whole server shares. Mounted in Airflow's API server, ours could
    take all of them while a catalog hangs, and Airflow's own routes would not answer.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _threaded(endpoint), **options)


def _threaded(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    async def call(**values: Any) -> Any:
        return await in_thread(functools.partial(handler, **values))

    return call


class Strict(Threaded):
    """A route that refuses a query parameter that it does not know, or a second value where it takes one.

    To ignore a misspelt ``?statsu=failed`` would be to cancel, or to delete, every job.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        known = [each for each in options.pop("dependencies", None) or () if each.dependency is not _refuse_unknown]
        super().__init__(path, endpoint, dependencies=[*known, Depends(_refuse_unknown)], **options)
        fields = _query_fields(self.dependant)
        self.query_names = frozenset(field.alias for field in fields)
        self.repeatable = frozenset(field.alias for field in fields if _is_list(field.field_info.annotation))


def _query_fields(dependant: Dependant) -> list[Any]:
    """Return the query parameters of a handler and of all its dependencies."""
    return [*dependant.query_params, *(field for each in dependant.dependencies for field in _query_fields(each))]


async def _refuse_unknown(request: Request) -> None:
    # It runs before the dependencies of the handler: an unauthenticated client learns nothing, not even which names exist.
    await reader_of(request)
    route: Strict = request.scope["route"]
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = [name for name in given if name not in route.query_names]
    twice = [name for name, times in given.items() if times > 1 and name not in route.repeatable]
    if twice and not unknown:
        raise InvalidRequest.at(f"query.{twice[0][:60]}", "it is given more than once, and takes one value")
    if unknown:
        allowed = f"allowed: {', '.join(sorted(route.query_names))}" if route.query_names else "this route has none"
        raise InvalidRequest.at(f"query.{unknown[0][:60]}", f"there is no such parameter; {allowed}")


def _is_list(annotation: Any) -> bool:
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))
